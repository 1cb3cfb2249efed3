#pragma once

#include <array>
#include <bit>
#include <cstdint>

/// IP addresses as they stand in headers. IpAddress::v4() and v6() make the stack's address of
/// them.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a compare or two each.
/// Errors:     none.

namespace pinion::wire {

using Ipv4Address = std::array<std::uint8_t, 4>;
using Ipv6Address = std::array<std::uint8_t, 16>;

[[nodiscard]] constexpr bool is_unspecified(const Ipv6Address& address) noexcept {
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(address);
  return (words[0] | words[1]) == 0;
}

/// ff00::/8.
[[nodiscard]] constexpr bool is_multicast(const Ipv6Address& address) noexcept {
  return address[0] == 0xff;
}

/// fe80::/10.
[[nodiscard]] constexpr bool is_link_local(const Ipv6Address& address) noexcept {
  return address[0] == 0xfe && (address[1] & 0xc0U) == 0x80U;
}

/// The group in which whoever has `address` listens for solicitations (RFC 4291, 2.7.1).
[[nodiscard]] constexpr Ipv6Address solicited_node_of(const Ipv6Address& address) noexcept {
  return {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, address[13], address[14], address[15]};
}

/// Whether `address` is such a group: ff02::1:ff00:0/104.
[[nodiscard]] constexpr bool is_solicited_node(const Ipv6Address& address) noexcept {
  return address == solicited_node_of(address);
}

}  // namespace pinion::wire

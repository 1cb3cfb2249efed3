#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/assert.h>
#include <pinion/net/address.h>
#include <pinion/net/device.h>

#include "../wire/ip_address.h"

/// What an IP address says of itself: its kind, its scope, the prefixes it lies in.
///
/// Ownership:  pure functions and values.
/// Threading:  any.
/// Cost:       a few compares.
/// Errors:     none.

namespace pinion {

/// An IPv4 address as it stands in headers.
[[nodiscard]] constexpr std::array<std::uint8_t, 4> v4_bytes(const IpAddress& address) noexcept {
  PINION_DCHECK(address.is_v4());
  const auto& bytes = address.bytes();
  return {bytes[0], bytes[1], bytes[2], bytes[3]};
}

/// An IPv4 address as a number.
[[nodiscard]] constexpr std::uint32_t v4_value(const IpAddress& address) noexcept {
  const auto& bytes = address.bytes();
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

/// The address as words to hash.
[[nodiscard]] constexpr std::array<std::uint64_t, 2> words_of(const IpAddress& address) noexcept {
  return std::bit_cast<std::array<std::uint64_t, 2>>(address.bytes());
}

/// The longest payload of a datagram without options to `address`: IPv4's length counts the header,
/// IPv6's doesn't.
[[nodiscard]] constexpr std::size_t most_payload(const IpAddress& address) noexcept {
  return address.is_v4() ? 65'535 - 20 : 65'535;
}

/// 0.0.0.0 or ::.
[[nodiscard]] constexpr bool is_unspecified(const IpAddress& address) noexcept {
  return wire::is_unspecified(address.bytes());
}

/// 127.0.0.0/8 or ::1.
[[nodiscard]] constexpr bool is_loopback(const IpAddress& address) noexcept {
  if (address.is_v4()) return address.bytes()[0] == 127;
  std::array<std::uint8_t, 16> one{};
  one[15] = 1;
  return address.bytes() == one;
}

/// 224.0.0.0/4 or ff00::/8.
[[nodiscard]] constexpr bool is_multicast(const IpAddress& address) noexcept {
  const std::uint8_t first = address.bytes()[0];
  return address.is_v4() ? (first & 0xf0U) == 0xe0 : wire::is_multicast(address.bytes());
}

/// 255.255.255.255.
[[nodiscard]] constexpr bool is_limited_broadcast(const IpAddress& address) noexcept {
  return address == IpAddress::v4({255, 255, 255, 255});
}

/// 169.254.0.0/16 or fe80::/10.
[[nodiscard]] constexpr bool is_link_local(const IpAddress& address) noexcept {
  const auto& bytes = address.bytes();
  if (address.is_v4()) return bytes[0] == 169 && bytes[1] == 254;
  return wire::is_link_local(bytes);
}

/// ::ffff:0:0/96, which has no business on a wire.
[[nodiscard]] constexpr bool is_v4_mapped(const IpAddress& address) noexcept {
  if (address.is_v4()) return false;
  const auto& bytes = address.bytes();
  return std::ranges::all_of(bytes.begin(), bytes.begin() + 10, [](auto b) { return b == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

/// Whether `address` can never be that of one host: what a source address must not be, except the
/// unspecified one where a protocol says so. 240.0.0.0/4 is reserved (RFC 1122, 3.2.1.3), 0.0.0.0/8
/// means "this host on this network".
[[nodiscard]] constexpr bool is_never_a_host(const IpAddress& address) noexcept {
  if (address.is_v4()) return address.bytes()[0] == 0 || address.bytes()[0] >= 224;
  return is_multicast(address) || is_unspecified(address) || is_v4_mapped(address);
}

/// How far an address reaches, with the numbers of RFC 4291, 2.7.
enum class IpScope : std::uint8_t { interface_local = 1, link_local = 2, global = 14 };

/// RFC 6724, 3.1 and 3.2: a multicast address has its scope written in it, loopback counts as
/// link-local, private IPv4 addresses count as global.
[[nodiscard]] constexpr IpScope scope_of(const IpAddress& address) noexcept {
  if (address.is_v6() && is_multicast(address)) {
    const unsigned scope = address.bytes()[1] & 0x0fU;
    if (scope <= 1) return IpScope::interface_local;
    return scope == 2 ? IpScope::link_local : IpScope::global;
  }
  if (address.is_v4() && is_multicast(address)) {
    const auto& bytes = address.bytes();
    const bool on_link = bytes[0] == 224 && bytes[1] == 0 && bytes[2] == 0;
    return on_link ? IpScope::link_local : IpScope::global;
  }
  return is_link_local(address) || is_loopback(address) ? IpScope::link_local : IpScope::global;
}

/// How many leading bits two addresses of one family share.
[[nodiscard]] constexpr unsigned common_prefix(const IpAddress& a, const IpAddress& b) noexcept {
  PINION_DCHECK(a.is_v4() == b.is_v4());
  const unsigned bytes = a.is_v4() ? 4 : 16;
  for (unsigned i = 0; i < bytes; ++i) {
    const auto differ = static_cast<std::uint8_t>(a.bytes()[i] ^ b.bytes()[i]);
    if (differ != 0) return i * 8 + static_cast<unsigned>(std::countl_zero(differ));
  }
  return bytes * 8;
}

/// An address and how many of its leading bits count.
struct IpPrefix {
  IpAddress address;
  std::uint8_t length = 0;

  [[nodiscard]] constexpr std::uint8_t longest() const noexcept {
    return address.is_v4() ? 32 : 128;
  }
  [[nodiscard]] constexpr bool contains(const IpAddress& other) const noexcept {
    if (other.is_v4() != address.is_v4()) return false;
    if (address.is_v6()) return common_prefix(address, other) >= length;
    const std::uint32_t differ = v4_value(address) ^ v4_value(other);
    return length <= 32 && (std::uint64_t{differ} << length) >> 32 == 0;
  }
  /// Whether both mean the same addresses.
  [[nodiscard]] constexpr bool same_as(const IpPrefix& other) const noexcept {
    return length == other.length && contains(other.address);
  }

  /// The directed broadcast address of an IPv4 prefix. A /31 and a /32 have none (RFC 3021).
  [[nodiscard]] constexpr bool is_broadcast(const IpAddress& other) const noexcept {
    if (address.is_v6() || length >= 31 || !contains(other)) return false;
    return v4_value(other) == broadcast();
  }
  /// The same as a number, of an IPv4 prefix; 255.255.255.255 where there is none.
  [[nodiscard]] constexpr std::uint32_t broadcast() const noexcept {
    PINION_DCHECK(address.is_v4());
    constexpr std::uint32_t kAll = ~std::uint32_t{0};
    return length >= 31 ? kAll : v4_value(address) | kAll >> length;
  }
};

/// The multicast group to which neighbour solicitations for `address` go (RFC 4291, 2.7.1).
[[nodiscard]] constexpr IpAddress solicited_node(const IpAddress& address) noexcept {
  PINION_DCHECK(address.is_v6());
  return IpAddress::v6(wire::solicited_node_of(address.bytes()));
}

/// ff02::1.
[[nodiscard]] constexpr IpAddress all_nodes() noexcept {
  std::array<std::uint8_t, 16> group{0xff, 0x02};
  group[15] = 1;
  return IpAddress::v6(group);
}

/// The Ethernet address of a multicast group: RFC 1112, 6.4, and RFC 2464, 7.
[[nodiscard]] constexpr MacAddress multicast_mac(const IpAddress& group) noexcept {
  const auto& bytes = group.bytes();
  if (group.is_v4()) {
    return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(bytes[1] & 0x7fU), bytes[2], bytes[3]};
  }
  return {0x33, 0x33, bytes[12], bytes[13], bytes[14], bytes[15]};
}

/// The link-local address made of an Ethernet address (RFC 4291, 2.5.6 and appendix A).
[[nodiscard]] constexpr IpAddress link_local_of(const MacAddress& mac) noexcept {
  std::array<std::uint8_t, 16> bytes{0xfe, 0x80};
  bytes[8] = static_cast<std::uint8_t>(mac[0] ^ 0x02U);
  bytes[9] = mac[1];
  bytes[10] = mac[2];
  bytes[11] = 0xff;
  bytes[12] = 0xfe;
  bytes[13] = mac[3];
  bytes[14] = mac[4];
  bytes[15] = mac[5];
  return IpAddress::v6(bytes);
}

}  // namespace pinion

#pragma once

#include <cstdint>

#include <pinion/net/address.h>

/// Which addresses a TCP connection may have (RFC 9293, 3.9.2.3; MUST-46, MUST-57, MUST-63).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few compares.
/// Errors:     none.

namespace pinion {

/// 0.0.0.0 or ::.
[[nodiscard]] constexpr bool is_unspecified(const IpAddress& address) noexcept {
  return address == IpAddress() || address == IpAddress::v6({});
}

/// Neither unspecified nor multicast, nor the limited broadcast address. Broadcasts of a network
/// are known to the IP layer alone.
[[nodiscard]] constexpr bool is_unicast(const IpAddress& address) noexcept {
  if (is_unspecified(address)) return false;
  const std::uint8_t first = address.bytes()[0];
  if (address.is_v6()) return first != 0xff;
  return first < 224 || first >= 240 ? address != IpAddress::v4({255, 255, 255, 255}) : false;
}

}  // namespace pinion

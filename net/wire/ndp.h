#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/net/device.h>

#include "icmp.h"
#include "ip_address.h"
#include "wire_fault.h"

/// Neighbor discovery for IPv6 over Ethernet (RFC 4861, RFC 2464).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few compares, and a walk over the options: 8 bytes or more each.
/// Errors:     a WireFault for whatever RFC 4861 has dropped in silence (6.1, 7.1). Router messages
///             are recognised and checked, not read further: there is no SLAAC.

namespace pinion::wire {

struct NdpMessage {
  /// The type: a router or neighbor solicitation or advertisement.
  IcmpV6Type type = IcmpV6Type::neighbor_solicitation;
  bool router = false;     ///< Of an advertisement: R.
  bool solicited = false;  ///< S.
  bool overrides = false;  ///< O.
  Ipv6Address target{};    ///< Of neighbor messages.
  /// Solicitations: the source's; neighbor advertisements: the target's.
  std::optional<MacAddress> mac = std::nullopt;

  friend bool operator==(const NdpMessage&, const NdpMessage&) noexcept = default;
};

/// The most that emit_ndp() writes.
inline constexpr std::size_t kMaxNdpSize = 32;

/// The hop limit of every message, so that none from beyond the link is taken.
inline constexpr std::uint8_t kNdpHopLimit = 255;

/// Whether parse_ndp() is for this message.
[[nodiscard]] constexpr bool is_ndp(const IcmpMessage& message) noexcept {
  return message.is(IcmpV6Type::router_solicitation) ||
         message.is(IcmpV6Type::router_advertisement) ||
         message.is(IcmpV6Type::neighbor_solicitation) ||
         message.is(IcmpV6Type::neighbor_advertisement);
}

/// What a message's IPv6 header says.
struct NdpEnvelope {
  Ipv6Address source{};
  Ipv6Address destination{};
  std::uint8_t hop_limit = kNdpHopLimit;
};

/// The message that is all of `bytes`, ICMPv6 header included, its checksum verified; `header` is
/// that header, for which is_ndp().
[[nodiscard]] Parsed<NdpMessage> parse_ndp(const IcmpMessage& header,
                                           std::span<const std::byte> bytes,
                                           const NdpEnvelope& envelope) noexcept;

/// Writes a neighbor solicitation or advertisement, with an ICMPv6 header whose checksum is 0, to
/// the front of `into`, which has room for it; returns its size.
std::size_t emit_ndp(const NdpMessage& message, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

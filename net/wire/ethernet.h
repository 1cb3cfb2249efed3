#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/assert.h>
#include <pinion/net/device.h>

#include "byte_order.h"
#include "wire_fault.h"

/// Ethernet II headers, with up to two VLAN tags (IEEE 802.1Q).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       without tags two compares and three loads, inline.
/// Errors:     a WireFault. Emitting what can't be parsed again is refused by an assertion.

namespace pinion::wire {

/// What stands behind an Ethernet header or a tag. Any other value may stand there too.
enum class EtherType : std::uint16_t {
  ipv4 = 0x0800,
  arp = 0x0806,
  vlan = 0x8100,
  ipv6 = 0x86dd,
  service_vlan = 0x88a8,
};

/// Below it stands the length of an IEEE 802.3 frame.
inline constexpr std::uint16_t kSmallestEtherType = 0x0600;

[[nodiscard]] constexpr bool is_vlan(EtherType type) noexcept {
  return type == EtherType::vlan || type == EtherType::service_vlan;
}

struct VlanTag {
  EtherType type = EtherType::vlan;  ///< Under which the tag stands: vlan or service_vlan.
  std::uint8_t priority = 0;         ///< 0 … 7.
  bool drop_eligible = false;
  std::uint16_t id = 0;  ///< 0 … 4095.

  friend bool operator==(const VlanTag&, const VlanTag&) noexcept = default;
};

struct EthernetHeader {
  static constexpr std::size_t kMinSize = 14;
  static constexpr std::size_t kTagSize = 4;
  static constexpr std::size_t kMaxTags = 2;

  MacAddress destination{};
  MacAddress source{};
  EtherType type = EtherType::ipv4;  ///< Of what is behind the tags.
  std::uint8_t tag_count = 0;
  std::array<VlanTag, kMaxTags> tags{};  ///< The outer one first; the first `tag_count` count.

  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return kMinSize + kTagSize * tag_count;
  }

  friend bool operator==(const EthernetHeader&, const EthernetHeader&) noexcept = default;
};

inline constexpr MacAddress kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/// Whether the address is a group's; the broadcast address is one.
[[nodiscard]] constexpr bool is_multicast(const MacAddress& address) noexcept {
  return (address[0] & 1U) != 0;
}

/// Reads the tags behind the addresses that `header` has already.
[[nodiscard]] Parsed<EthernetHeader> parse_ethernet_tags(EthernetHeader header,
                                                         std::span<const std::byte> frame) noexcept;

/// The header at the front of `frame`; what it carries begins at size().
[[nodiscard]] inline Parsed<EthernetHeader> parse_ethernet(
    std::span<const std::byte> frame) noexcept {
  if (frame.size() < EthernetHeader::kMinSize) {
    return tl::unexpected(WireFault::ethernet_truncated);
  }
  EthernetHeader header;
  header.destination = load_bytes<6>(frame.data());
  header.source = load_bytes<6>(frame.data() + 6);
  header.type = static_cast<EtherType>(load_be16(frame.data() + 12));
  if (is_vlan(header.type)) [[unlikely]] {
    return parse_ethernet_tags(header, frame);
  }
  if (static_cast<std::uint16_t>(header.type) < kSmallestEtherType) [[unlikely]] {
    return tl::unexpected(WireFault::ethernet_type);
  }
  return header;
}

/// Writes the header to the front of `into`, which has room for it; returns its size.
std::size_t emit_ethernet(const EthernetHeader& header, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tl/expected.hpp>

/// Why bytes from the wire were not what their place says they are. Each reason has its own
/// counter: `std::array<std::uint64_t, kWireFaults>`, indexed by wire_fault_index().
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       one byte; a parser's answer holds no text.
/// Errors:     none.

namespace pinion::wire {

enum class WireFault : std::uint8_t {
  ethernet_truncated,   ///< Ends within the header or a VLAN tag.
  ethernet_type,        ///< A length in the type's place: IEEE 802.3, not Ethernet II.
  ethernet_vlan_depth,  ///< More than two VLAN tags.

  arp_truncated,
  arp_hardware,   ///< Not of Ethernet, or not with its addresses' size.
  arp_protocol,   ///< Not of IPv4, or not with its addresses' size.
  arp_operation,  ///< Neither request nor reply.

  ipv4_truncated,
  ipv4_version,
  ipv4_header_length,     ///< Below 20, or more than has arrived.
  ipv4_total_length,      ///< Below the header's, or more than has arrived.
  ipv4_checksum,          ///< Of the header.
  ipv4_option_length,     ///< Too short for what the option is.
  ipv4_option_overrun,    ///< The option ends behind the header.
  ipv4_option_pointer,    ///< A route or timestamp option points where it has no slot.
  ipv4_fragment_size,     ///< Empty, or not the last and not a multiple of 8.
  ipv4_fragment_overrun,  ///< The whole datagram would be longer than 65,535 bytes.

  ipv6_truncated,
  ipv6_version,
  ipv6_payload_length,       ///< More than has arrived.
  ipv6_extension_truncated,  ///< An extension header ends behind the payload.
  ipv6_extension_order,      ///< Hop-by-hop options not first, or a fragment within a fragment.
  ipv6_extension_count,      ///< More extension headers than are walked.
  ipv6_option_overrun,       ///< The option ends behind its header.
  ipv6_option_count,         ///< More options, or more padding, than are walked.
  ipv6_option_unknown,       ///< An unknown option that says: discard.
  ipv6_routing,              ///< An unknown routing type with segments left.
  ipv6_fragment_size,        ///< Empty, or not the last and not a multiple of 8.
  ipv6_fragment_overrun,     ///< The whole payload would be longer than 65,535 bytes.

  icmp_truncated,
  icmp_checksum,
  icmp_quote,  ///< An error message that doesn't show whose datagram it complains of.

  ndp_truncated,
  ndp_hop_limit,       ///< Not 255: it comes from beyond the link.
  ndp_code,            ///< Not 0.
  ndp_source,          ///< No source that such a message may have.
  ndp_destination,     ///< No destination that such a message may have.
  ndp_target,          ///< A multicast or unspecified target.
  ndp_solicited,       ///< Says that it answers, to everybody.
  ndp_source_option,   ///< A source link-layer address without a source address.
  ndp_option_length,   ///< 0, or not that of an Ethernet address.
  ndp_option_overrun,  ///< The option ends behind the message.

  udp_truncated,
  udp_length,            ///< Below 8, or more than has arrived.
  udp_checksum,          ///< Wrong, or missing over IPv6.
  udp_checksum_partial,  ///< Left to a NIC that isn't there: see partial_checksum().

  tcp_truncated,
  tcp_header_length,  ///< Below 20, or more than has arrived.
  tcp_checksum,
  tcp_checksum_partial,  ///< Left to a NIC that isn't there: see partial_checksum().
  tcp_option_length,     ///< Below 2, or not that of the option.
  tcp_option_overrun,    ///< The option ends behind the header.
  tcp_flags,             ///< A combination that no stack sends.
  tcp_port,              ///< Port 0.
};

inline constexpr std::size_t kWireFaults = static_cast<std::size_t>(WireFault::tcp_port) + 1;

[[nodiscard]] constexpr std::size_t wire_fault_index(WireFault fault) noexcept {
  return static_cast<std::size_t>(fault);
}

/// The enumerator's name.
[[nodiscard]] std::string_view to_string(WireFault fault) noexcept;

/// What a parser answers: the value, or why there is none.
template <class T>
using Parsed = tl::expected<T, WireFault>;

}  // namespace pinion::wire

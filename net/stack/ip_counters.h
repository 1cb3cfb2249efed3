#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "../wire/wire_fault.h"

/// What the IP layer has done, and why it dropped what it dropped.
///
/// Ownership:  a value.
/// Threading:  that of its stack.
/// Cost:       an increment each.
/// Errors:     none. Each drop is counted under exactly one reason.

namespace pinion {

struct IpCounters {
  // Packets that arrived, and what became of them.
  std::uint64_t packets_in = 0;
  std::uint64_t delivered = 0;            ///< To a transport or to ICMP.
  std::uint64_t header_split = 0;         ///< The headers don't fit in one segment.
  std::uint64_t frame_other_host = 0;     ///< Not to our Ethernet address.
  std::uint64_t frame_ours = 0;           ///< From our Ethernet address: an echo of what we sent.
  std::uint64_t frame_type = 0;           ///< Neither IP nor ARP, or a tag of a VLAN.
  std::uint64_t frame_group = 0;          ///< To many on the link, to one of us (RFC 1122, 3.3.6).
  std::uint64_t source_martian = 0;       ///< No host can have it (RFC 1122, 3.2.1.3).
  std::uint64_t source_ours = 0;          ///< Our own address, from outside.
  std::uint64_t destination_martian = 0;  ///< A loopback address, from outside.
  std::uint64_t not_for_us = 0;
  std::uint64_t source_route = 0;  ///< Refused.
  std::uint64_t protocol_unknown = 0;
  std::uint64_t no_next_header = 0;  ///< IPv6 headers with nothing behind them.
  std::uint64_t in_no_packet = 0;    ///< No packet left to copy or gather it to.

  // Fragments.
  std::uint64_t fragments_in = 0;
  std::uint64_t reassembled = 0;
  std::uint64_t fragment_overlap = 0;    ///< The datagram with it.
  std::uint64_t fragment_condemned = 0;  ///< Of such a datagram, later.
  std::uint64_t fragment_repeated = 0;
  std::uint64_t fragment_too_many = 0;     ///< The datagram with it.
  std::uint64_t fragment_no_room = 0;      ///< The datagram with it.
  std::uint64_t fragment_ecn = 0;          ///< The datagram: some with CE, some without ECN.
  std::uint64_t fragment_header = 0;       ///< The first lacks a part of the headers (RFC 7112).
  std::uint64_t reassembly_displaced = 0;  ///< Datagrams that gave way to younger ones.
  std::uint64_t reassembly_timeout = 0;    ///< Datagrams.

  // ICMP.
  std::uint64_t echo_requests = 0;
  std::uint64_t echo_to_group = 0;   ///< Not answered.
  std::uint64_t icmp_errors_in = 0;  ///< Passed to a transport.
  std::uint64_t icmp_not_ours = 0;   ///< Quotes what we can't have sent.
  std::uint64_t icmp_redirect = 0;   ///< Not followed.
  std::uint64_t icmp_ignored = 0;    ///< Types that mean nothing to us.
  std::uint64_t icmp_errors_out = 0;
  std::uint64_t icmp_not_answered = 0;  ///< What must not draw an error (RFC 1122, 3.2.2).
  std::uint64_t icmp_rate_limited = 0;

  // Neighbours and our own addresses.
  std::uint64_t neighbour_solicitations = 0;  ///< Sent.
  std::uint64_t neighbour_requests = 0;       ///< For us, answered.
  std::uint64_t neighbour_ignored = 0;        ///< ARP and NDP between others; router messages.
  std::uint64_t neighbour_bad = 0;            ///< Breaks the rules of ARP or NDP.
  std::uint64_t neighbour_not_asked = 0;      ///< Answers that nobody had asked for.
  std::uint64_t neighbour_cache_full = 0;     ///< Nobody was asked, the packet dropped.
  std::uint64_t neighbour_queue_full = 0;     ///< A packet that waited for an answer gave way.
  std::uint64_t neighbours_displaced = 0;     ///< Out of use, for one that is in use.
  std::uint64_t neighbours_unreachable = 0;   ///< Asked in vain.
  std::uint64_t address_duplicate = 0;        ///< Addresses that somebody else has, given up.
  std::uint64_t address_conflict = 0;         ///< Claims to an address that we use.

  // Packets that leave.
  std::uint64_t packets_out = 0;
  std::uint64_t looped_back = 0;  ///< To ourselves.
  std::uint64_t fragments_out = 0;
  std::uint64_t no_route = 0;
  std::uint64_t no_source = 0;      ///< The source address isn't ours.
  std::uint64_t out_too_big = 0;    ///< Longer than the path's MTU, and must not be fragmented.
  std::uint64_t out_no_packet = 0;  ///< No packet left for headers or fragments.
  std::uint64_t loopback_full = 0;
  std::uint64_t tx_queue_full = 0;

  /// What the parsers refused.
  std::array<std::uint64_t, wire::kWireFaults> malformed{};

  void count(wire::WireFault fault) noexcept { ++malformed[wire_fault_index(fault)]; }
};

/// One of them, but for the malformed ones, whose names wire_fault.h has.
struct IpCounter {
  std::uint64_t IpCounters::* member;
  std::string_view name;  ///< That of the member.
};

[[nodiscard]] std::span<const IpCounter> ip_counters() noexcept;

}  // namespace pinion

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "../wire/wire_fault.h"

/// What the TCP layer has done, and why it dropped what it dropped.
///
/// Ownership:  plain values.
/// Threading:  the layer's lcore.
/// Cost:       one addition per event.
/// Errors:     none.

namespace pinion {

/// Why an arriving segment, or a part of it, was not taken.
enum class TcpDrop : std::uint8_t {
  broadcast,           ///< To a broadcast or multicast address (RFC 9293, MUST-57).
  address,             ///< Of two families, or an IPv4 address in disguise.
  no_listener,         ///< Of no connection, and nobody listens; answered by a reset.
  no_such_connection,  ///< A reset, or a segment that says nothing, of no connection.
  listen_flags,        ///< At a listener, neither SYN nor the ACK of a handshake.
  backlog_full,        ///< The connections that wait to be accepted are as many as may.
  packets_scarce,      ///< A SYN, when most packets are in use.
  no_connection_slot,  ///< All connections are in use.
  syn_sent_ack,        ///< In SYN-SENT, an ACK of something else (3.10.7.3).
  no_ack_flag,         ///< Neither SYN nor RST, and no ACK (3.10.7.4, fifth).
  paws,                ///< Older than what came before (RFC 7323, 5).
  no_timestamp,        ///< Timestamps were agreed on, and it has none (RFC 7323, 3.2).
  out_of_window,       ///< No part of it lies in the receive window (3.10.7.4, first).
  reset_out_of_window,
  reset_challenged,    ///< In the window, but not at its first byte (RFC 5961, 3).
  syn_challenged,      ///< SYN in a synchronized state (RFC 5961, 4).
  ack_too_new,         ///< Of something never sent (3.10.7.4, fifth).
  ack_too_old,         ///< RFC 5961, 5.
  handshake_ack,       ///< In SYN-RECEIVED, an ACK of something else.
  data_after_fin,      ///< Behind the peer's own FIN.
  data_after_close,    ///< Nobody would read it.
  duplicate_data,      ///< Received before.
  no_room,             ///< Data that there was no memory for.
  time_wait,           ///< In TIME-WAIT, and no reason to do more than acknowledge it.
  complaint_unknown,   ///< ICMP: of no connection, or too short.
  complaint_sequence,  ///< ICMP: of nothing that is in flight (RFC 5927, 4.1).
  complaint_mtu,       ///< ICMP: too big for a path that takes less already.
};

inline constexpr std::size_t kTcpDrops = static_cast<std::size_t>(TcpDrop::complaint_mtu) + 1;

/// The enumerator's name.
[[nodiscard]] std::string_view to_string(TcpDrop drop) noexcept;

struct TcpStats {
  std::uint64_t segments_in = 0;
  std::uint64_t segments_out = 0;
  std::uint64_t bytes_in = 0;   ///< Of data, each once.
  std::uint64_t bytes_out = 0;  ///< Of data, acknowledged.

  std::uint64_t active_opens = 0;
  std::uint64_t passive_opens = 0;       ///< Handshakes completed at listeners.
  std::uint64_t cookie_opens = 0;        ///< Of these, by SYN cookie.
  std::uint64_t half_open_timeouts = 0;  ///< Passive opens that were never completed.
  std::uint64_t ended = 0;               ///< Connections that are over.

  std::uint64_t resets_in = 0;  ///< Of connections; those were ended by them.
  std::uint64_t resets_out = 0;
  std::uint64_t connections_reset = 0;  ///< By us, whatever the reason; of `resets_out`.
  std::uint64_t challenge_acks = 0;
  std::uint64_t challenge_acks_withheld = 0;  ///< By their limit (RFC 5961, 7).

  std::uint64_t retransmitted_segments = 0;
  std::uint64_t retransmission_timeouts = 0;
  std::uint64_t fast_retransmits = 0;
  std::uint64_t window_probes = 0;
  std::uint64_t keepalive_probes = 0;
  std::uint64_t window_updates = 0;
  std::uint64_t delayed_acks = 0;  ///< Those that waited for their whole delay.

  std::uint64_t peer_timeouts = 0;
  std::uint64_t keepalive_timeouts = 0;
  std::uint64_t connect_timeouts = 0;
  std::uint64_t orphan_timeouts = 0;    ///< Closed, and the peer took no more of what was written.
  std::uint64_t orphans_displaced = 0;  ///< Closed, and somebody else needed the place.
  std::uint64_t connects_refused = 0;
  std::uint64_t shed_bytes = 0;      ///< Given up behind holes, of packets, when these were scarce.
  std::uint64_t out_of_packets = 0;  ///< Segments that were put off since the pool was empty.

  std::array<std::uint64_t, kTcpDrops> drops{};
  std::array<std::uint64_t, wire::kWireFaults>
      faults{};  ///< Segments that were no TCP, or not trusted.

  [[nodiscard]] std::uint64_t dropped(TcpDrop why) const noexcept {
    return drops[static_cast<std::size_t>(why)];
  }
  [[nodiscard]] std::uint64_t faulty(wire::WireFault why) const noexcept {
    return faults[wire::wire_fault_index(why)];
  }
};

}  // namespace pinion

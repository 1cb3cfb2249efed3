#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/time.h>

/// What can be set of the TCP layer, and of one connection.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a connection keeps its settings in 24 bytes: times in milliseconds, rounded up.
/// Errors:     what lies outside its range is moved to the nearest bound.

namespace pinion {

/// When to ask a silent peer whether it is still there (RFC 1122, 4.2.3.6).
struct TcpKeepalive {
  Delay idle = kNoTimeout;  ///< Silence before the first probe, 1 s and more; kNoTimeout: off.
  Delay interval = std::chrono::seconds{10};  ///< Between probes, 100 ms and more.
  int probes = 3;  ///< Unanswered ones before the connection is reset, 1 to 127.
};

/// Of one connection; of a listener, those of the connections that it accepts.
struct TcpSocketOptions {
  bool no_delay = false;  ///< Sends small segments at once: no Nagle (RFC 9293, 3.7.4).
  TcpKeepalive keepalive = {};
  /// How long sent bytes may go unacknowledged (RFC 5482, R2 of RFC 9293, 3.8.3); kNoTimeout: as
  /// long as the layer's retransmission limit says.
  Delay user_timeout = kNoTimeout;
  std::uint8_t traffic_class = 0;  ///< DSCP, in the upper six bits; those of ECN are ignored.
  std::uint16_t max_segment = 0;   ///< The most bytes in a segment, 88 and more; 0: the path's.
  std::uint32_t send_buffer =
      256 * 1024;  ///< Bytes written and not acknowledged, 4 KiB to 512 MiB.
  std::uint32_t receive_buffer = 256 * 1024;  ///< Bytes received and not read, 4 KiB to 512 MiB.
};

struct TcpListenOptions {
  TcpSocketOptions socket = {};
  std::uint32_t backlog = 128;  ///< Connections that wait to be accepted, 1 and more.
};

/// Of the layer: its bounds, all of whose memory is taken at start, and its times.
struct TcpConfig {
  std::size_t max_connections = 1024;
  std::size_t max_listeners = 16;
  /// Connections that wait to be accepted; those that listen have equal parts of them.
  std::size_t max_waiting = SIZE_MAX;
  std::size_t max_half_open = 1024;   ///< Passive opens in progress; beyond them, SYN cookies.
  std::size_t max_time_waits = 1024;  ///< Beyond them the oldest gives way.
  std::size_t max_reordering = 256;   ///< Connections that hold data behind a hole at once.

  bool timestamps = true;    ///< RFC 7323, 3: offered and accepted.
  bool window_scale = true;  ///< RFC 7323, 2.
  bool sack = true;          ///< RFC 2018, of what we receive.

  /// Takes segments whose checksum is that of the pseudo header alone: a local sender has left the
  /// rest to a NIC that isn't there. Nothing tells whether such a one is damaged.
  bool trust_partial_checksums = false;

  Delay delayed_ack = std::chrono::milliseconds{40};      ///< Up to 400 ms (RFC 9293, MUST-40).
  Delay rto_min = std::chrono::milliseconds{200};         ///< RFC 6298, 2.4, says 1 s.
  Delay rto_max = std::chrono::seconds{60};               ///< At least 60 s by RFC 6298, 2.5.
  Delay retransmission_limit = std::chrono::minutes{10};  ///< R2 (RFC 9293, 3.8.3): 100 s and more.
  Delay connect_limit = std::chrono::minutes{3};  ///< R2 for SYN (MUST-23): 3 minutes and more.
  Delay time_wait = std::chrono::seconds{60};     ///< 2 MSL (RFC 9293, 3.4.2).
  Delay fin_wait_2 = std::chrono::seconds{60};    ///< For the peer's FIN, once we have closed.
  /// How long after close(), and after each segment's worth that the peer takes of what was
  /// written, what it still sends is taken and discarded, so that no reset overtakes our last
  /// bytes; later data is answered by a reset (RFC 9293, 3.6.1).
  Delay linger = std::chrono::seconds{2};
  /// How long after close(), or since it took a segment's worth, a peer may hold up what was
  /// written, though it answers (RFC 6429, 4): then it is reset. At max_connections those closed
  /// first go before.
  Delay orphan_limit = std::chrono::minutes{2};

  std::uint16_t first_ephemeral_port = 49152;  ///< RFC 6335; connect() takes its ports from here,
  std::uint16_t last_ephemeral_port = 65535;   ///< up to this one.
};

}  // namespace pinion

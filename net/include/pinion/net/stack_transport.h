#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>
#include <pinion/net/transport.h>

/// Streams over Pinion's own TCP/IP stack, on devices that this lcore serves: no kernel between.
///
/// Ownership:  the transport belongs to the caller and dies before its loop and its devices; its
///             end resets what is still open. Its streams, listeners and chunks may outlive it. The
///             packet pool outlives the chunks.
/// Threading:  the loop's thread, or before it runs.
/// Cost:       all memory is taken by create(), about 700 bytes for each connection that may be:
///             nothing is allocated per connection, read or write. A chunk is the packet in which
///             its bytes came, and goes out as that packet when it is written to a stream of the
///             same transport; other bytes are copied once. Timeouts share one timer entry of the
///             connection.
/// Turn:       for each burst that a device received: the stack takes it, connections decide what
///             they send, and that is offered to the devices. So is what tasks and timers sent, at
///             the next turn's begin, or when a tx queue is half full. What a device doesn't take
///             is offered again every turn, and the loop doesn't sleep meanwhile. What timers would
///             send, acknowledgements and keepalive probes of very many connections, waits while a
///             tx queue is more than half full.
/// Full:       max_connections reached: accepting pauses, connect answers no_resources, and closes
///             that wait for their peer are cut short. A quarter of the packets left: streams whose
///             bytes have lain in packets for 100 ms, unread or unacknowledged, give way, those
///             first that have waited longest. A tenth: no SYN is answered.
/// Errors:     create() checks all options before it changes anything.
/// Drain:      a Drainable of its loop; docs/stream.md, "Drain".

namespace pinion {

/// A device, and who we are on its link. More can't be said while the stack runs.
struct StackInterface {
  Device* device = nullptr;
  std::vector<HostAddress> addresses = {};  ///< 1 to 15.

  /// Where to send what is on no link; one for each family at most, on this device's link.
  std::vector<IpAddress> gateways = {};

  /// Asks first whether somebody else has the addresses (RFC 4862, 5.4; RFC 5227): they can be used
  /// after 2 s, those of IPv4 after up to 9 s.
  bool check_duplicates = false;

  std::size_t tx_queue = 1024;  ///< Packets that the device hasn't taken yet; 1 and up.
};

struct StackOptions {
  std::vector<StackInterface> interfaces = {};  ///< At least one.

  /// Connections of this transport at once, closing ones included; 1 to 2^20.
  std::size_t max_connections = 16'384;
  /// Beside them, those that wait for accept(), 1 to 65535. Of several listeners each has an equal
  /// part, at least one; its backlog can make it smaller. Until those are accepted who came when
  /// fewer listened, they are more, and take places of connections.
  std::size_t max_waiting = 1024;
  std::size_t max_listeners = 16;      ///< 1 to 1024.
  std::size_t max_half_open = 1024;    ///< Beyond them, SYN cookies; 1 to 65535.
  std::size_t max_time_waits = 16384;  ///< Beyond them the oldest gives way; 1 to 2^20.

  /// Of one connection: bytes accepted and not acknowledged, and bytes that have come and are
  /// unread. Each is what the packets take, not what they hold. 4 KiB to 512 MiB.
  std::uint32_t send_buffer = 256 * 1024;
  std::uint32_t receive_buffer = 256 * 1024;

  /// Packets of 256 bytes for small payloads that wait long; 1 and up.
  std::size_t small_packets = 4096;

  /// Takes packets whose checksums a sender on this machine, behind a veth pair, has left to a NIC
  /// that isn't there, where its interface can't be told to compute them (docs/troubleshooting.md).
  /// Whoever sends such packets, on any of its interfaces, is believed without a checksum: not for
  /// links that others are on.
  bool trust_partial_checksums = false;

  bool timestamps = true;                  ///< RFC 7323.
  Delay linger = std::chrono::seconds{2};  ///< How long close() waits for the peer's FIN.
  Delay time_wait = std::chrono::seconds{60};

  /// For tests: numbers, ports and hashes follow from it. Otherwise from the system's random
  /// numbers, since who knows it can forge segments.
  std::optional<std::uint64_t> seed = {};
};

namespace detail {
class StackCore;
}

class StackTransport final : public Transport {
 public:
  /// `packets` is the pool in which the devices receive.
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<StackTransport>> create(
      Loop& loop, PacketPool& packets, const StackOptions& options);
  PINION_EXPORT ~StackTransport();

 private:
  explicit StackTransport(detail::StackCore& core) noexcept;

  detail::StackCore& core_;
};

}  // namespace pinion

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <pinion/lib/list.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>

#include "ip_layer.h"
#include "ip_stack.h"
#include "secret_numbers.h"

/// UDP (RFC 768, RFC 1122, 4.1): sockets that are polled.
///
/// Ownership:  the caller owns sockets, and the layer, which outlives them; the layer's stack and
///             pool outlive it. A received datagram is its receiver's.
/// Threading:  one lcore.
/// Cost:       a datagram in: a checksum and a walk over the sockets that share its bucket of 256.
///             Out: a copy of the payload. A socket's queue is allocated when it is made.
/// Full:       a queue has two limits, datagrams and bytes by what the packets cost their pool;
///             what comes next is dropped and counted. So is all when the pool runs dry.
/// Errors:     bind and connect answer what is wrong; the wire's doings are counted. A datagram for
///             a port of nobody draws port unreachable. What ICMP says of a connected socket's
///             datagrams the socket tells, once (RFC 1122, 4.1.3.3).
/// Families:   a socket is of one; that of :: gets no IPv4.

namespace pinion {

class UdpLayer;

struct UdpDatagram {
  PacketPtr packet{};  ///< The payload, in one or more segments.
  Endpoint from{};
  IpAddress to;  ///< Of ours, or a group's.
  std::uint8_t traffic_class = 0;
};

enum class UdpSend : std::uint8_t {
  sent,  ///< Or dropped on its way, as datagrams may be.
  not_connected,
  other_family,
  no_destination,  ///< Port 0, or an address that nobody can have.
  no_route,
  not_ours,  ///< The address to send from, or the socket has another.
  too_long,  ///< For a datagram of its family.
  no_packets,
};

struct UdpSocketOptions {
  std::size_t datagrams = 256;       ///< That wait to be received; 1 and up.
  std::size_t bytes = 512UL * 1024;  ///< Theirs, by the packets' true size.
  std::uint8_t hop_limit = 64;       ///< Of what it sends to a host; 1 and up (RFC 1122, 4.1.4).
  std::uint8_t group_hop_limit = 1;  ///< To a group: what stays on the link (RFC 1112, 6.1).
  std::uint8_t traffic_class = 0;    ///< DSCP and ECN.
};

struct UdpSocketStats {
  std::uint64_t received = 0;  ///< Put into the queue.
  std::uint64_t dropped = 0;   ///< Since the queue was full, or the pool low.
  std::uint64_t sent = 0;
};

class UdpSocket : public ListNode {
 public:
  explicit UdpSocket(UdpLayer& layer, const UdpSocketOptions& options = {});
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;
  ~UdpSocket();

  /// Receives what comes to `local` from now on. Its address is one of ours, or unspecified; port 0
  /// is a free one of 49152 to 65535, drawn at random (RFC 6056).
  [[nodiscard]] Result<> bind(const Endpoint& local);

  /// Talks to `peer` alone from now on, from an address that fits; bound to a free port if it isn't
  /// bound.
  [[nodiscard]] Result<> connect(const Endpoint& peer);

  /// Sends to the peer that it is connected to.
  [[nodiscard]] UdpSend send(std::span<const std::byte> payload, Instant now) noexcept;
  /// Sends to anybody. Wants a bound socket. One that is bound to no address of ours may say from
  /// which: that to which a request came is the one to answer from (RFC 1122, 4.1.3.5).
  [[nodiscard]] UdpSend send_to(std::span<const std::byte> payload, const Endpoint& to, Instant now,
                                const std::optional<IpAddress>& from = std::nullopt) noexcept;

  /// The oldest datagram that waits.
  [[nodiscard]] std::optional<UdpDatagram> receive() noexcept;

  /// DSCP and ECN of the datagrams that are sent from now on.
  void set_traffic_class(std::uint8_t traffic_class) noexcept {
    options_.traffic_class = traffic_class;
  }

  /// What ICMP has said of a datagram to the peer since the last call.
  [[nodiscard]] std::optional<IpTrouble> take_trouble() noexcept;

  [[nodiscard]] const Endpoint& local() const noexcept { return local_; }
  [[nodiscard]] const std::optional<Endpoint>& peer() const noexcept { return peer_; }
  [[nodiscard]] std::size_t waiting() const noexcept { return count_; }
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return bytes_; }
  [[nodiscard]] const UdpSocketStats& stats() const noexcept { return stats_; }

 private:
  friend class UdpLayer;

  void take_in(UdpDatagram datagram) noexcept;

  UdpLayer& layer_;
  Endpoint local_;
  std::optional<Endpoint> peer_;
  std::optional<IpTrouble> trouble_;
  std::vector<UdpDatagram> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  UdpSocketOptions options_;
  UdpSocketStats stats_;
};

/// Of the layer.
struct UdpOptions {
  /// Takes datagrams whose checksum is that of the pseudo header alone: a local sender has left the
  /// rest to a NIC that isn't there. Nothing tells whether such a one is damaged.
  bool trust_partial_checksums = false;
};

struct UdpCounters {
  std::uint64_t received = 0;  ///< For a socket.
  std::uint64_t sent = 0;
  std::uint64_t no_port = 0;        ///< For a port of nobody.
  std::uint64_t no_port_group = 0;  ///< The same, to many: not answered.
  std::uint64_t queue_full = 0;
  std::uint64_t pool_low = 0;            ///< Too few packets left to let one wait.
  std::uint64_t complaints = 0;          ///< Told to a socket.
  std::uint64_t complaints_ignored = 0;  ///< Of no datagram that a socket may have sent.
  std::array<std::uint64_t, wire::kWireFaults> malformed{};
};

class UdpLayer final : public IpTransport {
 public:
  /// Attaches itself to `stack`. `seed` is a secret: ports are drawn by it.
  UdpLayer(IpStack& stack, PacketPool& pool, std::uint64_t seed,
           const UdpOptions& options = {}) noexcept;
  UdpLayer(const UdpLayer&) = delete;
  UdpLayer& operator=(const UdpLayer&) = delete;
  ~UdpLayer() = default;

  void receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept override;
  void complain(const IpComplaint& complaint, Instant now) noexcept override;
  void end_of_burst(Instant /*now*/) noexcept override {}

  [[nodiscard]] const UdpCounters& counters() const noexcept { return counters_; }

 private:
  friend class UdpSocket;

  static constexpr std::size_t kBuckets = 256;

  [[nodiscard]] List<UdpSocket>& bucket(std::uint16_t port) noexcept {
    return buckets_[port % kBuckets];
  }
  [[nodiscard]] UdpSocket* find(const Endpoint& local, const Endpoint& peer, bool to_many) noexcept;
  [[nodiscard]] bool taken(const Endpoint& local) noexcept;
  [[nodiscard]] Result<> bind(UdpSocket& socket, Endpoint local);
  [[nodiscard]] UdpSend send(const UdpSocket& socket, std::span<const std::byte> payload,
                             const Endpoint& to, const std::optional<IpAddress>& from,
                             Instant now) noexcept;

  IpStack& stack_;
  PacketPool& pool_;
  const UdpOptions options_;
  SecretNumbers secrets_;
  UdpCounters counters_;
  std::array<List<UdpSocket>, kBuckets> buckets_;
};

}  // namespace pinion

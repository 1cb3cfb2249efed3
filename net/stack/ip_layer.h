#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>

/// What the IP layer and the transports above it (TCP, UDP) say to each other.
///
/// Ownership:  a PacketPtr passes the packet on; the other arguments are the caller's.
/// Threading:  one lcore.
/// Cost:       one virtual call per packet and direction, two for what is of no known flow, and one
///             per burst.
/// Errors:     what can't be sent or isn't wanted is counted by reason and dropped.

namespace pinion {

/// IANA's protocol numbers, where a transport is meant.
enum class IpProtocol : std::uint8_t { icmp = 1, tcp = 6, udp = 17, icmp_v6 = 58 };

/// A datagram that has arrived, whole and for one of our addresses.
struct IpArrival {
  IpAddress source;
  IpAddress destination;
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN.
  std::uint8_t hop_limit = 0;      ///< As it arrived.
  bool broadcast = false;          ///< To a broadcast or multicast address.
};

/// How a datagram is to leave.
struct IpDeparture {
  IpAddress source;
  IpAddress destination;
  IpProtocol protocol = IpProtocol::tcp;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool may_fragment = false;  ///< IPv4: DF is clear. IPv6: a fragment header may be added.
};

/// What an ICMP message said of a datagram that we sent.
enum class IpTrouble : std::uint8_t {
  net_unreachable,
  host_unreachable,
  protocol_unreachable,
  port_unreachable,
  prohibited,
  packet_too_big,  ///< IPv4: fragmentation needed.
  time_exceeded,
  parameter_problem,
};

struct IpComplaint {
  IpTrouble trouble = IpTrouble::host_unreachable;
  /// Of packet_too_big: what the router says; for an old one, which says nothing, a guess (RFC
  /// 1191, 7.1).
  std::size_t mtu = 0;
  IpAddress source;  ///< Of our datagram: ours.
  IpAddress destination;
  /// The first bytes of our datagram's transport header, 8 or more.
  std::span<const std::byte> quoted;
};

/// The IP layer, as a transport sees it.
class IpLayer {
 public:
  /// Sends a datagram. `packet` begins with the transport's header, checksum included, and is not
  /// shared; what it lacks is put in front. Never fails: what can't go is counted and dropped.
  virtual void send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept = 0;

  /// The most bytes that a datagram from `source`, of ours, to `destination` may have, IP header
  /// included.
  [[nodiscard]] virtual std::size_t path_mtu(const IpAddress& source,
                                             const IpAddress& destination) const noexcept = 0;

  /// The same of the link that such a datagram leaves by, whatever the path behind it takes: what
  /// we receive there.
  [[nodiscard]] virtual std::size_t link_mtu(const IpAddress& source,
                                             const IpAddress& destination) const noexcept = 0;

  /// The path from `source` to `destination` takes at most `mtu` bytes: from a packet_too_big that
  /// the transport has found credible (RFC 5927), or from its own probing.
  virtual void learn_path_mtu(const IpAddress& source, const IpAddress& destination,
                              std::size_t mtu, Instant now) noexcept = 0;

  /// Our address from which to talk to `destination`; none without a route.
  [[nodiscard]] virtual std::optional<IpAddress> source_for(
      const IpAddress& destination) const noexcept = 0;

  /// Whether `address` is ours.
  [[nodiscard]] virtual bool is_local(const IpAddress& address) const noexcept = 0;

  /// Whether `address` can be that of one host: no group's, no broadcast address of a link of ours,
  /// none that is reserved (RFC 1122, 3.2.1.3).
  [[nodiscard]] virtual bool is_unicast(const IpAddress& address) const noexcept = 0;

  /// The neighbour on the way from `source` to `destination` answers: what we sent has been
  /// acknowledged (RFC 4861, 7.3.1).
  virtual void confirm_reachable(const IpAddress& source, const IpAddress& destination,
                                 Instant now) noexcept = 0;

  /// What is sent from `source` to `destination` seems to arrive nowhere: asks the neighbour on the
  /// way whether it is there (RFC 9293, MUST-20; RFC 1122, 3.3.1.4).
  virtual void suspect(const IpAddress& source, const IpAddress& destination,
                       Instant now) noexcept = 0;

  /// Whether so much waits to leave by the way from `source` to `destination` that what a timer
  /// would send, of which there may be any amount at once, had better come later: the rest of the
  /// queue is for what answers others.
  [[nodiscard]] virtual bool is_crowded(const IpAddress& /*source*/,
                                        const IpAddress& /*destination*/,
                                        Instant /*now*/) noexcept {
    return false;
  }

 protected:
  ~IpLayer() = default;
};

/// A transport, as the IP layer sees it.
class IpTransport {
 public:
  /// A burst is about to come, IP packets behind `link_header` bytes each, of which nothing is
  /// known yet: what it will look at may be asked for. Packets of a long burst come once it has all
  /// been told of.
  virtual void expect([[maybe_unused]] std::span<Packet* const> burst,
                      [[maybe_unused]] std::size_t link_header) noexcept {}

  /// A datagram to an address of the interface that it came in by, from none of ours, which is no
  /// fragment and lies in one segment behind a header of IPv4 without options, whose checksum is
  /// right, or one of IPv6 without extension headers. True, and the packet is taken, when it is
  /// good and of a flow that is known, whose source was looked at when the flow began; otherwise
  /// it comes by receive(), if its source can be a host's.
  [[nodiscard]] virtual bool receive_known([[maybe_unused]] PacketPtr& packet,
                                           [[maybe_unused]] Instant now) noexcept {
    return false;
  }

  /// A datagram has arrived; `packet` begins with the transport's header, of which 60 bytes, or all
  /// there are, lie in the first segment, and its chain ends with the datagram.
  virtual void receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept = 0;

  /// An ICMP message complains of a datagram with one of our source addresses. It may be forged.
  virtual void complain(const IpComplaint& complaint, Instant now) noexcept = 0;

  /// The burst of packets is over: what was put off until now is due (RFC 9293, MUST-58/59).
  virtual void end_of_burst(Instant now) noexcept = 0;

  /// The path to some destination takes less than before: path_mtu() says how much. It may be news
  /// to whoever sends there, whoever it was that learnt it (RFC 1191, 6.2; RFC 8201, 5.2). Called
  /// within learn_path_mtu().
  virtual void paths_shrank() noexcept {}

 protected:
  ~IpTransport() = default;
};

}  // namespace pinion

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

#include "../wire/ethernet.h"
#include "../wire/ipv4.h"
#include "ip_context.h"
#include "ip_layer.h"
#include "neighbours.h"
#include "path_mtu.h"
#include "routes.h"
#include "secret_numbers.h"

/// The way out: route, IP header, neighbour, fragments, Ethernet header, tx queue.
///
/// Ownership:  takes over the packets that it is given.
/// Threading:  one lcore.
/// Cost:       per packet one look at the ways that were found last, one at the paths that shrank,
///             one in the neighbour cache; to a destination that is new, at the routes. Headers
///             are written in front of the packet, into a packet of their own if it has no room.
///             Fragments are copies, and so is a chain of more segments than its interface sends.
/// Interfaces: a packet leaves by the interface that has its source address, where a route of that
///             holds the destination (RFC 1122, 3.3.4.2, the strong model), otherwise by the route
///             that any has.
/// Full:       a tx queue or the loopback queue at its limit drops what comes next.
/// Errors:     what can't go is counted by reason and dropped. A packet that must not be fragmented
///             goes up to the path's MTU; whoever sends such asks for that first.

namespace pinion {

/// Identifications for datagrams that may be fragmented. IPv6's are drawn at random (RFC 7739,
/// 5.1): of 32 bits two are seldom the same within a minute. IPv4's 16 bits are too few for that
/// (RFC 6864): by source and destination one of many counters, at random in the beginning (RFC
/// 7739, 5.3). Nobody sees how much we send to others but the few that share his counter.
class Identifications {
 public:
  explicit Identifications(std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint16_t next_v4(const IpAddress& source,
                                      const IpAddress& destination) noexcept;
  [[nodiscard]] std::uint32_t next_v6() noexcept;

 private:
  static constexpr std::size_t kCounters = 2048;

  SecretNumbers numbers_;
  const SipKey key_;
  std::array<std::uint16_t, kCounters> counters_;
};

/// Who asks neighbours, and who tells transports.
class IpOutputHost {
 public:
  /// Asks who has `target`: everybody on the link, or only `to`.
  virtual void solicit(Interface& interface, const IpAddress& target, const MacAddress* to,
                       Instant now) noexcept = 0;

  /// `packet`, an IP packet of ours, can't be delivered: nobody answers for its next hop.
  virtual void undeliverable(PacketPtr packet, Instant now) noexcept = 0;

 protected:
  ~IpOutputHost() = default;
};

class IpOutput final : private NeighbourHost {
 public:
  IpOutput(IpContext& context, IpOutputHost& host, const NeighbourOptions& neighbours,
           std::size_t path_mtus) noexcept;

  /// As IpLayer::send().
  void send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept;

  /// Sends an IP packet to one Ethernet address, past the neighbour cache: what fills that.
  void send_to(Interface& interface, const MacAddress& to, PacketPtr packet,
               const IpDeparture& how) noexcept;

  /// Sends an IP packet to a neighbour on the interface's link, whatever the routes say.
  void send_on_link(Interface& interface, PacketPtr packet, const IpDeparture& how,
                    Instant now) noexcept;

  /// Puts an Ethernet header in front of `packet`, where the link has such, and queues it.
  void send_frame(Interface& interface, const MacAddress& to, wire::EtherType type,
                  PacketPtr packet) noexcept;

  /// Room for `size` bytes in front of `packet`, which stay to be written: in its headroom, or in
  /// a packet of their own in front. nullptr, and counted, when none is left.
  [[nodiscard]] std::byte* push_header(PacketPtr& packet, std::size_t size) noexcept;

  [[nodiscard]] std::size_t path_mtu(const IpAddress& source, const IpAddress& destination,
                                     Instant now) const noexcept;

  [[nodiscard]] std::size_t link_mtu(const IpAddress& source,
                                     const IpAddress& destination) const noexcept;

  /// What was said of a path. What the interface says already is none, and takes no place.
  struct PathWord {
    std::size_t mtu = 0;
    bool displaces = true;  ///< Another path of which something is still believed.
  };
  /// Whether it is news.
  [[nodiscard]] bool learn_path_mtu(const IpAddress& source, const IpAddress& destination,
                                    const PathWord& word, Instant now) noexcept;
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& destination) const noexcept;
  void confirm_reachable(const IpAddress& source, const IpAddress& destination,
                         Instant now) noexcept;
  void suspect(const IpAddress& source, const IpAddress& destination, Instant now) noexcept;
  [[nodiscard]] bool is_crowded(const IpAddress& source, const IpAddress& destination,
                                Instant now) noexcept;
  /// Whether a tx queue is more than half full.
  [[nodiscard]] bool is_crowded() const noexcept;

  [[nodiscard]] RouteTable& routes() noexcept { return routes_; }
  [[nodiscard]] const RouteTable& routes() const noexcept { return routes_; }
  [[nodiscard]] NeighbourCache& neighbours() noexcept { return neighbours_; }

  /// Packets to ourselves, in the order in which they were sent.
  [[nodiscard]] PacketQueue& loopback() noexcept { return loopback_; }

 private:
  static constexpr std::size_t kLoopbackLimit = 1024;

  struct Way {
    Interface* interface = nullptr;
    IpAddress next_hop;
  };

  /// To whom the frames of a way go.
  enum class Frames : std::uint8_t { none, neighbour, broadcast, multicast };

  /// The way from one of our addresses to another host, as it was found last. Who sends to very
  /// many in turn finds each anew.
  struct KnownWay {
    IpAddress source;
    IpAddress destination;
    std::uint32_t changes = 0;  ///< As of when it is known.
    Frames frames = Frames::none;
    Way way;
  };
  static constexpr unsigned kKnownWaysBits = 8;

  [[nodiscard]] std::optional<Way> way_to(const IpAddress& source,
                                          const IpAddress& destination) const noexcept;
  /// The same for the interface that has the source; nullptr: none has.
  [[nodiscard]] std::optional<Way> way_from(Interface* home,
                                            const IpAddress& destination) const noexcept;
  [[nodiscard]] const KnownWay* known_way(const IpAddress& source,
                                          const IpAddress& destination) noexcept;
  bool find_way(KnownWay& known, const IpAddress& source, const IpAddress& destination) noexcept;
  void refuse(PacketPtr packet, const IpDeparture& how) noexcept;
  [[nodiscard]] PathMtu path_of(const Interface& interface, const IpAddress& destination,
                                Instant now) const noexcept;
  [[nodiscard]] bool write_header(PacketPtr& packet, const IpDeparture& how,
                                  bool dont_fragment) noexcept;
  void loop_back(PacketPtr packet, const IpDeparture& how) noexcept;

  void fragment_v4(Interface& interface, const MacAddress& to, PacketPtr whole,
                   std::size_t mtu) noexcept;
  void fragment_v6(Interface& interface, const MacAddress& to, PacketPtr whole,
                   std::size_t mtu) noexcept;
  [[nodiscard]] PacketPtr copy_part(const Packet& whole, std::size_t offset,
                                    std::size_t size) noexcept;
  void queue(Interface& interface, PacketPtr frame) noexcept;

  void solicit(std::uint8_t interface, const IpAddress& target, const MacAddress* to,
               Instant now) noexcept override;
  void transmit(std::uint8_t interface, const MacAddress& to, PacketPtr packet,
                Instant now) noexcept override;
  void unreachable(std::uint8_t interface, const IpAddress& target, PacketPtr packet,
                   Instant now) noexcept override;

  IpContext& context_;
  IpOutputHost& host_;
  RouteTable routes_;
  std::array<KnownWay, std::size_t{1} << kKnownWaysBits> known_ways_;
  PathMtuCache path_mtus_;
  Identifications identifications_;
  NeighbourCache neighbours_;
  PacketQueue loopback_;
};

}  // namespace pinion

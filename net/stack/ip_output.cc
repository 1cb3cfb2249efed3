#include "ip_output.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "../wire/ipv6.h"

namespace pinion {
namespace {

wire::EtherType type_of(const Packet& packet) noexcept {
  const bool v4 = wire::load_u8(packet.data()) >> 4 == 4;
  return v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6;
}

constexpr std::size_t kLoopbackMtu = 65'535;

/// Of a path that isn't known.
std::size_t least_mtu(const IpAddress& destination) noexcept {
  return destination.is_v4() ? kBelievedMtuV4 : kSmallestMtuV6;
}

/// What waits for neighbours takes a sixteenth of the pool at most.
NeighbourOptions within(const PacketPool& pool, NeighbourOptions options) noexcept {
  options.held_bytes = std::min(options.held_bytes, pool.capacity() * pool.buffer_size() / 16);
  return options;
}

}  // namespace

Identifications::Identifications(std::uint64_t seed) noexcept
    : numbers_(seed), key_(numbers_.next_key()) {
  for (std::uint16_t& counter : counters_) counter = static_cast<std::uint16_t>(numbers_.next());
}

std::uint16_t Identifications::next_v4(const IpAddress& source,
                                       const IpAddress& destination) noexcept {
  const auto from = words_of(source);
  const auto to = words_of(destination);
  return counters_[hash_words(key_, std::array{from[0], from[1], to[0], to[1]}) % kCounters]++;
}

std::uint32_t Identifications::next_v6() noexcept {
  return static_cast<std::uint32_t>(numbers_.next());
}

IpOutput::IpOutput(IpContext& context, IpOutputHost& host, const NeighbourOptions& neighbours,
                   std::size_t path_mtus) noexcept
    : context_(context),
      host_(host),
      path_mtus_(path_mtus, context.secrets.next()),
      identifications_(context.secrets.next()),
      neighbours_(within(context.pool, neighbours), *this, context.wheel, context.counters,
                  context.secrets.next()) {
  routes_.count_changes_in(context.changes);
}

void IpOutput::send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept {
  const KnownWay* const known = known_way(how.source, how.destination);
  if (known == nullptr) return refuse(std::move(packet), how);
  Interface& interface = *known->way.interface;
  const std::size_t payload = packet->chain_size();
  const std::size_t header =
      how.destination.is_v4() ? wire::Ipv4Header::kMinSize : wire::Ipv6Header::kSize;
  const std::size_t size = header + payload;
  const PathMtu path = path_of(interface, how.destination, now);
  const bool may_fragment = how.may_fragment || path.fragment;
  if (payload > most_payload(how.destination) || (size > path.mtu && !may_fragment)) {
    ++context_.counters.out_too_big;
    return;
  }
  if (!write_header(packet, how, !may_fragment)) return;
  ++context_.counters.packets_out;
  switch (known->frames) {
    case Frames::none:
      if (size <= path.mtu) return queue(interface, std::move(packet));
      return transmit(interface.index, {}, std::move(packet), now);
    case Frames::broadcast:
      return transmit(interface.index, wire::kBroadcastMac, std::move(packet), now);
    case Frames::multicast:
      return transmit(interface.index, multicast_mac(how.destination), std::move(packet), now);
    case Frames::neighbour:
      return neighbours_.send(interface.index, known->way.next_hop, std::move(packet), now);
  }
}

/// The way to another host; nullptr when there is none, or the destination is ours.
const IpOutput::KnownWay* IpOutput::known_way(const IpAddress& source,
                                              const IpAddress& destination) noexcept {
  const auto to = words_of(destination);
  const auto from = words_of(source);
  const std::uint64_t words = to[0] ^ to[1] ^ std::rotl(from[0] ^ from[1], 32);
  KnownWay& known = known_ways_[words * 0x9e3779b97f4a7c15U >> (64 - kKnownWaysBits)];
  const bool is_it = known.changes == context_.changes && known.destination == destination &&
                     known.source == source;
  if (is_it && known.way.interface != nullptr) [[likely]] {
    return &known;
  }
  return find_way(known, source, destination) ? &known : nullptr;
}

bool IpOutput::find_way(KnownWay& known, const IpAddress& source,
                        const IpAddress& destination) noexcept {
  if (context_.is_local(destination) || is_loopback(source)) return false;
  Interface* const home = context_.owner_of(source);
  if (home == nullptr) return false;
  const std::optional<Way> way = way_from(home, destination);
  if (!way) return false;
  Frames frames = Frames::neighbour;
  if (way->interface->link == LinkKind::ip) {
    frames = Frames::none;
  } else if (way->interface->is_broadcast(destination)) {
    frames = Frames::broadcast;
  } else if (is_multicast(destination)) {
    frames = Frames::multicast;
  }
  known = {.source = source,
           .destination = destination,
           .changes = context_.changes,
           .frames = frames,
           .way = *way};
  return true;
}

/// What goes to no other host: to ourselves, or nowhere.
void IpOutput::refuse(PacketPtr packet, const IpDeparture& how) noexcept {
  if (context_.is_local(how.destination)) return loop_back(std::move(packet), how);
  const bool from_us = context_.owner_of(how.source) != nullptr && !is_loopback(how.source);
  ++(from_us ? context_.counters.no_route : context_.counters.no_source);
}

void IpOutput::send_to(Interface& interface, const MacAddress& to, PacketPtr packet,
                       const IpDeparture& how) noexcept {
  if (!write_header(packet, how, true)) return;
  ++context_.counters.packets_out;
  const wire::EtherType type = type_of(*packet);
  send_frame(interface, to, type, std::move(packet));
}

void IpOutput::send_on_link(Interface& interface, PacketPtr packet, const IpDeparture& how,
                            Instant now) noexcept {
  if (!write_header(packet, how, true)) return;
  ++context_.counters.packets_out;
  if (interface.link == LinkKind::ip) {
    transmit(interface.index, {}, std::move(packet), now);
  } else {
    neighbours_.send(interface.index, how.destination, std::move(packet), now);
  }
}

void IpOutput::send_frame(Interface& interface, const MacAddress& to, wire::EtherType type,
                          PacketPtr packet) noexcept {
  if (interface.link == LinkKind::ip) return queue(interface, std::move(packet));
  std::byte* const at = push_header(packet, wire::EthernetHeader::kMinSize);
  if (at == nullptr) return;
  wire::emit_ethernet({.destination = to, .source = interface.mac, .type = type},
                      {at, wire::EthernetHeader::kMinSize});
  queue(interface, std::move(packet));
}

std::byte* IpOutput::push_header(PacketPtr& packet, std::size_t size) noexcept {
  if (!packet->shared()) {
    if (std::byte* const room = packet->prepend(size)) return room;
  }
  PacketPtr front(context_.pool.allocate());
  if (!front) {
    ++context_.counters.out_no_packet;
    return nullptr;
  }
  // In the middle of the headroom, for what comes in front of it.
  std::byte* const room = front->append(size);
  front->set_next_segment(packet.take());
  packet = std::move(front);
  return room;
}

std::size_t IpOutput::path_mtu(const IpAddress& source, const IpAddress& destination,
                               Instant now) const noexcept {
  if (context_.is_local(destination)) return kLoopbackMtu;
  const std::optional<Way> way = way_to(source, destination);
  if (!way) return least_mtu(destination);
  return path_of(*way->interface, destination, now).mtu;
}

std::size_t IpOutput::link_mtu(const IpAddress& source,
                               const IpAddress& destination) const noexcept {
  if (context_.is_local(destination)) return kLoopbackMtu;
  const std::optional<Way> way = way_to(source, destination);
  return way ? way->interface->mtu : least_mtu(destination);
}

bool IpOutput::learn_path_mtu(const IpAddress& source, const IpAddress& destination,
                              const PathWord& word, Instant now) noexcept {
  const std::optional<Way> way = way_to(source, destination);
  if (!way || word.mtu >= way->interface->mtu) return false;
  if (!word.displaces && path_mtus_.is_full(now)) return false;
  return path_mtus_.learn(destination, word.mtu, now);
}

std::optional<IpAddress> IpOutput::source_for(const IpAddress& destination) const noexcept {
  if (context_.is_local(destination)) return destination;
  const std::optional<Way> way = way_to({}, destination);
  if (!way) return std::nullopt;
  const IpPrefix* const source = choose_source(way->interface->usable(), destination);
  return source == nullptr ? std::nullopt : std::optional(source->address);
}

void IpOutput::confirm_reachable(const IpAddress& source, const IpAddress& destination,
                                 Instant now) noexcept {
  if (neighbours_.size() == 0) return;
  const KnownWay* const known = known_way(source, destination);
  if (known == nullptr || known->frames != Frames::neighbour) return;
  neighbours_.confirm(known->way.interface->index, known->way.next_hop, now);
}

void IpOutput::suspect(const IpAddress& source, const IpAddress& destination,
                       Instant now) noexcept {
  const std::optional<Way> way = way_to(source, destination);
  if (way) neighbours_.suspect(way->interface->index, way->next_hop, now);
}

bool IpOutput::is_crowded(const IpAddress& source, const IpAddress& destination,
                          Instant now) noexcept {
  if (!is_crowded() || context_.is_local(destination)) return false;
  const std::optional<Way> way = way_to(source, destination);
  return way && way->interface->is_crowded(now);
}

bool IpOutput::is_crowded() const noexcept {
  const std::span interfaces(context_.interfaces.data(), context_.interface_count);
  return std::ranges::any_of(interfaces, &Interface::more_than_half_full);
}

/// By the routes, those of the source's interface first; what means a link, the link of the source.
std::optional<IpOutput::Way> IpOutput::way_to(const IpAddress& source,
                                              const IpAddress& destination) const noexcept {
  return way_from(context_.owner_of(source), destination);
}

std::optional<IpOutput::Way> IpOutput::way_from(Interface* home,
                                                const IpAddress& destination) const noexcept {
  const bool of_link = is_multicast(destination) || is_limited_broadcast(destination) ||
                       (destination.is_v6() && is_link_local(destination));
  if (of_link && home != nullptr) return Way{.interface = home, .next_hop = destination};
  const Route* route = home != nullptr ? routes_.find(destination, home->index) : nullptr;
  if (route == nullptr) route = routes_.find(destination);
  if (route != nullptr) {
    return Way{.interface = &context_.interfaces[route->interface],
               .next_hop = route->next_hop(destination)};
  }
  if (!of_link || context_.interface_count == 0) return std::nullopt;
  return Way{.interface = context_.interfaces.data(), .next_hop = destination};
}

PathMtu IpOutput::path_of(const Interface& interface, const IpAddress& destination,
                          Instant now) const noexcept {
  PathMtu path{.mtu = interface.mtu};
  const std::optional<PathMtu> learnt = path_mtus_.find(destination, now);
  if (learnt && learnt->mtu < path.mtu) path = *learnt;
  return path;
}

bool IpOutput::write_header(PacketPtr& packet, const IpDeparture& how,
                            bool dont_fragment) noexcept {
  const std::size_t payload = packet->chain_size();
  packet->clear_marks();
  if (how.destination.is_v4()) {
    std::byte* const at = push_header(packet, wire::Ipv4Header::kMinSize);
    if (at == nullptr) return false;
    // One that is never fragmented needs no identification (RFC 6864, 4.1).
    const std::uint16_t identification =
        dont_fragment ? 0 : identifications_.next_v4(how.source, how.destination);
    wire::emit_plain_ipv4({.source = v4_bytes(how.source),
                           .destination = v4_bytes(how.destination),
                           .payload_size = static_cast<std::uint16_t>(payload),
                           .identification = identification,
                           .dont_fragment = dont_fragment,
                           .traffic_class = how.traffic_class,
                           .hop_limit = how.hop_limit,
                           .protocol = static_cast<std::uint8_t>(how.protocol)},
                          at);
    return true;
  }
  std::byte* const at = push_header(packet, wire::Ipv6Header::kSize);
  if (at == nullptr) return false;
  wire::Ipv6Header header;
  header.source = how.source.bytes();
  header.destination = how.destination.bytes();
  header.payload_size = static_cast<std::uint16_t>(payload);
  header.traffic_class = how.traffic_class;
  header.hop_limit = how.hop_limit;
  header.next_header = static_cast<std::uint8_t>(how.protocol);
  wire::emit_ipv6(header, {at, wire::Ipv6Header::kSize});
  return true;
}

/// Not delivered here and now: the sender is in the middle of something.
void IpOutput::loop_back(PacketPtr packet, const IpDeparture& how) noexcept {
  if (loopback_.size() == kLoopbackLimit) {
    ++context_.counters.loopback_full;
    return;
  }
  if (!context_.is_local(how.source)) {
    ++context_.counters.no_source;
    return;
  }
  if (packet->chain_size() > most_payload(how.destination)) {
    ++context_.counters.out_too_big;
    return;
  }
  if (!write_header(packet, how, true)) return;
  ++context_.counters.looped_back;
  loopback_.push_back(std::move(packet));
}

void IpOutput::queue(Interface& interface, PacketPtr frame) noexcept {
  const bool chained = frame->next_segment() != nullptr;
  if (chained && chain_length(*frame) > interface.max_segments) [[unlikely]] {
    frame = copy_packet(*frame, context_.pool);
    if (!frame) {
      ++context_.counters.out_no_packet;
      return;
    }
  }
  if (!interface.queue(std::move(frame))) ++context_.counters.tx_queue_full;
}

void IpOutput::solicit(std::uint8_t interface, const IpAddress& target, const MacAddress* to,
                       Instant now) noexcept {
  host_.solicit(context_.interfaces[interface], target, to, now);
}

void IpOutput::transmit(std::uint8_t interface, const MacAddress& to, PacketPtr packet,
                        Instant now) noexcept {
  Interface& through = context_.interfaces[interface];
  const wire::EtherType type = type_of(*packet);
  const std::size_t size = packet->chain_size();
  const bool v4 = type == wire::EtherType::ipv4;
  // Smaller ones fit any path.
  if (size > (v4 ? kBelievedMtuV4 : kSmallestMtuV6)) {
    const std::byte* const at = packet->data();
    const IpAddress destination = v4 ? IpAddress::v4(wire::load_bytes<4>(at + 16))
                                     : IpAddress::v6(wire::load_bytes<16>(at + 24));
    const std::size_t mtu = path_of(through, destination, now).mtu;
    if (size > mtu) {
      return v4 ? fragment_v4(through, to, std::move(packet), mtu)
                : fragment_v6(through, to, std::move(packet), mtu);
    }
  }
  send_frame(through, to, type, std::move(packet));
}

void IpOutput::unreachable(std::uint8_t /*interface*/, const IpAddress& /*target*/,
                           PacketPtr packet, Instant now) noexcept {
  host_.undeliverable(std::move(packet), now);
}

}  // namespace pinion

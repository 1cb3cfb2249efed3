#include "ndp.h"

#include <utility>

namespace pinion {
namespace {

IpDeparture departure(const IpAddress& source, const IpAddress& destination) noexcept {
  return {.source = source,
          .destination = destination,
          .protocol = IpProtocol::icmp_v6,
          .hop_limit = wire::kNdpHopLimit};
}

constexpr IpAddress kUnspecified = IpAddress::v6({});

}  // namespace

void Ndp::receive(Interface& interface, const wire::IcmpMessage& header,
                  std::span<const std::byte> bytes, const IpArrival& arrival,
                  Instant now) noexcept {
  const auto parsed = wire::parse_ndp(header, bytes,
                                      {.source = arrival.source.bytes(),
                                       .destination = arrival.destination.bytes(),
                                       .hop_limit = arrival.hop_limit});
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  if (parsed->mac && (*parsed->mac == interface.mac || wire::is_multicast(*parsed->mac))) {
    ++context_.counters.neighbour_bad;
    return;
  }
  if (parsed->type == wire::IcmpV6Type::neighbor_solicitation) {
    solicited(interface, *parsed, arrival.source, now);
  } else if (parsed->type == wire::IcmpV6Type::neighbor_advertisement) {
    advertised(interface, *parsed, now);
  } else {
    ++context_.counters.neighbour_ignored;
  }
}

void Ndp::solicit(Interface& interface, const IpAddress& target, const MacAddress* to) noexcept {
  const IpPrefix* const source = choose_source(interface.usable(), target);
  if (source == nullptr) {
    ++context_.counters.no_source;
    return;
  }
  const IpAddress destination = to == nullptr ? solicited_node(target) : target;
  PacketPtr packet = build({.type = wire::IcmpV6Type::neighbor_solicitation,
                            .target = target.bytes(),
                            .mac = interface.mac},
                           source->address, destination);
  if (!packet) return;
  ++context_.counters.neighbour_solicitations;
  output_.send_to(interface, to == nullptr ? multicast_mac(destination) : *to, std::move(packet),
                  departure(source->address, destination));
}

void Ndp::probe(Interface& interface, const IpAddress& address) noexcept {
  const IpAddress destination = solicited_node(address);
  PacketPtr packet =
      build({.type = wire::IcmpV6Type::neighbor_solicitation, .target = address.bytes(), .mac = {}},
            kUnspecified, destination);
  if (!packet) return;
  output_.send_to(interface, multicast_mac(destination), std::move(packet),
                  departure(kUnspecified, destination));
}

void Ndp::solicited(Interface& interface, const wire::NdpMessage& message, const IpAddress& source,
                    Instant now) noexcept {
  const IpAddress target = IpAddress::v6(message.target);
  if (!interface.has(target)) {
    // RFC 4862, 5.4.3: somebody who checks the address that we check.
    if (is_unspecified(source)) checks_.probed(interface, target);
    ++context_.counters.neighbour_ignored;
    return;
  }
  if (is_unspecified(source)) {
    const MacAddress to_all = multicast_mac(all_nodes());
    return advertise(interface, target, all_nodes(), &to_all, now);
  }
  if (message.mac) {
    output_.neighbours().asked_by(interface.index, source, *message.mac, now);
  }
  advertise(interface, target, source, message.mac ? &*message.mac : nullptr, now);
}

void Ndp::advertised(Interface& interface, const wire::NdpMessage& message, Instant now) noexcept {
  const IpAddress target = IpAddress::v6(message.target);
  if (checks_.claimed(interface, target, now)) return;
  output_.neighbours().answered(interface.index, target,
                                {.mac = message.mac ? &*message.mac : nullptr,
                                 .solicited = message.solicited,
                                 .override = message.overrides},
                                now);
}

/// Goes to `mac` where the solicitation said so, past the cache: what was invented takes no
/// neighbour's place, and a cache that is full keeps nobody from an answer. Never by the routes,
/// since a router would take one from the hop limit that shows it is of the link.
void Ndp::advertise(Interface& interface, const IpAddress& target, const IpAddress& to,
                    const MacAddress* mac, Instant now) noexcept {
  PacketPtr packet = build({.type = wire::IcmpV6Type::neighbor_advertisement,
                            .solicited = !is_multicast(to),
                            .overrides = true,
                            .target = target.bytes(),
                            .mac = interface.mac},
                           target, to);
  if (!packet) return;
  ++context_.counters.neighbour_requests;
  if (mac != nullptr) {
    output_.send_to(interface, *mac, std::move(packet), departure(target, to));
  } else {
    output_.send_on_link(interface, std::move(packet), departure(target, to), now);
  }
}

PacketPtr Ndp::build(const wire::NdpMessage& message, const IpAddress& source,
                     const IpAddress& destination) noexcept {
  PacketPtr packet(context_.pool.allocate());
  if (!packet) {
    ++context_.counters.out_no_packet;
    return {};
  }
  std::byte* const at = packet->append(wire::kMaxNdpSize);
  const std::size_t size = wire::emit_ndp(message, {at, wire::kMaxNdpSize});
  packet->remove_suffix(wire::kMaxNdpSize - size);
  const std::uint16_t checksum = wire::transport_checksum(
      *packet, size, source, destination, static_cast<std::uint8_t>(IpProtocol::icmp_v6));
  wire::store_be16(at + wire::IcmpMessage::kChecksumOffset, checksum);
  return packet;
}

}  // namespace pinion

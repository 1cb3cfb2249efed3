#include "arp.h"

#include <utility>

namespace pinion {

void Arp::receive(Interface& interface, const wire::EthernetHeader& frame, const Packet& packet,
                  Instant now) noexcept {
  const auto parsed = wire::parse_arp(packet.bytes());
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  const wire::ArpMessage& message = *parsed;
  const IpAddress sender = IpAddress::v4(message.sender);
  const IpAddress target = IpAddress::v4(message.target);
  const bool is_probe = is_unspecified(sender);
  if (message.sender_mac == interface.mac || wire::is_multicast(message.sender_mac) ||
      (!is_probe && (is_never_a_host(sender) || is_loopback(sender)))) {
    ++context_.counters.neighbour_bad;
    return;
  }
  if (is_probe) {
    checks_.probed(interface, target);
  } else if (checks_.claimed(interface, sender, now)) {
    return;
  }
  if (!interface.has(target)) {
    ++context_.counters.neighbour_ignored;
    return;
  }
  if (message.operation == wire::ArpOperation::request) {
    const bool on_link =
        interface.on_link(sender) || output_.routes().on_link(interface.index, sender);
    if (!is_probe && on_link) {
      output_.neighbours().asked_by(interface.index, sender, message.sender_mac, now);
    }
    answer(interface, message);
  } else if (!is_probe && frame.destination == interface.mac) {
    // Whether it was asked for, and so of the link, the cache knows.
    output_.neighbours().answered(interface.index, sender, {.mac = &message.sender_mac}, now);
  } else {
    ++context_.counters.neighbour_not_asked;
  }
}

void Arp::solicit(Interface& interface, const IpAddress& target, const MacAddress* to) noexcept {
  const IpPrefix* const source = choose_source(interface.usable(), target);
  if (source == nullptr) {
    ++context_.counters.no_source;
    return;
  }
  ++context_.counters.neighbour_solicitations;
  send(interface, to == nullptr ? wire::kBroadcastMac : *to,
       {.operation = wire::ArpOperation::request,
        .sender_mac = interface.mac,
        .sender = v4_bytes(source->address),
        .target = v4_bytes(target)});
}

void Arp::probe(Interface& interface, const IpAddress& address) noexcept {
  send(interface, wire::kBroadcastMac,
       {.operation = wire::ArpOperation::request,
        .sender_mac = interface.mac,
        .target = v4_bytes(address)});
}

void Arp::announce(Interface& interface, const IpAddress& address) noexcept {
  send(interface, wire::kBroadcastMac,
       {.operation = wire::ArpOperation::request,
        .sender_mac = interface.mac,
        .sender = v4_bytes(address),
        .target = v4_bytes(address)});
}

void Arp::answer(Interface& interface, const wire::ArpMessage& request) noexcept {
  ++context_.counters.neighbour_requests;
  send(interface, request.sender_mac,
       {.operation = wire::ArpOperation::reply,
        .sender_mac = interface.mac,
        .sender = request.target,
        .target_mac = request.sender_mac,
        .target = request.sender});
}

void Arp::send(Interface& interface, const MacAddress& to,
               const wire::ArpMessage& message) noexcept {
  PacketPtr packet(context_.pool.allocate());
  if (!packet) {
    ++context_.counters.out_no_packet;
    return;
  }
  wire::emit_arp(message, {packet->append(wire::ArpMessage::kSize), wire::ArpMessage::kSize});
  output_.send_frame(interface, to, wire::EtherType::arp, std::move(packet));
}

}  // namespace pinion

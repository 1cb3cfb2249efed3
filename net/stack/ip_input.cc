#include "ip_input.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <pinion/net/packet_copy.h>

namespace pinion {
namespace {

/// Fragments take an eighth of the pool at most.
ReassemblyOptions within(const PacketPool& pool, ReassemblyOptions options) noexcept {
  options.bytes = std::min(options.bytes, pool.capacity() * pool.buffer_size() / 8);
  return options;
}

}  // namespace

IpInput::IpInput(IpContext& context, IcmpErrors& errors, IcmpInput& icmp,
                 const ReassemblyOptions& reassembly) noexcept
    : context_(context),
      errors_(errors),
      icmp_(icmp),
      reassembly_(within(context.pool, reassembly), *this, context.wheel, context.counters,
                  context.secrets.next()) {}

void IpInput::receive(std::uint8_t interface, PacketPtr packet, Instant now) noexcept {
  const std::byte* const at = packet->data();
  if (!packet->empty() && wire::load_u8(at) >> 4 == 6) {
    receive_v6(interface, std::move(packet), false, now);
  } else {
    receive_v4(interface, std::move(packet), false, now);
  }
}

void IpInput::receive_v4(std::uint8_t interface, PacketPtr packet, bool frame_to_many,
                         Instant now) noexcept {
  if (!gather(packet, kHeaders)) return;
  Arrived arrived{
      .packet = std::move(packet), .interface = interface, .frame_to_many = frame_to_many};
  take_v4(arrived, now);
}

void IpInput::receive_v6(std::uint8_t interface, PacketPtr packet, bool frame_to_many,
                         Instant now) noexcept {
  if (!gather(packet, kHeaders)) return;
  Arrived arrived{
      .packet = std::move(packet), .interface = interface, .frame_to_many = frame_to_many};
  take_v6(arrived, now);
}

void IpInput::end_of_burst() noexcept {
  while (is_short_of_packets()) reassembly_.displace();
}

void IpInput::refuse_port(const Packet& packet, Instant now) noexcept {
  PINION_ASSERT(current_ != nullptr);
  Offender offender = offender_of(*current_);
  offender.packet = &packet;
  errors_.port_unreachable(offender, now);
}

/// The payload goes to its transport; its headers stay readable in front of it.
void IpInput::deliver(Arrived& arrived, Instant now) noexcept {
  const bool v4 = arrived.arrival.source.is_v4();
  const IpProtocol icmp = v4 ? IpProtocol::icmp : IpProtocol::icmp_v6;
  const bool is_icmp = arrived.protocol == static_cast<std::uint8_t>(icmp);
  // Only ICMPv6 has messages from nowhere.
  if (is_unspecified(arrived.arrival.source) && !is_icmp) {
    ++context_.counters.source_martian;
    return;
  }
  arrived.packet->remove_prefix(arrived.header_size);
  arrived.header_size = 0;
  if (!gather(arrived.packet, kTransportHeader)) return;
  if (is_icmp) {
    ++context_.counters.delivered;
    const IcmpArrival how{.interface = arrived.interface,
                          .router_alert = arrived.router_alert,
                          .fragmented = arrived.fragmented,
                          .to_many = arrived.frame_to_many || arrived.arrival.broadcast};
    if (v4) {
      icmp_.receive_v4(std::move(arrived.packet), arrived.arrival, how, now);
    } else {
      icmp_.receive_v6(std::move(arrived.packet), arrived.arrival, how, now);
    }
    return;
  }
  IpTransport* const transport = context_.transport(arrived.protocol);
  PINION_DCHECK(transport != nullptr);
  ++context_.counters.delivered;
  current_ = &arrived;
  transport->receive(std::move(arrived.packet), arrived.arrival, now);
  current_ = nullptr;
}

bool IpInput::accept_source(const Arrived& arrived) noexcept {
  if (arrived.interface == IpContext::kLoopback) return true;
  const IpAddress& source = arrived.arrival.source;
  const Interface& interface = context_.interfaces[arrived.interface];
  const bool from_nowhere = source.is_v6() && is_unspecified(source);
  if ((is_never_a_host(source) && !from_nowhere) || is_loopback(source) ||
      interface.is_broadcast(source)) {
    ++context_.counters.source_martian;
    return false;
  }
  if (context_.owner_of(source) != nullptr) {
    ++context_.counters.source_ours;
    return false;
  }
  return true;
}

bool IpInput::accept_destination(Arrived& arrived) noexcept {
  const IpAddress& destination = arrived.arrival.destination;
  if (arrived.interface == IpContext::kLoopback) {
    if (context_.is_local(destination)) return true;
    ++context_.counters.not_for_us;
    return false;
  }
  const Interface& interface = context_.interfaces[arrived.interface];
  if (interface.has(destination)) {
    if (!arrived.frame_to_many) return true;
    ++context_.counters.frame_group;
    return false;
  }
  if (is_multicast(destination) ? interface.listens_to(destination)
                                : interface.is_broadcast(destination)) {
    arrived.arrival.broadcast = true;
    return true;
  }
  if (is_loopback(destination) || is_unspecified(destination)) {
    ++context_.counters.destination_martian;
  } else {
    ++context_.counters.not_for_us;
  }
  return false;
}

bool IpInput::gather_segments(PacketPtr& packet, std::size_t size) noexcept {
  if (packet->shared() || packet->size() + packet->tailroom() < size) {
    PacketPtr copy = copy_packet(*packet, context_.pool);
    if (!copy) {
      ++context_.counters.in_no_packet;
      return false;
    }
    packet = std::move(copy);
  }
  while (packet->size() < size) {
    Packet* const next = packet->next_segment();
    if (next == nullptr) break;
    const std::size_t part = std::min(size - packet->size(), next->size());
    if (part > packet->tailroom()) {
      ++context_.counters.header_split;
      return false;
    }
    std::memcpy(packet->append(part), next->data(), part);
    next->remove_prefix(part);
    if (!next->empty()) continue;
    Packet* const rest = next->next_segment();
    if (rest != nullptr) next->set_next_segment(nullptr);
    packet->set_next_segment(nullptr);
    next->release();
    if (rest != nullptr) packet->set_next_segment(rest);
  }
  return true;
}

/// Has nobody else hold any segment, and the headers in the first.
bool IpInput::make_own(PacketPtr& packet, std::size_t header_size) noexcept {
  if (!chain_shared(*packet)) [[likely]] {
    return true;
  }
  PacketPtr copy = copy_packet(*packet, context_.pool);
  if (!copy || copy->size() <= header_size) {
    ++(copy ? context_.counters.header_split : context_.counters.in_no_packet);
    return false;
  }
  packet = std::move(copy);
  return true;
}

Offender IpInput::offender_of(const Arrived& arrived) noexcept {
  return {.header = arrived.header,
          .packet = arrived.packet.get(),
          .payload_offset = arrived.header_size,
          .transport_offset = arrived.header_size,
          .source = arrived.arrival.source,
          .destination = arrived.arrival.destination,
          .protocol = arrived.protocol,
          .traffic_class = arrived.arrival.traffic_class,
          .to_many = arrived.arrival.broadcast || arrived.frame_to_many};
}

void IpInput::reassembly_timed_out(PacketPtr first_fragment, Instant now) noexcept {
  Arrived arrived{.packet = std::move(first_fragment)};
  const std::span bytes = std::as_const(*arrived.packet).bytes();
  if (wire::load_u8(bytes.data()) >> 4 == 4) {
    const auto header = wire::parse_ipv4(bytes, arrived.packet->chain_size());
    PINION_ASSERT(header.has_value());
    arrived.arrival.source = IpAddress::v4(header->source);
    arrived.arrival.destination = IpAddress::v4(header->destination);
    arrived.arrival.traffic_class = header->traffic_class;
    arrived.protocol = header->protocol;
    arrived.header_size = header->size();
  } else {
    const auto header = wire::parse_ipv6(bytes, arrived.packet->chain_size());
    PINION_ASSERT(header.has_value());
    const auto walked = walk_ipv6_extensions(*header, bytes.subspan(wire::Ipv6Header::kSize));
    PINION_ASSERT(walked.has_value());
    arrived.arrival.source = IpAddress::v6(header->source);
    arrived.arrival.destination = IpAddress::v6(header->destination);
    arrived.protocol = walked->protocol;
    arrived.header_size = wire::Ipv6Header::kSize + walked->size;
  }
  arrived.header = bytes.first(arrived.header_size);
  arrived.arrival.broadcast = !context_.is_local(arrived.arrival.destination);
  errors_.reassembly_time_exceeded(offender_within(arrived), now);
}

}  // namespace pinion

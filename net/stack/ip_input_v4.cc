#include <array>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "ip_input.h"

namespace pinion {

void IpInput::take_v4(Arrived& arrived, Instant now) noexcept {
  Packet& packet = *arrived.packet;
  const std::size_t size = packet.chain_size();
  const auto parsed = wire::parse_ipv4(packet.bytes(), size);
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  const wire::Ipv4Header& header = *parsed;
  const std::size_t header_size = header.size();
  if (!packet.has(PacketMark::ip_checksum_good) &&
      !wire::ipv4_checksum_good(packet.bytes().first(header_size))) {
    context_.counters.count(wire::WireFault::ipv4_checksum);
    return;
  }
  arrived.arrival.source = IpAddress::v4(header.source);
  arrived.arrival.destination = IpAddress::v4(header.destination);
  arrived.arrival.traffic_class = header.traffic_class;
  arrived.arrival.hop_limit = header.hop_limit;
  arrived.protocol = header.protocol;
  arrived.header_size = header_size;
  arrived.header = std::as_const(packet).bytes().first(header_size);
  if (!accept_source(arrived) || !accept_destination(arrived)) return;
  if (!header.options.empty() && header.has_source_route()) {
    ++context_.counters.source_route;
    return;
  }
  // Ethernet pads what is short (RFC 894).
  if (size > header_size + header.payload_size) {
    truncate_chain(packet, header_size + header.payload_size);
  }
  if (header.is_fragment()) [[unlikely]] {
    return fragment_v4(arrived, header, now);
  }
  if (header.protocol != static_cast<std::uint8_t>(IpProtocol::icmp) &&
      context_.transport(header.protocol) == nullptr) [[unlikely]] {
    return refuse_protocol(arrived, 0, now);
  }
  deliver(arrived, now);
}

void IpInput::fragment_v4(Arrived& arrived, const wire::Ipv4Header& header, Instant now) noexcept {
  ++context_.counters.fragments_in;
  const FragmentPlace place{.offset = header.fragment_offset,
                            .size = header.payload_size,
                            .more = header.more_fragments,
                            .header_size = static_cast<std::uint8_t>(arrived.header_size),
                            .ecn = static_cast<std::uint8_t>(header.traffic_class & 3U)};
  const FragmentKey key{.source = arrived.arrival.source,
                        .destination = arrived.arrival.destination,
                        .id = header.identification,
                        .protocol = header.protocol};
  if (!make_own(arrived.packet, arrived.header_size)) return;
  ReassemblyResult result = reassembly_.insert(std::move(arrived.packet), key, place, now);
  if (result.fate == FragmentFate::complete) {
    whole_v4(arrived, std::move(result), now);
  }
}

void IpInput::whole_v4(Arrived& arrived, ReassemblyResult result, Instant now) noexcept {
  arrived.packet = std::move(result.datagram);
  const auto parsed = wire::parse_ipv4(arrived.packet->bytes(), arrived.packet->chain_size());
  PINION_ASSERT(parsed.has_value());
  wire::Ipv4Header header = *parsed;
  if (header.size() + result.payload_size > 65'535) {
    // Its options are longer than those of the last.
    context_.counters.count(wire::WireFault::ipv4_fragment_overrun);
    return;
  }
  header.payload_size = static_cast<std::uint16_t>(result.payload_size);
  header.fragment_offset = 0;
  header.more_fragments = false;
  header.traffic_class = static_cast<std::uint8_t>((header.traffic_class & 0xfcU) | result.ecn);
  std::array<std::byte, wire::Ipv4Header::kMinSize + wire::Ipv4Header::kMaxOptionsSize> rebuilt;
  arrived.header_size = result.header_size;
  arrived.header = std::span(rebuilt).first(emit_ipv4(header, rebuilt));
  arrived.arrival.traffic_class = header.traffic_class;
  arrived.arrival.hop_limit = header.hop_limit;
  if (header.protocol != static_cast<std::uint8_t>(IpProtocol::icmp) &&
      context_.transport(header.protocol) == nullptr) {
    return refuse_protocol(arrived, 0, now);
  }
  deliver(arrived, now);
}

/// Nobody here speaks the protocol: RFC 1122, 3.2.2.1; RFC 8200, 4.
void IpInput::refuse_protocol(const Arrived& arrived, std::uint16_t pointer, Instant now) noexcept {
  const bool v4 = arrived.arrival.source.is_v4();
  constexpr auto kNoNextHeader = static_cast<std::uint8_t>(wire::Ipv6NextHeader::none);
  if (!v4 && arrived.protocol == kNoNextHeader) {
    ++context_.counters.no_next_header;
    return;
  }
  ++context_.counters.protocol_unknown;
  if (v4) {
    errors_.protocol_unreachable(offender_of(arrived), now);
  } else {
    errors_.parameter_problem(offender_of(arrived),
                              {.answer = wire::Ipv6Answer::unknown_header, .pointer = pointer},
                              now);
  }
}

}  // namespace pinion

#include <array>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "ip_input.h"

namespace pinion {
namespace {

constexpr auto kIcmpV6 = static_cast<std::uint8_t>(IpProtocol::icmp_v6);

/// What of a protocol's header a first fragment must show.
std::size_t least_header(std::uint8_t protocol) noexcept {
  switch (static_cast<IpProtocol>(protocol)) {
    case IpProtocol::tcp:
      return 20;
    case IpProtocol::udp:
    case IpProtocol::icmp_v6:
      return 8;
    default:
      return 0;
  }
}

struct Upper {
  std::uint8_t protocol = 0;
  std::size_t offset = 0;
};

/// The transport's protocol and where its header begins, by the extension headers' lengths alone,
/// whatever they hold.
Upper find_upper(std::uint8_t protocol, std::span<const std::byte> payload) noexcept {
  Upper upper{.protocol = protocol};
  for (std::size_t count = 0; count < wire::kMaxIpv6Extensions; ++count) {
    const auto next = static_cast<wire::Ipv6NextHeader>(upper.protocol);
    const bool fragment = next == wire::Ipv6NextHeader::fragment;
    if (!fragment && next != wire::Ipv6NextHeader::hop_by_hop &&
        next != wire::Ipv6NextHeader::routing &&
        next != wire::Ipv6NextHeader::destination_options) {
      break;
    }
    if (payload.size() < upper.offset + 2) break;
    upper.protocol = wire::load_u8(&payload[upper.offset]);
    const std::size_t units = fragment ? 0 : wire::load_u8(&payload[upper.offset + 1]);
    upper.offset += 8 * (units + 1);
  }
  return upper;
}

}  // namespace

void IpInput::take_v6(Arrived& arrived, Instant now) noexcept {
  Packet& packet = *arrived.packet;
  const std::size_t size = packet.chain_size();
  const auto parsed = wire::parse_ipv6(packet.bytes(), size);
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  const wire::Ipv6Header& header = *parsed;
  arrived.arrival.source = IpAddress::v6(header.source);
  arrived.arrival.destination = IpAddress::v6(header.destination);
  arrived.arrival.traffic_class = header.traffic_class;
  arrived.arrival.hop_limit = header.hop_limit;
  arrived.protocol = header.next_header;
  arrived.header_size = wire::Ipv6Header::kSize;
  arrived.header = std::as_const(packet).bytes().first(wire::Ipv6Header::kSize);
  if (!accept_source(arrived) || !accept_destination(arrived)) return;
  if (size > wire::Ipv6Header::kSize + header.payload_size) {
    truncate_chain(packet, wire::Ipv6Header::kSize + header.payload_size);
  }
  const auto walked =
      walk_ipv6_extensions(header, std::as_const(packet).bytes().subspan(wire::Ipv6Header::kSize));
  if (!walked) {
    return refuse_header(arrived, walked.error(), now);
  }
  arrived.protocol = walked->protocol;
  arrived.router_alert = walked->router_alert;
  arrived.fragmented = walked->fragmented;
  arrived.header_size += walked->size;
  if (!gather(arrived.packet, arrived.header_size + kTransportHeader)) return;
  arrived.header = std::as_const(*arrived.packet).bytes().first(arrived.header_size);
  if (walked->fragment) [[unlikely]] {
    return fragment_v6(arrived, header, *walked, now);
  }
  if (walked->protocol != kIcmpV6 && context_.transport(walked->protocol) == nullptr) [[unlikely]] {
    return refuse_protocol(arrived, walked->protocol_offset, now);
  }
  deliver(arrived, now);
}

void IpInput::fragment_v6(Arrived& arrived, const wire::Ipv6Header& header,
                          const wire::Ipv6Extensions& extensions, Instant now) noexcept {
  ++context_.counters.fragments_in;
  const wire::Ipv6Fragment& fragment = *extensions.fragment;
  const std::size_t size = wire::Ipv6Header::kSize + header.payload_size - arrived.header_size;
  if (fragment.offset == 0 && !has_all_headers(arrived, header, extensions)) {
    ++context_.counters.fragment_header;
    errors_.incomplete_headers(offender_within(arrived), now);
    return;
  }
  const FragmentPlace place{.offset = fragment.offset,
                            .size = static_cast<std::uint32_t>(size),
                            .more = fragment.more,
                            .header_size = static_cast<std::uint8_t>(arrived.header_size),
                            .ecn = static_cast<std::uint8_t>(header.traffic_class & 3U)};
  // A source that puts so much in front of a fragment has no use of it.
  if (place.header_size != arrived.header_size) {
    ++context_.counters.fragment_header;
    return;
  }
  const FragmentKey key{.source = arrived.arrival.source,
                        .destination = arrived.arrival.destination,
                        .id = fragment.identification};
  if (!make_own(arrived.packet, arrived.header_size)) return;
  ReassemblyResult result = reassembly_.insert(std::move(arrived.packet), key, place, now);
  if (result.fate == FragmentFate::complete) {
    whole_v6(arrived, std::move(result), now);
  }
}

/// RFC 8200, 4.5: a first fragment holds all headers up to the transport's.
bool IpInput::has_all_headers(const Arrived& arrived, const wire::Ipv6Header& header,
                              const wire::Ipv6Extensions& extensions) const noexcept {
  const std::span rest = std::as_const(*arrived.packet).bytes().subspan(arrived.header_size);
  wire::Ipv6Header behind = header;
  behind.next_header = extensions.protocol;
  const auto walked = walk_ipv6_extensions(behind, rest, wire::Ipv6WalkFrom::reassembled);
  // Other faults wait until the datagram is whole.
  if (!walked) return walked.error().fault != wire::WireFault::ipv6_extension_truncated;
  return rest.size() >= walked->size + least_header(walked->protocol);
}

/// The offender with what is behind all of its extension headers, those too that were not walked:
/// an ICMP error is not answered by another, whatever stands in front of it (RFC 4443, 2.4 (e)).
Offender IpInput::offender_within(const Arrived& arrived) noexcept {
  Offender offender = offender_of(arrived);
  if (offender.source.is_v4()) return offender;
  const std::span bytes = std::as_const(*arrived.packet).bytes();
  const Upper upper = find_upper(arrived.protocol, bytes.subspan(arrived.header_size));
  offender.protocol = upper.protocol;
  offender.transport_offset += upper.offset;
  return offender;
}

/// A header can't be read, or has an option that wants it so.
void IpInput::refuse_header(const Arrived& arrived, const wire::Ipv6Refusal& refusal,
                            Instant now) noexcept {
  context_.counters.count(refusal.fault);
  errors_.parameter_problem(offender_within(arrived), refusal, now);
}

void IpInput::whole_v6(Arrived& arrived, ReassemblyResult result, Instant now) noexcept {
  arrived.packet = std::move(result.datagram);
  // Its headers are those of the first fragment.
  const std::span bytes = std::as_const(*arrived.packet).bytes();
  const auto parsed = wire::parse_ipv6(bytes, arrived.packet->chain_size());
  PINION_ASSERT(parsed.has_value());
  const auto first = walk_ipv6_extensions(*parsed, bytes.subspan(wire::Ipv6Header::kSize));
  PINION_ASSERT(first.has_value());
  wire::Ipv6Header header = *parsed;
  header.payload_size = static_cast<std::uint16_t>(result.payload_size);
  header.next_header = first->protocol;
  header.traffic_class = static_cast<std::uint8_t>((header.traffic_class & 0xfcU) | result.ecn);
  arrived.packet->remove_prefix(result.header_size);
  if (!gather(arrived.packet, kHeaders)) return;

  std::array<std::byte, wire::Ipv6Header::kSize> rebuilt;
  arrived.header = std::span(rebuilt).first(emit_ipv6(header, rebuilt));
  arrived.header_size = 0;
  arrived.protocol = header.next_header;
  arrived.arrival.traffic_class = header.traffic_class;
  arrived.arrival.hop_limit = header.hop_limit;
  const auto walked = walk_ipv6_extensions(header, std::as_const(*arrived.packet).bytes(),
                                           wire::Ipv6WalkFrom::reassembled);
  if (!walked) {
    return refuse_header(arrived, walked.error(), now);
  }
  arrived.protocol = walked->protocol;
  if (walked->protocol != kIcmpV6 && context_.transport(walked->protocol) == nullptr) {
    return refuse_protocol(arrived, walked->protocol_offset, now);
  }
  // Quoted without those that were walked.
  header.next_header = walked->protocol;
  header.payload_size = static_cast<std::uint16_t>(header.payload_size - walked->size);
  emit_ipv6(header, rebuilt);
  arrived.header_size = walked->size;
  deliver(arrived, now);
}

}  // namespace pinion

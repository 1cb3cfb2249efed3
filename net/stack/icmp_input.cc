#include "icmp_input.h"

#include <utility>

#include <pinion/net/packet_copy.h>

#include "path_mtu.h"

namespace pinion {

/// The packet goes back as it came, with another type.
void IcmpInput::answer_echo(PacketPtr packet, const IpArrival& arrival, std::uint8_t reply_type,
                            const IcmpArrival& how, Instant now) noexcept {
  // RFC 1122, 3.2.2.6, and RFC 4443, 4.2, leave it to us: it would amplify.
  if (how.to_many) {
    ++context_.counters.echo_to_group;
    return;
  }
  ++context_.counters.echo_requests;
  if (packet->shared()) {
    packet = copy_packet(*packet, context_.pool);
    if (!packet) {
      ++context_.counters.out_no_packet;
      return;
    }
  }
  std::byte* const at = packet->data();
  const std::uint16_t before = wire::load_be16(at);
  wire::store_u8(at, reply_type);
  const std::uint16_t checksum = wire::load_be16(at + wire::IcmpMessage::kChecksumOffset);
  wire::store_be16(at + wire::IcmpMessage::kChecksumOffset,
                   wire::updated_checksum(checksum, before, wire::load_be16(at)));
  const bool v4 = arrival.source.is_v4();
  output_.send(std::move(packet),
               {.source = arrival.destination,
                .destination = arrival.source,
                .protocol = v4 ? IpProtocol::icmp : IpProtocol::icmp_v6,
                // Congestion that the request met is not the reply's (RFC 3168, 5).
                .traffic_class = static_cast<std::uint8_t>(arrival.traffic_class & 0xfcU),
                .may_fragment = true},
               now);
}

/// An error goes to the source of what it is about (RFC 1122, 3.2.2; RFC 4443, 2.2): one that
/// arrived at another address is made up, and may be about what we say to ourselves.
void IcmpInput::complain(const wire::Parsed<wire::QuotedDatagram>& quoted, IpTrouble trouble,
                         std::size_t mtu, const IpAddress& arrived_at, Instant now) noexcept {
  if (!quoted) {
    context_.counters.count(quoted.error());
    return;
  }
  IpTransport* const transport = context_.transport(quoted->protocol);
  if (transport == nullptr || quoted->source != arrived_at || !context_.is_local(quoted->source)) {
    ++context_.counters.icmp_not_ours;
    return;
  }
  ++context_.counters.icmp_errors_in;
  transport->complain({.trouble = trouble,
                       .mtu = mtu,
                       .source = quoted->source,
                       .destination = quoted->destination,
                       .quoted = quoted->transport},
                      now);
}

}  // namespace pinion

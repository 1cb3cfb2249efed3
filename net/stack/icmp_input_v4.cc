#include <optional>
#include <utility>

#include "icmp_input.h"
#include "path_mtu.h"

namespace pinion {
namespace {

/// What an error says, by type and code (RFC 1122, 3.2.2.1; RFC 1812, 5.2.7.1); none of those that
/// nobody follows.
std::optional<IpTrouble> trouble_of(const wire::IcmpMessage& message) noexcept {
  if (message.is(wire::IcmpType::time_exceeded)) return IpTrouble::time_exceeded;
  if (message.is(wire::IcmpType::parameter_problem)) return IpTrouble::parameter_problem;
  if (!message.is(wire::IcmpType::destination_unreachable)) return std::nullopt;
  switch (static_cast<wire::IcmpUnreachable>(message.code)) {
    case wire::IcmpUnreachable::net:
    case wire::IcmpUnreachable::net_unknown:
      return IpTrouble::net_unreachable;
    case wire::IcmpUnreachable::host:
    case wire::IcmpUnreachable::host_unknown:
    case wire::IcmpUnreachable::source_route_failed:
      return IpTrouble::host_unreachable;
    case wire::IcmpUnreachable::protocol:
      return IpTrouble::protocol_unreachable;
    case wire::IcmpUnreachable::port:
      return IpTrouble::port_unreachable;
    case wire::IcmpUnreachable::fragmentation_needed:
      return IpTrouble::packet_too_big;
    case wire::IcmpUnreachable::net_prohibited:
    case wire::IcmpUnreachable::host_prohibited:
    case wire::IcmpUnreachable::prohibited:
      return IpTrouble::prohibited;
  }
  // For a type of service: 11 and 12; source host isolated: 8.
  return message.code == 11 ? IpTrouble::net_unreachable : IpTrouble::host_unreachable;
}

}  // namespace

void IcmpInput::receive_v4(PacketPtr packet, const IpArrival& arrival, const IcmpArrival& how,
                           Instant now) noexcept {
  const auto parsed = wire::parse_icmp(packet->bytes());
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  if (wire::icmp_checksum(*packet, packet->chain_size()) != 0) {
    context_.counters.count(wire::WireFault::icmp_checksum);
    return;
  }
  if (parsed->is(wire::IcmpType::echo_request)) {
    constexpr auto kReply = static_cast<std::uint8_t>(wire::IcmpType::echo_reply);
    return answer_echo(std::move(packet), arrival, kReply, how, now);
  }
  if (is_icmp_error(*parsed)) return error_v4(*packet, *parsed, arrival, now);
  ++context_.counters.icmp_ignored;
}

void IcmpInput::error_v4(const Packet& packet, const wire::IcmpMessage& message,
                         const IpArrival& arrival, Instant now) noexcept {
  const std::optional<IpTrouble> trouble = trouble_of(message);
  if (!trouble) {
    const bool redirect = message.is(wire::IcmpType::redirect);
    ++(redirect ? context_.counters.icmp_redirect : context_.counters.icmp_ignored);
    return;
  }
  const auto quoted = wire::parse_icmp_quote(packet.bytes());
  std::size_t mtu = 0;
  if (*trouble == IpTrouble::packet_too_big && quoted) {
    mtu = message.detail & 0xffffU;
    // A router from before RFC 1191 says nothing: the length of what it quotes does.
    constexpr std::size_t kTotalLength = wire::IcmpMessage::kHeaderSize + 2;
    if (mtu == 0) mtu = plateau_below(wire::load_be16(packet.data() + kTotalLength));
  }
  complain(quoted, *trouble, mtu, arrival.destination, now);
}

}  // namespace pinion

#include <utility>

#include <pinion/net/packet_copy.h>

#include "icmp_input.h"

namespace pinion {
namespace {

/// What an error says, by type and code (RFC 4443, 3). One of an unknown type says that something
/// has befallen the datagram, and is passed on, too (2.4 (a)).
IpTrouble trouble_of(const wire::IcmpMessage& message) noexcept {
  if (message.is(wire::IcmpV6Type::packet_too_big)) return IpTrouble::packet_too_big;
  if (message.is(wire::IcmpV6Type::time_exceeded)) return IpTrouble::time_exceeded;
  if (message.is(wire::IcmpV6Type::parameter_problem)) {
    constexpr std::uint8_t kUnknownHeader = 1;
    return message.code == kUnknownHeader ? IpTrouble::protocol_unreachable
                                          : IpTrouble::parameter_problem;
  }
  if (!message.is(wire::IcmpV6Type::destination_unreachable)) return IpTrouble::net_unreachable;
  switch (static_cast<wire::IcmpV6Unreachable>(message.code)) {
    case wire::IcmpV6Unreachable::no_route:
      return IpTrouble::net_unreachable;
    case wire::IcmpV6Unreachable::beyond_scope:
    case wire::IcmpV6Unreachable::address:
      return IpTrouble::host_unreachable;
    case wire::IcmpV6Unreachable::port:
      return IpTrouble::port_unreachable;
    case wire::IcmpV6Unreachable::prohibited:
      break;
  }
  // 5 and 6, policy and rejected routes, are kinds of it.
  return IpTrouble::prohibited;
}

}  // namespace

void IcmpInput::receive_v6(PacketPtr packet, const IpArrival& arrival, const IcmpArrival& how,
                           Instant now) noexcept {
  const auto parsed = wire::parse_icmp(packet->bytes());
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  constexpr auto kProtocol = static_cast<std::uint8_t>(IpProtocol::icmp_v6);
  if (wire::transport_checksum(*packet, packet->chain_size(), arrival.source, arrival.destination,
                               kProtocol) != 0) {
    context_.counters.count(wire::WireFault::icmp_checksum);
    return;
  }
  if (is_ndp(*parsed) || is_mld(*parsed)) {
    return link_message(*packet, *parsed, arrival, how, now);
  }
  // What comes from nowhere can't be answered, nor complain.
  if (is_unspecified(arrival.source)) {
    ++context_.counters.source_martian;
    return;
  }
  if (parsed->is(wire::IcmpV6Type::echo_request)) {
    constexpr auto kReply = static_cast<std::uint8_t>(wire::IcmpV6Type::echo_reply);
    return answer_echo(std::move(packet), arrival, kReply, how, now);
  }
  if (is_icmp_v6_error(*parsed)) return error_v6(*packet, *parsed, arrival, now);
  const bool redirect = parsed->is(wire::IcmpV6Type::redirect);
  ++(redirect ? context_.counters.icmp_redirect : context_.counters.icmp_ignored);
}

void IcmpInput::error_v6(const Packet& packet, const wire::IcmpMessage& message,
                         const IpArrival& arrival, Instant now) noexcept {
  const IpTrouble trouble = trouble_of(message);
  const bool too_big = trouble == IpTrouble::packet_too_big;
  complain(wire::parse_icmp_v6_quote(packet.bytes()), trouble, too_big ? message.detail : 0,
           arrival.destination, now);
}

/// Neighbor discovery and MLD, which have no business with ourselves.
void IcmpInput::link_message(const Packet& packet, const wire::IcmpMessage& message,
                             const IpArrival& arrival, const IcmpArrival& how,
                             Instant now) noexcept {
  if (how.interface == IpContext::kLoopback) {
    ++context_.counters.icmp_ignored;
    return;
  }
  if (packet.next_segment() != nullptr) {
    ++context_.counters.header_split;
    return;
  }
  Interface& interface = context_.interfaces[how.interface];
  if (how.fragmented && is_ndp(message)) {
    ++context_.counters.neighbour_bad;
  } else if (is_mld(message)) {
    mld_.receive(interface, message, packet.bytes(), arrival, how.router_alert, now);
  } else {
    ndp_.receive(interface, message, packet.bytes(), arrival, now);
  }
}

}  // namespace pinion

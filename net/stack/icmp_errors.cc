#include "icmp_errors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <pinion/net/packet_copy.h>

namespace pinion {
namespace {

constexpr std::size_t kMostV4 = 576;
constexpr std::size_t kMostV6 = 1280;
constexpr std::uint8_t kHopLimit = 64;

std::uint8_t code_of(wire::IcmpUnreachable code) noexcept {
  return static_cast<std::uint8_t>(code);
}
std::uint8_t code_of(wire::IcmpV6Unreachable code) noexcept {
  return static_cast<std::uint8_t>(code);
}
std::uint8_t type_of(wire::IcmpType type) noexcept {
  return static_cast<std::uint8_t>(type);
}
std::uint8_t type_of(wire::IcmpV6Type type) noexcept {
  return static_cast<std::uint8_t>(type);
}

/// Precedence "internetwork control" over the type of service of the offender (RFC 1812, 4.3.2.5),
/// without ECN's bits, of which ours is not capable (RFC 3168, 5).
std::uint8_t v4_traffic_class(std::uint8_t offenders) noexcept {
  return static_cast<std::uint8_t>(0xc0U | (offenders & 0x1cU));
}

}  // namespace

IcmpErrors::IcmpErrors(IpContext& context, IpOutput& output, const Options& options) noexcept
    : context_(context),
      output_(output),
      limiter_(options.per_second, options.burst, context.secrets.next()) {}

void IcmpErrors::protocol_unreachable(const Offender& offender, Instant now) noexcept {
  PINION_DCHECK(offender.source.is_v4());
  if (!may_answer(offender, false)) return;
  send(offender,
       {.type = type_of(wire::IcmpType::destination_unreachable),
        .code = code_of(wire::IcmpUnreachable::protocol)},
       now);
}

void IcmpErrors::port_unreachable(const Offender& offender, Instant now) noexcept {
  if (!may_answer(offender, false)) return;
  const bool v4 = offender.source.is_v4();
  send(offender,
       {.type = v4 ? type_of(wire::IcmpType::destination_unreachable)
                   : type_of(wire::IcmpV6Type::destination_unreachable),
        .code = v4 ? code_of(wire::IcmpUnreachable::port) : code_of(wire::IcmpV6Unreachable::port)},
       now);
}

void IcmpErrors::reassembly_time_exceeded(const Offender& offender, Instant now) noexcept {
  if (!may_answer(offender, false)) return;
  const bool v4 = offender.source.is_v4();
  send(offender,
       {.type =
            v4 ? type_of(wire::IcmpType::time_exceeded) : type_of(wire::IcmpV6Type::time_exceeded),
        .code = 1},
       now);
}

void IcmpErrors::parameter_problem(const Offender& offender, const wire::Ipv6Refusal& refusal,
                                   Instant now) noexcept {
  if (refusal.answer == wire::Ipv6Answer::none) return;
  const bool even_to_many = refusal.answer == wire::Ipv6Answer::unknown_option;
  if (!may_answer(offender, even_to_many)) return;
  std::uint8_t code = 0;
  if (refusal.answer == wire::Ipv6Answer::unknown_header) code = 1;
  if (refusal.answer == wire::Ipv6Answer::unknown_option) code = 2;
  if (refusal.answer == wire::Ipv6Answer::unknown_option_unless_multicast) code = 2;
  send(offender,
       {.type = type_of(wire::IcmpV6Type::parameter_problem),
        .code = code,
        .detail = refusal.pointer},
       now);
}

void IcmpErrors::incomplete_headers(const Offender& offender, Instant now) noexcept {
  if (!may_answer(offender, false)) return;
  send(offender, {.type = type_of(wire::IcmpV6Type::parameter_problem), .code = 3}, now);
}

bool IcmpErrors::may_answer(const Offender& offender, bool even_to_many) const noexcept {
  const bool allowed = (even_to_many || !offender.to_many) && !is_never_a_host(offender.source) &&
                       !is_about_error(offender);
  if (!allowed) ++context_.counters.icmp_not_answered;
  return allowed;
}

bool IcmpErrors::is_about_error(const Offender& offender) const noexcept {
  const bool v4 = offender.source.is_v4();
  const IpProtocol icmp = v4 ? IpProtocol::icmp : IpProtocol::icmp_v6;
  if (offender.protocol != static_cast<std::uint8_t>(icmp)) return false;
  std::array<std::byte, 1> type{};
  // One that doesn't show its type may be one.
  if (copy_out(*offender.packet, offender.transport_offset, type) == 0) return true;
  const wire::IcmpMessage message{.type = std::to_integer<std::uint8_t>(type[0])};
  if (v4) return is_icmp_error(message);
  // A redirect is as good as an error (RFC 4443, 2.4 (e.2)).
  return is_icmp_v6_error(message) || message.is(wire::IcmpV6Type::redirect);
}

void IcmpErrors::send(const Offender& offender, const wire::IcmpMessage& message,
                      Instant now) noexcept {
  const bool v4 = offender.source.is_v4();
  std::optional<IpAddress> source = offender.destination;
  if (!context_.is_local(offender.destination)) source = output_.source_for(offender.source);
  if (!source) {
    ++context_.counters.no_route;
    return;
  }
  if (!limiter_.allow(now)) {
    ++context_.counters.icmp_rate_limited;
    return;
  }
  PacketPtr packet =
      build(offender, message,
            v4 ? kMostV4 - wire::Ipv4Header::kMinSize : kMostV6 - wire::Ipv6Header::kSize);
  if (!packet) return;
  const IpProtocol protocol = v4 ? IpProtocol::icmp : IpProtocol::icmp_v6;
  const std::size_t size = packet->chain_size();
  const std::uint16_t checksum =
      v4 ? wire::icmp_checksum(*packet, size)
         : wire::transport_checksum(*packet, size, *source, offender.source,
                                    static_cast<std::uint8_t>(protocol));
  wire::store_be16(packet->data() + wire::IcmpMessage::kChecksumOffset, checksum);
  ++context_.counters.icmp_errors_out;
  output_.send(std::move(packet),
               {.source = *source,
                .destination = offender.source,
                .protocol = protocol,
                .traffic_class = v4 ? v4_traffic_class(offender.traffic_class) : std::uint8_t{0},
                .hop_limit = kHopLimit,
                .may_fragment = true},
               now);
}

/// The message with as much of the datagram as `room` bytes take.
PacketPtr IcmpErrors::build(const Offender& offender, const wire::IcmpMessage& message,
                            std::size_t room) noexcept {
  PacketPtr packet(context_.pool.allocate());
  if (!packet) {
    ++context_.counters.out_no_packet;
    return {};
  }
  room = std::min(room, packet->tailroom());
  emit_icmp(message,
            {packet->append(wire::IcmpMessage::kHeaderSize), wire::IcmpMessage::kHeaderSize});
  room -= wire::IcmpMessage::kHeaderSize;
  const std::size_t header = std::min(room, offender.header.size());
  std::memcpy(packet->append(header), offender.header.data(), header);
  room -= header;
  const std::size_t rest = offender.packet->chain_size() - offender.payload_offset;
  const std::size_t quoted = std::min(room, rest);
  copy_out(*offender.packet, offender.payload_offset, {packet->append(quoted), quoted});
  return packet;
}

}  // namespace pinion

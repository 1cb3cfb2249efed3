#include "mld.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "../wire/ipv6_extensions.h"

namespace pinion {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t kQuery = 130;
constexpr std::uint8_t kReportV2 = 143;
constexpr std::size_t kQueryV1Size = 24;
constexpr std::size_t kQueryV2Size = 28;
constexpr std::size_t kRecordSize = 20;
constexpr std::size_t kReportSize = 8 + kRecordSize * Interface::kMostAddresses;
constexpr milliseconds kUnsolicitedInterval{1000};  // RFC 3810, 9.11

/// ff02::16, the routers that speak MLDv2.
constexpr IpAddress all_mld_routers() noexcept {
  std::array<std::uint8_t, 16> group{0xff, 0x02};
  group[15] = 0x16;
  return IpAddress::v6(group);
}

bool is_in_group(const InterfaceAddress& own, const IpAddress& group) noexcept {
  return own.prefix.address.is_v6() && own.state != AddressState::duplicate &&
         solicited_node(own.prefix.address) == group;
}

/// Within how long to answer a query of either version (RFC 3810, 5.1.3).
milliseconds longest_answer(std::uint32_t detail, bool v2) noexcept {
  const std::uint32_t code = detail >> 16;
  if (!v2 || code < 32'768) return milliseconds{code};
  const std::uint32_t exponent = (code >> 12) & 7U;
  return milliseconds{((code & 0xfffU) | 0x1000U) << (exponent + 3)};
}

}  // namespace

Mld::Timer::Timer(Mld& its) noexcept
    : TimerEntry([](TimerEntry& entry) {
        Mld& its_owner = static_cast<Timer&>(entry).mld;
        its_owner.on_due(its_owner.context_.wheel.now());
      }),
      mld(its) {}

Mld::Mld(IpContext& context, IpOutput& output) noexcept : context_(context), output_(output) {}

void Mld::joined(Interface& interface, const IpAddress& address, Instant now) noexcept {
  const auto shares = [&address](const InterfaceAddress& own) {
    return own.prefix.address != address && is_in_group(own, solicited_node(address));
  };
  if (std::ranges::any_of(interface.addresses(), shares)) return;
  report(interface, Record::to_exclude);
  const milliseconds wait{context_.random.between(std::int64_t{1}, kUnsolicitedInterval.count())};
  due_[interface.index].repeat = now + Delay{wait};
  rearm();
}

void Mld::speaks(const Interface& interface, Instant now) noexcept {
  due_[interface.index].repeat = now;
  rearm();
}

void Mld::receive(Interface& interface, const wire::IcmpMessage& header,
                  std::span<const std::byte> bytes, const IpArrival& arrival, bool router_alert,
                  Instant now) noexcept {
  if (header.type != kQuery) {
    ++context_.counters.neighbour_ignored;
    return;
  }
  // RFC 3810, 5.1.14 and 6.2: only what a router of this link has sent.
  const bool sized = bytes.size() == kQueryV1Size || bytes.size() >= kQueryV2Size;
  if (!sized || !router_alert || arrival.hop_limit != 1 || !is_link_local(arrival.source)) {
    ++context_.counters.neighbour_bad;
    return;
  }
  const milliseconds most = longest_answer(header.detail, bytes.size() >= kQueryV2Size);
  const milliseconds wait{context_.random.between(std::int64_t{0}, most.count())};
  Instant& answer = due_[interface.index].answer;
  answer = std::min(answer, now + Delay{wait});
  rearm();
}

/// RFC 3810, 5.2: from :: while we have no usable link-local address (5.2.13).
void Mld::report(Interface& interface, Record record) noexcept {
  PacketPtr packet(context_.pool.allocate());
  if (!packet) {
    ++context_.counters.out_no_packet;
    return;
  }
  std::byte* const at = packet->append(kReportSize);
  std::uint16_t records = 0;
  std::byte* next = at + wire::IcmpMessage::kHeaderSize;
  const std::span all = interface.addresses();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const InterfaceAddress& own = all[i];
    if (own.prefix.address.is_v4()) continue;
    const IpAddress group = solicited_node(own.prefix.address);
    const auto is_in = [&group](const InterfaceAddress& one) { return is_in_group(one, group); };
    // Several addresses may share a group: the first names it.
    if (!is_in(own) || std::ranges::any_of(all.first(i), is_in)) continue;
    wire::store_be32(next, static_cast<std::uint32_t>(record) << 24);
    wire::store_bytes(next + 4, group.bytes());
    next += kRecordSize;
    ++records;
  }
  const auto size = static_cast<std::size_t>(next - at);
  packet->remove_suffix(kReportSize - size);
  wire::emit_icmp({.type = kReportV2, .detail = records}, {at, wire::IcmpMessage::kHeaderSize});
  if (records == 0) return;

  const IpPrefix* const from = choose_source(interface.usable(), all_mld_routers());
  const bool linked = from != nullptr && is_link_local(from->address);
  const IpAddress source = linked ? from->address : IpAddress::v6({});
  const std::uint16_t checksum = wire::transport_checksum(
      *packet, size, source, all_mld_routers(), static_cast<std::uint8_t>(IpProtocol::icmp_v6));
  wire::store_be16(at + wire::IcmpMessage::kChecksumOffset, checksum);
  std::byte* const alert = output_.push_header(packet, wire::kIpv6RouterAlertSize);
  if (alert == nullptr) return;
  wire::emit_ipv6_router_alert(static_cast<std::uint8_t>(IpProtocol::icmp_v6),
                               {alert, wire::kIpv6RouterAlertSize});
  output_.send_to(interface, multicast_mac(all_mld_routers()), std::move(packet),
                  {.source = source,
                   .destination = all_mld_routers(),
                   .protocol = static_cast<IpProtocol>(wire::Ipv6NextHeader::hop_by_hop),
                   .hop_limit = 1});
}

void Mld::on_due(Instant now) noexcept {
  for (std::size_t i = 0; i < context_.interface_count; ++i) {
    Due& due = due_[i];
    if (due.answer <= now) {
      due.answer = kNever;
      report(context_.interfaces[i], Record::is_exclude);
    }
    if (due.repeat <= now) {
      due.repeat = kNever;
      report(context_.interfaces[i], Record::to_exclude);
    }
  }
  rearm();
}

void Mld::rearm() noexcept {
  Instant first = kNever;
  for (const Due& due : due_) first = std::min({first, due.answer, due.repeat});
  if (first != kNever) context_.wheel.extend(timer_, first);
}

}  // namespace pinion

#include "ways_peer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "wire/byte_order.h"
#include "wire/checksum.h"

namespace pinion::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMostFlows = 5;
constexpr std::uint16_t kFirstPort = 1'000;

void put32(PacketBytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(value >> shift));
}

void put(PacketBytes& bytes, std::initializer_list<int> more) {
  for (const int byte : more) bytes.push_back(static_cast<std::byte>(byte));
}

/// Behind two NOPs, the layout that nearly all have.
void put_timestamps(PacketBytes& bytes, std::uint32_t value, std::uint32_t echo) {
  put(bytes, {kOptionNop, kOptionNop, kOptionTimestamps, 10});
  put32(bytes, value);
  put32(bytes, echo);
}

std::int32_t distance(std::uint32_t from, std::uint32_t to) {
  return static_cast<std::int32_t>(to - from);
}

/// 192.0.2.3 or 2001:db8::3 for 192.0.2.2 or 2001:db8::2.
IpAddress neighbour_of(const IpAddress& address) {
  auto bytes = address.bytes();
  if (address.is_v6()) {
    bytes[15] ^= 1U;
    return IpAddress::v6(bytes);
  }
  return IpAddress::v4({bytes[0], bytes[1], bytes[2], static_cast<std::uint8_t>(bytes[3] ^ 1U)});
}

std::string text_of(const Segment& segment, const SegmentDamage& damage) {
  return fmt::format("< {}>{} flags {:02x} seq {} ({}) ack {} win {} options {} {}",
                     segment.source_port, segment.destination_port, segment.flags, segment.sequence,
                     segment.payload.size(), segment.acknowledgment, segment.window,
                     damage.raw_options.size(),
                     damage.checksum || damage.cut_to || damage.data_offset ? "damaged" : "");
}

}  // namespace

WaysPeer::WaysPeer(TwoWays& hosts, Random& random, const ScriptTcpOptions& options)
    : hosts_(hosts), random_(random), options_(options) {}

void WaysPeer::step() {
  const std::uint64_t what = flows_.empty() ? 0 : random_.below(100);
  if (what < 3) {
    if (random_.chance(0.75)) {
      open();
    } else {
      connect();
    }
  } else if (what < 62) {
    send_burst();
  } else if (what < 86) {
    use();
  } else if (what < 90) {
    use_seldom();
  } else {
    constexpr std::array<std::int64_t, 6> kUs = {300,     3'000,     45'000,
                                                 250'000, 1'500'000, 20'000'000};
    const std::int64_t most = kUs[std::min(random_.below(kUs.size()), random_.below(kUs.size()))];
    hosts_.pass(microseconds{
        1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most)))});
  }
  learn();
}

void WaysPeer::learn() {
  while (const std::optional<PacketBytes> packet = hosts_.take()) {
    const auto read = read_packet(*packet);
    ASSERT_TRUE(read) << read.error();
    if (read->destination == hosts_.peer().address) learn(read->segment);
  }
}

void WaysPeer::learn(const Segment& segment) {
  const auto is_it = [&segment](const Flow& flow) {
    return flow.port == segment.destination_port && flow.host_port == segment.source_port;
  };
  const auto found = std::ranges::find_if(flows_, is_it);
  const bool syn = segment.has(kSyn);
  if (found == flows_.end() && !syn) return;
  Flow& flow =
      found != flows_.end() ? *found : make_flow(segment.destination_port, segment.source_port);
  const auto size = static_cast<std::uint32_t>(segment.payload.size()) + (syn ? 1U : 0U) +
                    (segment.has(kFin) ? 1U : 0U);
  const std::uint32_t end = segment.sequence + size;
  if (syn || distance(flow.host_next, end) > 0) flow.host_next = end;
  if (syn) {
    flow.host_syn = true;
    flow.acked = segment.sequence + 1;
  }
  if (segment.has(kAck)) flow.host_acked = segment.acknowledgment;
  const SegmentOption* const timestamps = segment.option(kOptionTimestamps);
  if (syn) flow.timestamps = timestamps != nullptr;
  if (timestamps != nullptr) flow.host_timestamp = timestamps->word(0);
}

WaysPeer::Flow& WaysPeer::any_flow() {
  // The one made last as a rule, of which the hosts' users know.
  if (random_.chance(0.7)) return flows_.back();
  return flows_[random_.below(flows_.size())];
}

WaysPeer::Flow& WaysPeer::make_flow(std::uint16_t port, std::uint16_t host_port) {
  std::erase_if(flows_,
                [&](const Flow& flow) { return flow.port == port && flow.host_port == host_port; });
  if (flows_.size() == kMostFlows) flows_.erase(flows_.begin());
  Flow& flow = flows_.emplace_back();
  flow.port = port;
  flow.host_port = host_port;
  flow.first = static_cast<std::uint32_t>(random_.next());
  if (random_.chance(0.3)) flow.first = 0U - random_.between(1U, 20'000U);
  flow.next = flow.first + 1;
  flow.host_acked = flow.next;
  flow.timestamp_offset = static_cast<std::uint32_t>(random_.next());
  return flow;
}

std::uint32_t WaysPeer::timestamp_now(const Flow& flow) const {
  const auto ms = std::chrono::duration_cast<milliseconds>(hosts_.now().time_since_epoch()).count();
  return static_cast<std::uint32_t>(ms) + flow.timestamp_offset;
}

WaysPeer::Draft WaysPeer::syn_of(const Flow& flow, bool with_ack) {
  Draft draft{.source = hosts_.peer().address, .destination = hosts_.host().address};
  Segment& syn = draft.segment;
  syn.source_port = flow.port;
  syn.destination_port = flow.host_port;
  syn.sequence = flow.first;
  syn.flags = kSyn;
  syn.window = random_.chance(0.8) ? 65'535 : random_.between<std::uint16_t>(0, 5'000);
  if (with_ack) {
    syn.flags |= kAck;
    syn.acknowledgment = flow.host_next;
  }
  PacketBytes& options = draft.damage.raw_options;
  if (random_.chance(0.9)) {
    const std::uint32_t mss = random_.chance(0.7) ? 1'460 : random_.between(88U, 3'000U);
    put32(options, 0x02040000U | mss);
  }
  if (random_.chance(0.8)) put(options, {kOptionSackPermitted, 2, kOptionNop, kOptionNop});
  if (random_.chance(0.8)) put_timestamps(options, timestamp_now(flow), flow.host_timestamp);
  if (random_.chance(0.8)) {
    put(options, {kOptionNop, kOptionWindowScale, 3, random_.between<int>(0, 9)});
  }
  return draft;
}

/// A port of few, so that one that was in use comes again.
void WaysPeer::open() {
  const auto port = static_cast<std::uint16_t>(kFirstPort + random_.below(8));
  send({syn_of(make_flow(port, hosts_.host().port), false)});
  learn();
  if (!flows_.back().host_syn || random_.chance(0.05)) return;
  if (random_.chance(0.5)) hosts_.pass(milliseconds{random_.between(1, 60)});
  learn();
  send({plausible(flows_.back())});
  hosts_.call("accept");
}

void WaysPeer::connect() {
  hosts_.call("connect");
  const std::size_t before = flows_.size();
  learn();
  if (flows_.size() == 0 || (flows_.size() == before && before < kMostFlows)) return;
  if (random_.chance(0.5)) hosts_.pass(milliseconds{random_.between(1, 60)});
  learn();
  send({syn_of(flows_.back(), random_.chance(0.9))});
}

/// What fits: the next bytes, an acknowledgment of all or a part of what has come.
WaysPeer::Draft WaysPeer::plausible(Flow& flow) {
  Draft draft{.source = hosts_.peer().address, .destination = hosts_.host().address};
  Segment& segment = draft.segment;
  segment.source_port = flow.port;
  segment.destination_port = flow.host_port;
  if (random_.chance(0.15)) flow.next = flow.host_acked;
  segment.sequence = flow.next;
  segment.flags = kAck;
  if (random_.chance(0.3)) segment.flags |= kPsh;
  const std::int32_t outstanding = distance(flow.acked, flow.host_next);
  if (outstanding > 0 && random_.chance(0.7)) {
    const auto most = static_cast<std::uint32_t>(outstanding);
    flow.acked += random_.chance(0.6) ? most : random_.between(1U, most);
  }
  segment.acknowledgment = flow.acked;
  if (random_.chance(0.15)) {
    constexpr std::array<std::uint16_t, 6> kWindows = {0, 1, 100, 1'460, 8'000, 65'535};
    flow.window = random_.chance(0.7) ? kWindows[random_.below(kWindows.size())]
                                      : random_.between<std::uint16_t>(0, 65'535);
  }
  segment.window = flow.window;
  if (flow.timestamps) draft.timestamp = timestamp_now(flow);
  draft.echo = flow.host_timestamp;
  std::size_t size = 0;
  if (random_.chance(0.6)) {
    size = random_.chance(0.4) ? 1'460 : 1 + random_.below(random_.chance(0.5) ? 1'460 : 40);
  }
  fill(flow, draft, size);
  flow.next += static_cast<std::uint32_t>(size);
  return draft;
}

void WaysPeer::fill(const Flow& flow, Draft& draft, std::size_t size) {
  draft.segment.payload.resize(size);
  std::uint64_t offset = draft.segment.sequence - flow.first - 1;
  for (std::byte& byte : draft.segment.payload) byte = pattern_byte(offset++);
}

WaysPeer::Draft WaysPeer::draft(Flow& flow) {
  Flow before = flow;
  Draft made = plausible(flow);
  if (random_.chance(0.55)) return made;
  switch (random_.below(5)) {
    case 0:
    case 1:
      spoil_numbers(flow, made);
      break;
    case 2:
      spoil_header(made);
      break;
    case 3:
      spoil_timestamps(flow, made);
      break;
    default:
      spoil_options(flow, made);
      break;
  }
  // As if it had never been sent, so that it, or what overlaps it, comes once more.
  if (random_.chance(0.8)) flow.next = before.next;
  return made;
}

void WaysPeer::spoil_numbers(Flow& flow, Draft& draft) {
  Segment& segment = draft.segment;
  const std::size_t size = segment.payload.size();
  switch (random_.below(12)) {
    case 0:
      segment.sequence -= random_.between(1U, 3'000U);
      break;
    case 1:
    case 2:
      segment.sequence += random_.between(1U, 4'000U);
      break;
    case 3:
      segment.sequence += random_.between(1U, 1U << random_.between(3, 31));
      break;
    case 4:
      segment.acknowledgment = flow.host_next + random_.between(1U, 1U << random_.between(1, 31));
      break;
    case 5:
      segment.acknowledgment -= random_.between(1U, 1U << random_.between(1, 18));
      break;
    case 6: {
      segment.flags |= kRst;
      constexpr std::array<std::uint32_t, 4> kOffsets = {1, 200, 100'000, 0U - 3U};
      if (random_.chance(0.8)) segment.sequence += kOffsets[random_.below(kOffsets.size())];
      break;
    }
    case 7:
      segment.flags |= kSyn;
      if (random_.chance(0.3)) segment.sequence = flow.first;
      break;
    case 8:
      segment.flags |= kFin;
      if (random_.chance(0.5)) segment.sequence += random_.between(1U, 1'000U);
      break;
    case 9:
      // A duplicate acknowledgment.
      segment.payload.clear();
      segment.window = flow.window;
      segment.sequence = flow.host_acked;
      return;
    case 10:
      // A probe.
      segment.sequence = flow.host_acked - 1;
      segment.payload.resize(random_.below(2));
      return;
    default:
      segment.flags &= static_cast<std::uint8_t>(~kAck);
      break;
  }
  fill(flow, draft, size);
}

void WaysPeer::spoil_header(Draft& draft) {
  Segment& segment = draft.segment;
  switch (random_.below(9)) {
    case 0:
      segment.flags |= kUrg;
      segment.urgent_pointer = random_.between<std::uint16_t>(0, 2'000);
      break;
    case 1:
      segment.flags |= random_.chance(0.5) ? kEce : kCwr;
      break;
    case 2:
      draft.reserved = random_.between<std::uint8_t>(1, 15);
      break;
    case 3:
      draft.damage.checksum = true;
      break;
    case 4:
      draft.damage.cut_to = random_.below(45);
      break;
    case 5:
      draft.damage.data_offset = random_.between<std::uint8_t>(0, 15);
      break;
    case 6:
      draft.source = neighbour_of(draft.source);
      break;
    case 7:
      (random_.chance(0.5) ? segment.source_port : segment.destination_port) ^=
          static_cast<std::uint16_t>(1U << random_.below(16));
      break;
    default:
      draft.destination = neighbour_of(draft.destination);
      break;
  }
}

void WaysPeer::spoil_timestamps(const Flow& flow, Draft& draft) {
  switch (random_.below(5)) {
    case 0:
      draft.timestamp.reset();
      break;
    case 1:
      draft.timestamp = timestamp_now(flow) - random_.between(1U, 1U << random_.between(1, 31));
      break;
    case 2:
      draft.timestamp = timestamp_now(flow) + random_.between(1U, 2'000U);
      break;
    case 3:
      draft.timestamp = timestamp_now(flow);
      draft.echo = static_cast<std::uint32_t>(random_.next());
      break;
    default:
      draft.echo -= random_.between(0U, 5'000U);
      break;
  }
}

void WaysPeer::spoil_options(Flow& flow, Draft& draft) {
  PacketBytes& options = draft.damage.raw_options;
  const std::uint32_t value = timestamp_now(flow);
  if (random_.chance(0.6)) draft.timestamp.reset();
  switch (random_.below(6)) {
    case 0:
      // Timestamps, with what fills the word behind them, or alone and the padding there.
      put(options, {kOptionTimestamps, 10});
      put32(options, value);
      put32(options, draft.echo);
      if (random_.chance(0.5)) put(options, {kOptionNop, kOptionNop});
      break;
    case 1: {
      const std::uint32_t left = flow.acked + random_.between(0U, 3'000U);
      put(options, {kOptionNop, kOptionNop, kOptionSack, 10});
      put32(options, left);
      put32(options, left + random_.between(0U, 2'000U));
      break;
    }
    case 2:
      put(options, {253, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
      break;
    case 3:
      put(options, {kOptionNop, kOptionNop, kOptionTimestamps, random_.between<int>(0, 12)});
      put32(options, value);
      put32(options, draft.echo);
      break;
    case 4:
      put(options, {kOptionEnd, kOptionNop, kOptionTimestamps, 10});
      put32(options, value);
      put32(options, draft.echo);
      break;
    default:
      put(options, {kOptionNop, kOptionNop, kOptionNop, kOptionNop});
      break;
  }
}

PacketBytes WaysPeer::bytes_of(Draft draft) const {
  PacketBytes options;
  if (draft.timestamp) put_timestamps(options, *draft.timestamp, draft.echo);
  options.insert(options.end(), draft.damage.raw_options.begin(), draft.damage.raw_options.end());
  draft.damage.raw_options = std::move(options);
  const std::size_t ip_size = draft.source.is_v4() ? 20 : 40;
  PacketBytes bytes = write_packet(draft.source, draft.destination, draft.segment, draft.damage);
  if (draft.reserved == 0 || bytes.size() < ip_size + 20) return bytes;
  std::byte* const word = &bytes[ip_size + 12];
  std::byte* const sum = &bytes[ip_size + 16];
  const std::uint16_t before = wire::load_be16(word);
  const auto after = static_cast<std::uint16_t>(before | draft.reserved << 8);
  wire::store_be16(word, after);
  wire::store_be16(sum, wire::updated_checksum(wire::load_be16(sum), before, after));
  return bytes;
}

void WaysPeer::send(const std::vector<Draft>& drafts) {
  std::vector<PacketBytes> packets;
  std::string note;
  for (const Draft& draft : drafts) {
    packets.push_back(bytes_of(draft));
    note += (note.empty() ? "" : "\n& ") + text_of(draft.segment, draft.damage);
    if (draft.timestamp) note += fmt::format(" ts {} {}", *draft.timestamp, draft.echo);
  }
  // What arrives needs packets, too; a device without any drops it.
  const std::size_t per_packet = 1 + 1'600 / (options_.pool.buffer_size - kPacketHeadroom);
  if (hosts_.packets_left() < per_packet * packets.size()) return;
  if (random_.chance(0.3)) hosts_.drift(microseconds{random_.between(1, 3'000)});
  hosts_.inject(packets, note);
}

void WaysPeer::send_burst() {
  std::vector<Draft> drafts;
  const std::uint64_t count = random_.chance(0.6) ? 1 : random_.between<std::uint64_t>(2, 5);
  const std::size_t at = static_cast<std::size_t>(&any_flow() - flows_.data());
  const double other = random_.chance(0.2) ? 0.7 : 0.05;
  for (std::uint64_t i = 0; i < count; ++i) {
    Flow& flow = random_.chance(other) ? flows_[random_.below(flows_.size())] : flows_[at];
    drafts.push_back(draft(flow));
    if (random_.chance(0.05)) drafts.push_back(drafts.back());
  }
  if (random_.chance(0.1)) std::swap(drafts.front(), drafts.back());
  send(drafts);
}

void WaysPeer::use() {
  switch (random_.below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      hosts_.call("write", {std::to_string(1 + random_.below(random_.chance(0.5) ? 200 : 20'000))});
      break;
    case 5:
    case 6:
      hosts_.call("read");
      break;
    case 7:
      hosts_.call("read", {std::to_string(1 + random_.below(3'000))});
      break;
    case 8:
      hosts_.call("reading", {random_.chance(0.6) ? "on" : "off"});
      break;
    default:
      hosts_.call("accept");
      break;
  }
}

void WaysPeer::use_seldom() {
  const auto number = [this](std::uint64_t most) { return std::to_string(random_.below(most)); };
  switch (random_.below(12)) {
    case 0:
      hosts_.call("shutdown");
      break;
    case 1:
      hosts_.call("close");
      break;
    case 2:
      if (random_.chance(0.4)) hosts_.call("abort");
      break;
    case 3:
      hosts_.call("no_delay", {random_.chance(0.5) ? "on" : "off"});
      break;
    case 4:
      hosts_.call("keepalive", {number(5'000), number(2'000), "3"});
      break;
    case 5:
      hosts_.call("user_timeout", {number(60'000)});
      break;
    case 6:
      hosts_.call("read_deadline", {number(2'000)});
      break;
    case 7:
      // Now and then for days: after 24 timestamps mean nothing any more.
      hosts_.call("stall",
                  {random_.chance(0.3) ? std::to_string(86'400'000ULL * random_.between(8U, 26U))
                                       : number(3'000)});
      break;
    case 8:
      hosts_.call("complain",
                  {random_.chance(0.5) ? "too_big" : "host", number(3'000), number(1'600)});
      break;
    case 9:
    case 10:
      hosts_.call("leave", {std::to_string(8 + random_.below(options_.pool.packets))});
      break;
    default:
      hosts_.call("leave", {"all"});
      break;
  }
}

}  // namespace pinion::test

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>

#include "stack_world.h"

namespace pinion::test {
namespace {

using IpInput = StackWorld;
using Counter = std::uint64_t IpCounters::*;

wire::Ipv4Header v4_header() {
  wire::Ipv4Header header;
  header.protocol = kTestProtocol;
  return header;
}

wire::Ipv6Header v6_header() {
  wire::Ipv6Header header;
  header.next_header = kTestProtocol;
  return header;
}

TEST_F(IpInput, DeliversWhatIsForUsWithWhatItsHeaderSays) {
  wire::Ipv4Header four = v4_header();
  four.traffic_class = 0x2a;
  four.hop_limit = 17;
  inject_ip(ip_packet(four, peer4, ours4, counted(100)));
  wire::Ipv6Header six = v6_header();
  six.traffic_class = 0x2b;
  six.hop_limit = 18;
  inject_ip(ip_packet(six, peer6, ours6, counted(200)));
  ASSERT_EQ(transport.received.size(), 2U);
  EXPECT_EQ(transport.received[0].bytes, counted(100));
  EXPECT_EQ(transport.received[0].arrival.source, peer4);
  EXPECT_EQ(transport.received[0].arrival.destination, ours4);
  EXPECT_EQ(transport.received[0].arrival.traffic_class, 0x2a);
  EXPECT_EQ(transport.received[0].arrival.hop_limit, 17);
  EXPECT_FALSE(transport.received[0].arrival.broadcast);
  EXPECT_EQ(transport.received[1].bytes, counted(200));
  EXPECT_EQ(transport.received[1].arrival.source, peer6);
  EXPECT_EQ(transport.received[1].arrival.traffic_class, 0x2b);
  EXPECT_EQ(transport.received[1].arrival.hop_limit, 18);
  stack->end_of_burst(now);
  EXPECT_EQ(transport.bursts, 1);
}

TEST_F(IpInput, TakesOffWhatEthernetPadded) {
  inject_ip(join({ip_packet(v4_header(), peer4, ours4, counted(4)), Bytes(22)}));
  inject_ip(join({ip_packet(v6_header(), peer6, ours6, counted(4)), Bytes(2)}));
  ASSERT_EQ(transport.received.size(), 2U);
  EXPECT_EQ(transport.received[0].bytes, counted(4));
  EXPECT_EQ(transport.received[1].bytes, counted(4));
}

/// RFC 1122, 3.2.1.1, 3.2.1.2, 3.1, and what IPv6 has of it.
TEST_F(IpInput, DropsBadHeadersByReason) {
  const Bytes good = ip_packet(v4_header(), peer4, ours4, counted(40));
  const auto changed = [&good](std::size_t place, int to) {
    Bytes bytes = good;
    bytes[place] = static_cast<std::uint8_t>(to);
    return bytes;
  };
  using Fault = wire::WireFault;
  const std::vector<std::pair<Bytes, Fault>> cases = {
      {changed(0, 0x55), Fault::ipv4_version},
      {changed(0, 0x44), Fault::ipv4_header_length},
      {changed(2, 0xff), Fault::ipv4_total_length},
      {changed(8, 1), Fault::ipv4_checksum},
      {changed(3, 10), Fault::ipv4_total_length},
      {Bytes(good.begin(), good.begin() + 19), Fault::ipv4_truncated}};
  for (const auto& [bytes, fault] : cases) {
    const auto& count = stack->counters().malformed[wire_fault_index(fault)];
    const std::uint64_t before = count;
    inject(peer_mac, wire::EtherType::ipv4, bytes);
    EXPECT_EQ(count, before + 1) << to_string(fault);
  }
  Bytes six = ip_packet(v6_header(), peer6, ours6, counted(40));
  six[4] = 0xff;
  inject(peer_mac, wire::EtherType::ipv6, six);
  EXPECT_EQ(stack->counters().malformed[wire_fault_index(Fault::ipv6_payload_length)], 1U);
  inject(peer_mac, wire::EtherType::ipv4, {});
  EXPECT_TRUE(transport.received.empty());
  EXPECT_TRUE(sent().empty());
}

/// RFC 1122, 3.2.1.3, and RFC 9293, MUST-57 and MUST-63, for which transports get `broadcast`.
TEST_F(IpInput, DropsMartians) {
  struct Case {
    const char *from, *to;
    Counter counter;
  };
  const std::vector<Case> cases = {
      {"0.0.0.0", "10.0.0.1", &IpCounters::source_martian},
      {"0.1.2.3", "10.0.0.1", &IpCounters::source_martian},
      {"127.0.0.1", "10.0.0.1", &IpCounters::source_martian},
      {"224.0.0.1", "10.0.0.1", &IpCounters::source_martian},
      {"240.0.0.1", "10.0.0.1", &IpCounters::source_martian},
      {"255.255.255.255", "10.0.0.1", &IpCounters::source_martian},
      {"10.0.0.255", "10.0.0.1", &IpCounters::source_martian},
      {"10.0.0.1", "10.0.0.1", &IpCounters::source_ours},
      {"10.0.0.9", "127.0.0.1", &IpCounters::destination_martian},
      {"10.0.0.9", "0.0.0.0", &IpCounters::destination_martian},
      {"10.0.0.9", "10.0.0.2", &IpCounters::not_for_us},
      {"10.0.0.9", "239.1.2.3", &IpCounters::not_for_us},
      {"10.0.0.9", "10.0.1.255", &IpCounters::not_for_us},
      {"::", "2001:db8::1", &IpCounters::source_martian},
      {"::1", "2001:db8::1", &IpCounters::source_martian},
      {"ff02::1", "2001:db8::1", &IpCounters::source_martian},
      {"::ffff:1.2.3.4", "2001:db8::1", &IpCounters::source_martian},
      {"2001:db8::1", "2001:db8::1", &IpCounters::source_ours},
      {"2001:db8::9", "::1", &IpCounters::destination_martian},
      {"2001:db8::9", "2001:db8::2", &IpCounters::not_for_us},
      {"2001:db8::9", "ff02::2", &IpCounters::not_for_us},
  };
  for (const Case& one : cases) {
    const std::uint64_t before = stack->counters().*one.counter;
    inject_ip(ip_packet(ip(one.from), ip(one.to), kTestProtocol, counted(40)));
    EXPECT_EQ(stack->counters().*one.counter, before + 1) << one.from << " to " << one.to;
  }
  EXPECT_TRUE(transport.received.empty());
  EXPECT_TRUE(sent().empty());
}

TEST_F(IpInput, SaysWhatWasForMany) {
  for (const char* to : {"255.255.255.255", "10.0.0.255", "224.0.0.1"}) {
    inject_ip(ip_packet(peer4, ip(to), kTestProtocol, counted(8)));
  }
  for (const char* to : {"ff02::1", "ff02::1:ff00:1"}) {
    inject_ip(ip_packet(peer6, ip(to), kTestProtocol, counted(8)));
  }
  ASSERT_EQ(transport.received.size(), 5U);
  for (const auto& one : transport.received) EXPECT_TRUE(one.arrival.broadcast);
}

/// RFC 1122, 3.3.6.
TEST_F(IpInput, DropsUnicastInFramesToMany) {
  const Bytes packet = ip_packet(peer4, ours4, kTestProtocol, counted(8));
  inject(peer_mac, wire::kBroadcastMac, wire::EtherType::ipv4, packet);
  inject(peer_mac, multicast_mac(ip("224.0.0.1")), wire::EtherType::ipv4, packet);
  EXPECT_EQ(stack->counters().frame_group, 2U);
  inject(peer_mac, mac(2), wire::EtherType::ipv4, packet);
  EXPECT_EQ(stack->counters().frame_other_host, 1U);
  inject(peer_mac, static_cast<wire::EtherType>(0x88cc), packet);
  EXPECT_EQ(stack->counters().frame_type, 1U);
  EXPECT_TRUE(transport.received.empty());
}

/// IEEE 802.1Q, 9.6: VLAN 0 is none, its tag tells a priority.
TEST_F(IpInput, TakesPriorityTagsAndNoOthers) {
  const auto inject_tagged = [this](const std::vector<wire::VlanTag>& tags) {
    wire::EthernetHeader header{.destination = our_mac, .source = peer_mac};
    for (const wire::VlanTag& tag : tags) header.tags[header.tag_count++] = tag;
    Bytes frame(header.size());
    wire::emit_ethernet(header, std::as_writable_bytes(std::span(frame)));
    inject_frame(join({frame, ip_packet(peer4, ours4, kTestProtocol, counted(8))}));
  };
  inject_tagged({{.priority = 5, .id = 0}});
  EXPECT_EQ(transport.received.size(), 1U);
  inject_tagged({{.id = 5}});
  inject_tagged({{.type = wire::EtherType::service_vlan, .id = 0}});
  inject_tagged({{.id = 0}, {.id = 0}});
  EXPECT_EQ(stack->counters().frame_type, 3U);
  EXPECT_EQ(transport.received.size(), 1U);
}

TEST_F(IpInput, TheFramesTypeAndTheHeadersVersionAgree) {
  using Fault = wire::WireFault;
  inject(peer_mac, wire::EtherType::ipv6, ip_packet(peer4, ours4, kTestProtocol, counted(40)));
  EXPECT_EQ(stack->counters().malformed[wire_fault_index(Fault::ipv6_version)], 1U);
  inject(peer_mac, wire::EtherType::ipv4, ip_packet(peer6, ours6, kTestProtocol, counted(40)));
  EXPECT_EQ(stack->counters().malformed[wire_fault_index(Fault::ipv4_version)], 1U);
  EXPECT_TRUE(transport.received.empty());
}

/// RFC 1122, 3.2.1.8 (c) wants them passed up and answered the other way: we refuse them.
TEST_F(IpInput, RefusesSourceRoutesAndPassesOverOtherOptions) {
  const auto with_options = [this](const Bytes& options) {
    wire::Ipv4Header header = v4_header();
    header.options = std::as_bytes(std::span(options));
    inject_ip(ip_packet(header, peer4, ours4, counted(8)));
  };
  with_options({131, 7, 4, 10, 0, 0, 77, 0});  // Loose, with a hop to go.
  with_options({137, 7, 8, 10, 0, 0, 77, 0});  // Strict, completed.
  EXPECT_EQ(stack->counters().source_route, 2U);
  EXPECT_TRUE(transport.received.empty());
  with_options({7, 7, 4, 0, 0, 0, 0, 0});    // Record route.
  with_options({1, 1, 148, 4, 0, 0, 0, 0});  // Router alert.
  EXPECT_EQ(transport.received.size(), 2U);
}

/// What has become of all packets that were no fragments.
std::uint64_t outcomes(const IpCounters& counters) {
  std::uint64_t sum = counters.delivered + counters.frame_other_host + counters.frame_ours +
                      counters.frame_type + counters.frame_group + counters.source_martian +
                      counters.source_ours + counters.destination_martian + counters.not_for_us +
                      counters.source_route + counters.protocol_unknown + counters.no_next_header +
                      counters.in_no_packet;
  for (const std::uint64_t count : counters.malformed) sum += count;
  return sum;
}

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

TEST_F(IpInput, EachPacketIsDeliveredOrCountedUnderOneReason) {
  Random random(seed());
  const std::vector<const char*> four = {"10.0.0.1",  "10.0.0.9", "10.0.0.255", "127.0.0.1",
                                         "224.0.0.1", "0.0.0.0",  "192.0.2.9",  "239.9.9.9"};
  const std::vector<const char*> six = {"2001:db8::1", "2001:db8::9", "ff02::1",
                                        "::1",         "::",          "ff02::2"};
  const std::vector<int> protocols = {kTestProtocol, 99, 59, 6};
  const std::vector<MacAddress> macs = {our_mac, our_mac, wire::kBroadcastMac, mac(2)};
  // What introduced the neighbours, by ARP, had other ends.
  const std::uint64_t apart = stack->counters().packets_in - outcomes(stack->counters());
  for (std::uint64_t i = 0; i < scaled(20'000); ++i) {
    const bool v4 = random.chance(0.5);
    const IpAddress from = ip(one_of(random, v4 ? four : six));
    const IpAddress to = ip(one_of(random, v4 ? four : six));
    const auto protocol = static_cast<std::uint8_t>(one_of(random, protocols));
    Bytes packet = ip_packet(from, to, protocol, counted(random.below(60)));
    if (random.chance(0.3)) {
      packet[random.below(packet.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
    }
    // Fragments wait, and ICMP has reasons of its own.
    const std::span<const std::byte> bytes = std::as_bytes(std::span(packet));
    if (v4 && (wire::load_be16(&bytes[6]) & 0x3fffU) != 0) continue;
    if (packet[v4 ? 9 : 6] == (v4 ? 1 : 58) || (!v4 && packet[6] == 44)) continue;
    if (random.chance(0.1)) packet.resize(random.below(packet.size()));
    inject(mac(9), one_of(random, macs), v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6,
           packet);
    sent();
    ASSERT_EQ(stack->counters().packets_in - outcomes(stack->counters()), apart) << "packet " << i;
  }
  EXPECT_GT(transport.received.size(), 100U);
}

class Fragments : public StackWorld {
 protected:
  Bytes piece4(std::uint16_t id, std::size_t offset, const Bytes& payload, bool more) {
    wire::Ipv4Header header = v4_header();
    header.identification = id;
    header.fragment_offset = static_cast<std::uint16_t>(offset);
    header.more_fragments = more;
    return ip_packet(header, peer4, ours4, payload);
  }
  Bytes piece6(std::uint32_t id, std::size_t offset, const Bytes& payload, bool more,
               std::uint8_t protocol = kTestProtocol) {
    Bytes fragment(wire::Ipv6Fragment::kSize);
    wire::emit_ipv6_fragment(
        {.identification = id, .offset = static_cast<std::uint16_t>(offset), .more = more},
        protocol, std::as_writable_bytes(std::span(fragment)));
    wire::Ipv6Header header;
    header.next_header = 44;
    return ip_packet(header, peer6, ours6, join({fragment, payload}));
  }
  static Bytes part(const Bytes& whole, std::size_t from, std::size_t size) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(from);
    return {begin, begin + static_cast<std::ptrdiff_t>(std::min(size, whole.size() - from))};
  }
};

// N3: fragments.
TEST_F(Fragments, N3Of64KiBInAnyOrderAreDelivered) {
  Random random(seed());
  for (const bool v4 : {true, false}) {
    const std::size_t step = v4 ? 1480 : 1448;
    const Bytes whole = counted(v4 ? 65'515 : 65'535);
    std::vector<std::size_t> offsets;
    for (std::size_t at = 0; at < whole.size(); at += step) offsets.push_back(at);
    random.shuffle(offsets);
    transport.received.clear();
    for (const std::size_t at : offsets) {
      const Bytes payload = part(whole, at, step);
      const bool more = at + payload.size() < whole.size();
      inject_ip(v4 ? piece4(7, at, payload, more) : piece6(7, at, payload, more));
    }
    ASSERT_EQ(transport.received.size(), 1U);
    EXPECT_EQ(transport.received[0].bytes, whole);
    EXPECT_GE(transport.received[0].first_segment, 60U);
  }
}

TEST_F(Fragments, TheTransportsHeaderLiesInOneSegment) {
  const Bytes whole = counted(80);
  for (std::size_t at = 0; at < 80; at += 8) inject_ip(piece4(7, at, part(whole, at, 8), at < 72));
  for (std::size_t at = 0; at < 80; at += 8) inject_ip(piece6(7, at, part(whole, at, 8), at < 72));
  ASSERT_EQ(transport.received.size(), 2U);
  for (const auto& one : transport.received) {
    EXPECT_EQ(one.bytes, whole);
    EXPECT_GE(one.first_segment, 60U);
  }
}

TEST_F(Fragments, OfManySegmentsHeadersAreGathered) {
  const Bytes whole = ip_packet(peer4, ours4, kTestProtocol, counted(300));
  Bytes frame(14);
  wire::emit_ethernet({.destination = our_mac, .source = peer_mac},
                      std::as_writable_bytes(std::span(frame)));
  std::vector<Bytes> parts{frame};
  for (std::size_t at = 0; at < whole.size(); at += 7) parts.push_back(part(whole, at, 7));
  Packet* burst = make_chain(*pool, parts).take();
  stack->receive(0, {&burst, 1}, now);
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, counted(300));
  EXPECT_GE(transport.received[0].first_segment, 60U);
}

/// RFC 6946: a fragment that is the whole doesn't wait, whatever else has its identification.
TEST_F(Fragments, AtomicOnesAreDeliveredAtOnce) {
  inject_ip(piece6(7, 0, counted(64), true));
  inject_ip(piece6(7, 0, counted(20), false));
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, counted(20));
  inject_ip(piece6(7, 64, counted(8), false));
  EXPECT_EQ(transport.received.size(), 2U);
}

/// RFC 5722.
// N3: fragments.
TEST_F(Fragments, N3OverlapsAreDroppedInBothFamilies) {
  for (const bool v4 : {true, false}) {
    const auto inject_piece = [&](std::size_t at, std::size_t size, bool more) {
      inject_ip(v4 ? piece4(7, at, counted(size), more) : piece6(7, at, counted(size), more));
    };
    inject_piece(0, 64, true);
    inject_piece(56, 64, true);
    inject_piece(64, 64, false);
    EXPECT_TRUE(transport.received.empty());
  }
  EXPECT_EQ(stack->counters().fragment_overlap, 2U);
  EXPECT_EQ(stack->counters().fragment_condemned, 2U);
  EXPECT_EQ(stack->reassembly().bytes(), 0U);
}

/// RFC 792 and RFC 4443, 3.3: code 1, if the first fragment is there.
// N3: fragments.
TEST_F(Fragments, N3WithoutTheLastDrawTimeExceeded) {
  const Bytes first4 = piece4(7, 0, counted(64), true);
  const Bytes first6 = piece6(7, 0, counted(64), true);
  inject_ip(first4);
  inject_ip(first6);
  inject_ip(piece4(8, 64, counted(64), true));
  pass(59s, 1s);
  EXPECT_TRUE(sent_errors().empty());
  meet_neighbours();
  pass(2s);
  const auto frames = sent_errors();
  ASSERT_EQ(frames.size(), 2U);
  const wire::IcmpMessage four = frames[0].icmp();
  EXPECT_TRUE(four.is(wire::IcmpType::time_exceeded));
  EXPECT_EQ(four.code, 1);
  EXPECT_TRUE(same(frames[0].ip_payload().subspan(8), first4));
  const wire::IcmpMessage six = frames[1].icmp();
  EXPECT_TRUE(six.is(wire::IcmpV6Type::time_exceeded));
  EXPECT_EQ(six.code, 1);
  EXPECT_TRUE(same(frames[1].ip_payload().subspan(8), first6));
  EXPECT_EQ(stack->counters().reassembly_timeout, 3U);
}

/// RFC 7112 and RFC 8200, 4.5: code 3.
TEST_F(Fragments, FirstOnesWithoutAllHeadersAreRefused) {
  inject_ip(piece6(7, 0, counted(8), true, 6));
  const wire::IcmpMessage message = sent_one().icmp();
  EXPECT_TRUE(message.is(wire::IcmpV6Type::parameter_problem));
  EXPECT_EQ(message.code, 3);
  EXPECT_EQ(stack->counters().fragment_header, 1U);
  EXPECT_EQ(stack->reassembly().datagrams(), 0U);
}

// N3: fragments.
TEST_F(Fragments, N3AFloodStaysUnderItsCap) {
  for (std::uint32_t id = 0; id < 5'000; ++id) {
    inject_ip(piece4(static_cast<std::uint16_t>(id), 0, counted(1480), true));
    inject_ip(piece6(id, 0, counted(1448), true));
    ASSERT_LE(stack->reassembly().bytes(), ReassemblyOptions{}.bytes);
    ASSERT_LE(stack->reassembly().datagrams(), ReassemblyOptions{}.datagrams);
  }
  EXPECT_GT(pool->available(), 3'000U);
}

TEST_F(Fragments, N3TakeAnEighthOfThePoolAtMost) {
  make_stack({.reassembly = {.datagrams = 2'048, .bytes = 1UL << 30, .fragments = 4'096}});
  const std::size_t most = pool->capacity() * pool->buffer_size() / 8;
  for (std::uint32_t id = 0; id < 2'000; ++id) {
    inject_ip(piece6(id, 0, counted(1448), true));
    ASSERT_LE(stack->reassembly().bytes(), most);
  }
  EXPECT_GT(stack->reassembly().bytes(), most / 2);
}

TEST_F(Fragments, N3GiveWayWhenThePoolRunsDry) {
  std::vector<PacketPtr> busy;
  const std::size_t low = pool->capacity() / 16;
  for (std::uint32_t id = 0; id < 200; ++id) inject_ip(piece6(id, 0, counted(1448), true));
  stack->end_of_burst(now);
  EXPECT_EQ(stack->reassembly().datagrams(), 200U);
  EXPECT_FALSE(stack->pending());
  while (pool->available() > low - 10) busy.emplace_back(pool->allocate());
  EXPECT_TRUE(stack->pending());
  stack->end_of_burst(now);
  EXPECT_EQ(stack->reassembly().datagrams(), 190U);
  EXPECT_EQ(stack->counters().reassembly_displaced, 10U);
  EXPECT_EQ(pool->available(), low);
  EXPECT_FALSE(stack->pending());
  while (!busy.empty() && pool->available() < low + 8) busy.pop_back();
  inject_ip(piece6(199, 1'448, counted(8), false));
  EXPECT_EQ(transport.received.size(), 1U);
}

TEST_F(Fragments, BehindExtensionHeadersReachTheirTransport) {
  // Destination options within the fragmented part.
  const Bytes options = {kTestProtocol, 0, 1, 4, 0, 0, 0, 0};
  const Bytes whole = join({options, counted(120)});
  inject_ip(piece6(7, 64, part(whole, 64, 64), false, 60));
  inject_ip(piece6(7, 0, part(whole, 0, 64), true, 60));
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, counted(120));
}

TEST_F(IpInput, LooksThroughExtensionHeaders) {
  wire::Ipv6Header header;
  header.next_header = 0;
  const Bytes hop_by_hop = {60, 0, 1, 4, 0, 0, 0, 0};
  const Bytes destination = {kTestProtocol, 0, 1, 4, 0, 0, 0, 0};
  inject_ip(ip_packet(header, peer6, ours6, join({hop_by_hop, destination, counted(30)})));
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, counted(30));
}

TEST_F(IpInput, WhatWeSendToOurselvesArrivesWithTheBurstsEnd) {
  send({.source = ours4, .destination = ours4, .protocol = static_cast<IpProtocol>(kTestProtocol)},
       3'000);
  send({.source = ours6, .destination = ours6, .protocol = static_cast<IpProtocol>(kTestProtocol)},
       100);
  send({.source = ip("127.0.0.1"),
        .destination = ip("127.0.0.1"),
        .protocol = static_cast<IpProtocol>(kTestProtocol)},
       50);
  EXPECT_TRUE(transport.received.empty());
  EXPECT_TRUE(stack->pending());
  stack->end_of_burst(now);
  EXPECT_FALSE(stack->pending());
  ASSERT_EQ(transport.received.size(), 3U);
  EXPECT_EQ(transport.received[0].bytes, counted(3'000));
  EXPECT_EQ(transport.received[1].arrival.source, ours6);
  EXPECT_EQ(transport.received[2].arrival.destination, ip("127.0.0.1"));
  EXPECT_TRUE(sent().empty());
  // Out through an interface they don't go.
  send({.source = ip("127.0.0.1"), .destination = peer4}, 50);
  EXPECT_EQ(stack->counters().no_source, 1U);
}

TEST_F(IpInput, LinksWithoutFramesCarryBareIp) {
  make_bare_stack();
  const std::array addresses{IpPrefix{ours4, 32}, IpPrefix{ours6, 128}};
  ASSERT_TRUE(stack->add_interface({.link = LinkKind::ip, .addresses = addresses}, now));
  ASSERT_TRUE(stack->add_route({.destination = {ip("0.0.0.0"), 0}}));
  ASSERT_TRUE(stack->add_route({.destination = {ip("::"), 0}}));
  inject_frame(ip_packet(far4, ours4, kTestProtocol, counted(20)));
  inject_frame(ip_packet(far6, ours6, kTestProtocol, counted(20)));
  EXPECT_EQ(transport.received.size(), 2U);
  send({.source = ours4, .destination = far4}, 30);
  std::array<Packet*, 4> burst{};
  ASSERT_EQ(stack->take(0, burst), 1U);
  const PacketPtr packet(burst[0]);
  const Bytes bytes = bytes_of(*packet);
  EXPECT_EQ(bytes.size(), 50U);
  EXPECT_EQ(bytes[0], 0x45);
}

TEST_F(IpInput, TrustsADeviceThatHasVerifiedTheChecksum) {
  Bytes packet = ip_packet(peer4, ours4, kTestProtocol, counted(20));
  packet[10] ^= 0xff;
  Bytes frame(14);
  wire::emit_ethernet({.destination = our_mac, .source = peer_mac},
                      std::as_writable_bytes(std::span(frame)));
  PacketPtr marked = make_packet(*pool, join({frame, packet}));
  marked->set(PacketMark::ip_checksum_good);
  Packet* const burst = marked.take();
  stack->receive(0, {&burst, 1}, now);
  EXPECT_EQ(transport.received.size(), 1U);
}

TEST_F(IpInput, OnceWarmNothingIsAllocatedWhenThePoolIsEmpty) {
  std::vector<PacketPtr> all;
  while (Packet* const packet = pool->allocate()) all.emplace_back(packet);
  all.pop_back();
  inject_ip(ip_packet(peer4, ours4, 99, counted(20)));  // Its answer finds no packet.
  EXPECT_EQ(stack->counters().out_no_packet, 1U);
  EXPECT_TRUE(sent().empty());
}

}  // namespace
}  // namespace pinion::test

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack_world.h"
#include "tcp/tcp.h"

namespace pinion::test {
namespace {

constexpr auto kProtocol = static_cast<IpProtocol>(kTestProtocol);

class IpOutput : public StackWorld {
 protected:
  [[nodiscard]] IpDeparture to(const IpAddress& destination, bool may_fragment = false) const {
    return {.source = destination.is_v4() ? ours4 : ours6,
            .destination = destination,
            .protocol = kProtocol,
            .traffic_class = 0x2e,
            .hop_limit = 33,
            .may_fragment = may_fragment};
  }
};

TEST_F(IpOutput, WritesHeadersAndFindsTheWay) {
  send(to(peer4), 100);
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, peer_mac);
  EXPECT_EQ(IpAddress::v4(frame.v4().source), ours4);
  EXPECT_EQ(IpAddress::v4(frame.v4().destination), peer4);
  EXPECT_EQ(frame.v4().traffic_class, 0x2e);
  EXPECT_EQ(frame.v4().hop_limit, 33);
  EXPECT_EQ(frame.v4().protocol, kTestProtocol);
  EXPECT_TRUE(frame.v4().dont_fragment);
  EXPECT_TRUE(same(frame.ip_payload(), counted(100)));

  send(to(far4), 100);
  EXPECT_EQ(sent_one().ethernet.destination, mac(254));

  send(to(peer6), 100);
  frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, peer_mac);
  EXPECT_EQ(IpAddress::v6(frame.v6().source), ours6);
  EXPECT_EQ(IpAddress::v6(frame.v6().destination), peer6);
  EXPECT_EQ(frame.v6().traffic_class, 0x2e);
  EXPECT_EQ(frame.v6().hop_limit, 33);
  EXPECT_EQ(frame.v6().next_header, kTestProtocol);
  EXPECT_TRUE(same(frame.ip_payload(), counted(100)));

  send(to(far6), 100);
  EXPECT_EQ(sent_one().ethernet.destination, mac(254));
}

TEST_F(IpOutput, MapsBroadcastAndMulticastToEthernet) {
  send(to(ip("255.255.255.255")), 10);
  EXPECT_EQ(sent_one().ethernet.destination, wire::kBroadcastMac);
  send(to(ip("10.0.0.255")), 10);
  EXPECT_EQ(sent_one().ethernet.destination, wire::kBroadcastMac);
  send(to(ip("224.0.0.251")), 10);
  EXPECT_EQ(sent_one().ethernet.destination, (MacAddress{0x01, 0, 0x5e, 0, 0, 0xfb}));
  send(to(ip("ff02::fb")), 10);
  EXPECT_EQ(sent_one().ethernet.destination, (MacAddress{0x33, 0x33, 0, 0, 0, 0xfb}));
}

TEST_F(IpOutput, DropsWhatCanNotGoByReason) {
  IpDeparture stranger = to(peer4);
  stranger.source = ip("10.0.0.2");
  send(stranger, 10);
  EXPECT_EQ(stack->counters().no_source, 1U);
  send(to(peer4), 1'481);
  send(to(peer6), 1'461);
  EXPECT_EQ(stack->counters().out_too_big, 2U);
  send(to(peer4), 1'480);
  send(to(peer6), 1'460);
  EXPECT_EQ(sent().size(), 2U);
  send(to(peer4, true), 65'516);
  EXPECT_EQ(stack->counters().out_too_big, 3U);
  make_bare_stack();
  ASSERT_TRUE(stack->add_interface(
      {.mac = our_mac, .addresses = std::array{IpPrefix{ours4, 24}}, .check_duplicates = false},
      now));
  send(to(far4), 10);
  EXPECT_EQ(stack->counters().no_route, 1U);
  EXPECT_FALSE(stack->source_for(far4));
  EXPECT_FALSE(stack->source_for(far6));
  EXPECT_TRUE(sent().empty());
}

TEST_F(IpOutput, FragmentsBothFamilies) {
  for (const IpAddress& peer : {peer4, peer6}) {
    for (const std::size_t size : {std::size_t{1'481}, std::size_t{5'000}, std::size_t{65'000}}) {
      send(to(peer, true), size);
      Bytes whole(size);
      std::set<std::uint32_t> ids;
      std::size_t have = 0;
      for (const SentFrame& frame : sent()) {
        EXPECT_LE(frame.payload().size(), 1'500U);
        std::size_t offset = 0;
        bool more = false;
        std::span<const std::byte> payload = frame.ip_payload();
        if (peer.is_v4()) {
          const wire::Ipv4Header header = frame.v4();
          EXPECT_FALSE(header.dont_fragment);
          EXPECT_EQ(header.traffic_class, 0x2e);
          offset = header.fragment_offset;
          more = header.more_fragments;
          ids.insert(header.identification);
        } else {
          const auto walked = wire::walk_ipv6_extensions(frame.v6(), payload);
          ASSERT_TRUE(walked && walked->fragment);
          EXPECT_EQ(walked->protocol, kTestProtocol);
          offset = walked->fragment->offset;
          more = walked->fragment->more;
          ids.insert(walked->fragment->identification);
          payload = payload.subspan(8);
        }
        ASSERT_LE(offset + payload.size(), size);
        EXPECT_EQ(more, offset + payload.size() < size);
        std::memcpy(whole.data() + offset, payload.data(), payload.size());
        have += payload.size();
      }
      EXPECT_EQ(have, size);
      EXPECT_EQ(ids.size(), 1U);
      EXPECT_EQ(whole, counted(size));
    }
  }
}

/// RFC 6864, 4.2: unique for what may be fragmented; RFC 7739: not to be guessed from another's.
TEST_F(IpOutput, IdentificationsDoNotRepeatSoon) {
  std::set<std::uint16_t> ids;
  for (int i = 0; i < 1'000; ++i) {
    send(to(peer4, true), 10);
    ids.insert(sent_one().v4().identification);
  }
  EXPECT_EQ(ids.size(), 1'000U);
}

/// RFC 7739, 5: whoever sees one can't tell the next.
TEST_F(IpOutput, IdentificationsOfIpv6AreDrawnAtRandom) {
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 200; ++i) {
    send(to(peer6, true), 1'500);
    const std::vector<SentFrame> frames = sent();
    ASSERT_EQ(frames.size(), 2U);
    const auto walked = wire::walk_ipv6_extensions(frames[0].v6(), frames[0].ip_payload());
    ASSERT_TRUE(walked && walked->fragment);
    ids.push_back(walked->fragment->identification);
  }
  int near = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) near += ids[i] - ids[i - 1] < 65'536 ? 1 : 0;
  EXPECT_LE(near, 1);
  EXPECT_GE(std::set<std::uint32_t>(ids.begin(), ids.end()).size(), 199U);
}

/// Each of few destinations has a counter to itself.
TEST_F(IpOutput, IdentificationsOfIpv4TellNothingOfOtherDestinations) {
  send(to(peer4, true), 10);
  const std::uint16_t first = sent_one().v4().identification;
  for (std::uint8_t i = 0; i < 64; ++i) {
    send(to(IpAddress::v4({192, 0, 2, i}), true), 10);
    sent();
  }
  send(to(peer4, true), 10);
  EXPECT_LE(static_cast<std::uint16_t>(sent_one().v4().identification - first), 3);
}

TEST_F(IpOutput, KeepsToThePathsMtu) {
  stack->learn_path_mtu(ours4, far4, 1'000, now);
  stack->learn_path_mtu(ours6, far6, 1'300, now);
  EXPECT_EQ(stack->path_mtu(ours4, far4), 1'000U);
  EXPECT_EQ(stack->path_mtu(ours6, far6), 1'300U);
  EXPECT_EQ(stack->path_mtu(ours4, peer4), 1'500U);
  EXPECT_EQ(stack->path_mtu(ours4, ours4), 65'535U);
  send(to(far4), 981);
  send(to(far6), 1'261);
  EXPECT_EQ(stack->counters().out_too_big, 2U);
  for (const IpAddress& far : {far4, far6}) {
    send(to(far, true), 1'400);
    const auto frames = sent();
    EXPECT_EQ(frames.size(), 2U);
    for (const SentFrame& frame : frames) {
      EXPECT_LE(frame.payload().size(), far.is_v4() ? 1'000U : 1'300U);
    }
  }
  // Below what is believed, the path may fragment itself.
  stack->learn_path_mtu(ours4, far4, 100, now);
  EXPECT_EQ(stack->path_mtu(ours4, far4), 552U);
  send(to(far4), 500);
  EXPECT_FALSE(sent_one().v4().dont_fragment);
  pass(11min, 1s);
  EXPECT_EQ(stack->path_mtu(ours4, far4), 1'500U);
}

TEST_F(IpOutput, TransportsHearOnceThatAPathTakesLess) {
  struct {
    IpAddress ours;
    IpAddress far;
    std::size_t mtu;
    int heard;
  } const words[] = {{ours4, far4, 1'500, 0}, {ours4, far4, 1'000, 1}, {ours4, far4, 1'000, 1},
                     {ours4, far4, 1'200, 1}, {ours4, far4, 900, 2},   {ours6, far6, 1'300, 3},
                     {ours6, far6, 1'000, 3}, {ours6, far6, 1'280, 4}};
  for (const auto& word : words) {
    stack->learn_path_mtu(word.ours, word.far, word.mtu, now);
    EXPECT_EQ(transport.shrunk_paths, word.heard) << word.mtu;
  }
  // Anybody can make us guess.
  stack->guess_path_mtu(ours6, peer6, 1'400, now);
  EXPECT_EQ(stack->path_mtu(ours6, peer6), 1'400U);
  EXPECT_EQ(transport.shrunk_paths, 4);
}

TEST_F(IpOutput, ChoosesTheSourceByTheRoute) {
  EXPECT_EQ(stack->source_for(peer4), ours4);
  EXPECT_EQ(stack->source_for(far4), ours4);
  EXPECT_EQ(stack->source_for(far6), ours6);
  EXPECT_EQ(stack->source_for(ours6), ours6);
  EXPECT_EQ(stack->source_for(ip("fe80::9")), link_local_of(our_mac));
  EXPECT_EQ(stack->source_for(ip("ff02::1")), link_local_of(our_mac));
  EXPECT_EQ(stack->source_for(ip("255.255.255.255")), ours4);
  EXPECT_TRUE(stack->is_local(ours4));
  EXPECT_TRUE(stack->is_local(ip("::1")));
  EXPECT_FALSE(stack->is_local(peer4));
}

/// RFC 9293, MUST-46.
TEST_F(IpOutput, TcpConnectsToNoBroadcastAddress) {
  make_bare_stack();
  auto tcp = Tcp::create(
      {}, {.ip = *stack, .wheel = *wheel, .packets = *pool, .small_packets = *pool}, seed(), now);
  ASSERT_TRUE(tcp);
  ASSERT_TRUE(stack->add_interface(
      {.mac = our_mac, .addresses = std::array{IpPrefix{ours4, 24}}, .check_duplicates = false},
      now));
  for (const char* many : {"10.0.0.255", "255.255.255.255", "224.0.0.1", "240.0.0.1", "0.0.0.0"}) {
    const auto connected = (*tcp)->connect({.remote = {ip(many), 80}}, nullptr, now);
    ASSERT_FALSE(connected) << many;
    EXPECT_EQ(connected.error(), TcpConnectError::unreachable);
  }
  EXPECT_TRUE(sent().empty());
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(IpOutput, N1ADatagramOf64KiBToANewNeighbourIsNotLost) {
  send(to(ip("10.0.0.77"), true), 60'000);
  EXPECT_EQ(sent_one().arp().target, (wire::Ipv4Address{10, 0, 0, 77}));
  Bytes reply(wire::ArpMessage::kSize);
  wire::emit_arp({.operation = wire::ArpOperation::reply,
                  .sender_mac = mac(77),
                  .sender = {10, 0, 0, 77},
                  .target_mac = our_mac,
                  .target = {10, 0, 0, 1}},
                 std::as_writable_bytes(std::span(reply)));
  inject(mac(77), wire::EtherType::arp, reply);
  std::size_t bytes = 0;
  for (const SentFrame& frame : sent()) {
    EXPECT_EQ(frame.ethernet.destination, mac(77));
    bytes += frame.ip_payload().size();
  }
  EXPECT_EQ(bytes, 60'000U);
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(IpOutput, N1TransportsHearOfANeighbourThatDoesNotAnswer) {
  send(to(ip("10.0.0.77")), 100);
  send(to(ip("2001:db8::77")), 100);
  pass(2'900ms);
  EXPECT_TRUE(transport.complaints.empty());
  pass(200ms);
  ASSERT_EQ(transport.complaints.size(), 2U);
  EXPECT_EQ(transport.complaints[0].complaint.trouble, IpTrouble::host_unreachable);
  EXPECT_EQ(transport.complaints[0].complaint.source, ours4);
  EXPECT_EQ(transport.complaints[0].complaint.destination, ip("10.0.0.77"));
  EXPECT_EQ(transport.complaints[0].quoted, counted(64));
  EXPECT_EQ(transport.complaints[1].complaint.destination, ip("2001:db8::77"));
  EXPECT_EQ(stack->counters().neighbour_solicitations, 6U);
  sent();
}

TEST_F(IpOutput, PutsHeadersInASegmentOfTheirOwnWhereThereIsNoRoom) {
  PacketPtr owner = make_packet(*pool, counted(100));
  PacketPtr view(pool->view(*owner, 0, 100));
  const Bytes before = bytes_of(*owner);
  stack->send(std::move(view), to(peer4), now);
  EXPECT_TRUE(same(sent_one().ip_payload(), before));
  EXPECT_EQ(bytes_of(*owner), before);
}

TEST_F(IpOutput, TheTxQueueIsBounded) {
  make_bare_stack();
  ASSERT_TRUE(stack->add_interface({.mac = our_mac,
                                    .tx_queue = 10,
                                    .addresses = std::array{IpPrefix{ours4, 24}},
                                    .check_duplicates = false},
                                   now));
  meet_neighbours();
  for (int i = 0; i < 25; ++i) send(to(peer4), 10);
  EXPECT_EQ(stack->counters().tx_queue_full, 15U);
  EXPECT_EQ(sent().size(), 10U);
}

TEST_F(IpOutput, WhatCanWaitIsAskedToWhenTheTxQueueIsHalfFull) {
  make_bare_stack();
  ASSERT_TRUE(stack->add_interface({.mac = our_mac,
                                    .tx_queue = 10,
                                    .addresses = std::array{IpPrefix{ours4, 24}},
                                    .check_duplicates = false},
                                   now));
  meet_neighbours();
  for (int i = 0; i < 5; ++i) send(to(peer4), 10);
  EXPECT_FALSE(stack->is_crowded(ours4, peer4, now));
  send(to(peer4), 10);
  EXPECT_TRUE(stack->is_crowded(ours4, peer4, now));
  EXPECT_FALSE(stack->is_crowded(ours4, ours4, now)) << "what goes to ourselves";
  EXPECT_FALSE(stack->is_crowded(ours4, far4, now)) << "what has no way";
  std::array<Packet*, 1> taken{};
  ASSERT_EQ(stack->take(0, taken), 1U);
  taken[0]->release();
  EXPECT_FALSE(stack->is_crowded(ours4, peer4, now));
  EXPECT_EQ(sent().size(), 5U);
}

// Or else those would wait for ever whose link is down.
TEST_F(IpOutput, NobodyIsAskedToWaitForLongWhereNothingIsTaken) {
  make_bare_stack();
  ASSERT_TRUE(stack->add_interface({.mac = our_mac,
                                    .tx_queue = 10,
                                    .addresses = std::array{IpPrefix{ours4, 24}},
                                    .check_duplicates = false},
                                   now));
  meet_neighbours();
  pass(1s);
  for (int i = 0; i < 9; ++i) send(to(peer4), 10);
  EXPECT_TRUE(stack->is_crowded(ours4, peer4, now)) << "it was empty for long";
  pass(99ms);
  EXPECT_TRUE(stack->is_crowded(ours4, peer4, now));
  pass(1ms);
  EXPECT_FALSE(stack->is_crowded(ours4, peer4, now));
  const auto take_one = [this] {
    std::array<Packet*, 1> taken{};
    ASSERT_EQ(stack->take(0, taken), 1U);
    taken[0]->release();
  };
  take_one();
  EXPECT_FALSE(stack->is_crowded(ours4, peer4, now)) << "it is still more than half full";
  for (int i = 0; i < 3; ++i) take_one();
  for (int i = 0; i < 2; ++i) send(to(peer4), 10);
  EXPECT_TRUE(stack->is_crowded(ours4, peer4, now)) << "it was less than half full";
  EXPECT_EQ(sent().size(), 7U);
}

TEST_F(IpOutput, TheLoopbackQueueIsBounded) {
  for (int i = 0; i < 1'100; ++i) send(to(ours4), 10);
  EXPECT_EQ(stack->counters().loopback_full, 76U);
  stack->end_of_burst(now);
  EXPECT_EQ(transport.received.size(), 1'024U);
}

TEST_F(IpOutput, WithoutPacketsNothingBreaks) {
  std::vector<PacketPtr> all;
  PacketPtr payload = make_packet(*pool, counted(1'400));
  while (Packet* const packet = pool->allocate()) all.emplace_back(packet);
  stack->learn_path_mtu(ours4, peer4, 600, now);
  stack->send(std::move(payload), to(peer4, true), now);
  EXPECT_EQ(stack->counters().out_no_packet, 1U);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().fragments_out, 0U);
}

TEST_F(IpOutput, DiesWithPacketsUnderWay) {
  send(to(peer4), 10);            // In the tx queue.
  send(to(ip("10.0.0.77")), 10);  // Waiting for a neighbour.
  send(to(ours4), 10);            // To ourselves.
  wire::Ipv4Header first;
  first.more_fragments = true;
  first.protocol = kTestProtocol;
  inject_ip(ip_packet(first, peer4, ours4, counted(64)));
  stack.reset();
  EXPECT_EQ(pool->live(), 0U);
}

TEST_F(IpOutput, SetUpWantsRoomInPacketsForWhatWeSend) {
  const TestPool small({.buffer_size = 512});
  IpStack on_small({}, *wheel, *small, seed());
  const auto added = on_small.add_interface(
      {.mac = our_mac, .max_segments = 9, .addresses = std::array{IpPrefix{ours6, 64}}}, now);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().what.find("512 bytes"), std::string::npos);
  EXPECT_NE(added.error().hint.find("640"), std::string::npos);
}

TEST_F(IpOutput, OptionsThatMakeNoStackAreRefused) {
  EXPECT_TRUE(IpStack::check(IpOptions{}));
  const std::vector<IpOptions> bad = {{.neighbours = {.capacity = 1}},
                                      {.reassembly = {.datagrams = 0}},
                                      {.reassembly = {.fragments = 127}},
                                      {.icmp_errors = {.per_second = 0}},
                                      {.icmp_errors = {.per_second = 1'000'001}},
                                      {.icmp_errors = {.burst = 0}},
                                      {.path_mtus = 0}};
  for (const IpOptions& options : bad) {
    const auto checked = IpStack::check(options);
    ASSERT_FALSE(checked);
    EXPECT_FALSE(checked.error().hint.empty()) << checked.error().what;
  }
}

TEST_F(IpOutput, SetUpSaysWhatIsWrong) {
  const auto refused = [this](const InterfaceOptions& options) {
    const auto result = stack->add_interface(options, now);
    return result ? std::string("added") : result.error().what;
  };
  EXPECT_NE(refused({.mac = our_mac, .mtu = 500}).find("MTU"), std::string::npos);
  EXPECT_NE(refused({.mac = our_mac, .mtu = 1'279, .addresses = std::array{IpPrefix{far6, 64}}})
                .find("MTU"),
            std::string::npos);
  EXPECT_NE(refused({}).find("Ethernet address"), std::string::npos);
  for (const IpPrefix& bad :
       {IpPrefix{ip("224.0.0.1"), 24}, IpPrefix{ip("10.1.0.255"), 24}, IpPrefix{ip("127.0.0.1"), 8},
        IpPrefix{ip("10.1.0.1"), 0}, IpPrefix{ip("::"), 64}, IpPrefix{ip("10.1.0.1"), 33}}) {
    EXPECT_NE(refused({.mac = our_mac, .addresses = std::array{bad}}), "added");
  }
  EXPECT_NE(refused({.mac = our_mac, .addresses = std::array{IpPrefix{ours4, 16}}}).find("twice"),
            std::string::npos);
  EXPECT_NE(refused({.mac = our_mac, .tx_queue = 0}).find("tx queue"), std::string::npos);
  EXPECT_NE(refused({.mac = our_mac, .max_segments = 0}).find("segments"), std::string::npos);
  EXPECT_NE(refused({.mac = our_mac, .mtu = 9'000}).find("1 segments"), std::string::npos);
  const auto routed = [this](const Route& route) {
    const auto result = stack->add_route(route);
    return result ? std::string("added") : result.error().what;
  };
  EXPECT_NE(routed({.destination = {far4, 32}, .interface = 7}).find("interface 7"),
            std::string::npos);
  EXPECT_NE(routed({.destination = {far4, 32}, .gateway = ip("192.168.0.1")}).find("gateway"),
            std::string::npos);
}

}  // namespace
}  // namespace pinion::test

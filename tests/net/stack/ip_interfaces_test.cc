#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack_world.h"

namespace pinion::test {
namespace {

constexpr auto kProtocol = static_cast<IpProtocol>(kTestProtocol);

/// A stack on two links, the first with jumbo frames and the default route.
class Interfaces : public StackWorld {
 protected:
  void SetUp() override {
    make_bare_stack();
    const std::array first{IpPrefix{ours4, 24}, IpPrefix{ours6, 64}};
    ASSERT_TRUE(stack->add_interface({.mac = our_mac,
                                      .mtu = 9'000,
                                      .max_segments = 5,
                                      .addresses = first,
                                      .check_duplicates = false},
                                     now));
    const std::array second{IpPrefix{second4, 24}, IpPrefix{second6, 64}};
    ASSERT_TRUE(
        stack->add_interface({.mac = mac(2), .addresses = second, .check_duplicates = false}, now));
    ASSERT_TRUE(stack->add_route({.destination = {ip("0.0.0.0"), 0}, .gateway = ip("10.0.0.254")}));
    Bytes request(wire::ArpMessage::kSize);
    wire::emit_arp({.sender_mac = mac(254), .sender = {10, 0, 0, 254}, .target = v4_bytes(ours4)},
                   std::as_writable_bytes(std::span(request)));
    inject(mac(254), wire::kBroadcastMac, wire::EtherType::arp, request);
    taken(0);
    taken(1);
  }
  /// How many frames an interface has to send, of `most`.
  std::size_t taken(std::uint8_t interface, std::size_t most = 64) {
    std::array<Packet*, 64> burst{};
    const std::size_t count = stack->take(interface, std::span(burst).first(most));
    for (std::size_t i = 0; i < count; ++i) burst[i]->release();
    return count;
  }
  /// The interface that a packet left by; 9 for none.
  int leaves_by(const IpAddress& from, const IpAddress& to, std::size_t size = 20) {
    send({.source = from, .destination = to, .protocol = kProtocol}, size);
    if (taken(0) > 0) return 0;
    return taken(1) > 0 ? 1 : 9;
  }
  /// As add_interface() puts it.
  std::string refused(const IpPrefix& prefix) {
    const auto added = stack->add_interface(
        {.mac = mac(3), .addresses = std::array{prefix}, .check_duplicates = false}, now);
    return added ? std::string("added") : added.error().what;
  }

  const IpAddress second4 = ip("10.1.0.1");
  const IpAddress second6 = ip("2001:db8:1::1");
  const IpAddress local_of_first = link_local_of(mac(1));
  const IpAddress local_of_second = link_local_of(mac(2));
};

TEST_F(Interfaces, APrefixOfAnotherLinkIsRefused) {
  EXPECT_NE(refused({ip("10.1.0.7"), 24}).find("interface 1"), std::string::npos);
  EXPECT_NE(refused({ip("2001:db8::7"), 64}).find("interface 0"), std::string::npos);
  EXPECT_EQ(refused({ip("10.2.0.7"), 24}), "added");
  EXPECT_EQ(stack->source_for(ip("10.1.0.9")), second4);
  EXPECT_EQ(leaves_by(second4, ip("10.1.0.9")), 1);
}

TEST_F(Interfaces, ACrowdedOneHoldsUpNoOther) {
  const IpAddress on_second = ip("10.1.0.9");
  for (std::size_t i = 0; i <= InterfaceOptions{}.tx_queue / 2; ++i) {
    send({.source = ours4, .destination = far4, .protocol = kProtocol}, 20);
  }
  EXPECT_TRUE(stack->is_crowded());
  EXPECT_TRUE(stack->is_crowded(ours4, far4, now));
  EXPECT_FALSE(stack->is_crowded(second4, on_second, now));
  while (taken(0) != 0) continue;
  EXPECT_FALSE(stack->is_crowded());
}

// Somebody always sends, and the device is slower than all of them.
TEST_F(Interfaces, NobodyWaitsForLongThoughPacketsLeave) {
  const std::size_t half = InterfaceOptions{}.tx_queue / 2;
  const auto send_one = [this] {
    send({.source = ours4, .destination = far4, .protocol = kProtocol}, 20);
  };
  for (std::size_t i = 0; i <= half + 10; ++i) send_one();
  EXPECT_TRUE(stack->is_crowded(ours4, far4, now));
  for (int passed = 0; passed < 100; ++passed) {
    ASSERT_EQ(taken(0, 1), 1U);
    send_one();
    now += std::chrono::milliseconds{1};
  }
  EXPECT_TRUE(stack->is_crowded());
  EXPECT_FALSE(stack->is_crowded(ours4, far4, now));
}

TEST_F(Interfaces, WhenRoutesRunOutNothingIsAdded) {
  for (std::uint8_t i = 0; i < 59; ++i) {
    const IpPrefix to{IpAddress::v4({192, 0, 2, i}), 32};
    const auto added = stack->add_route({.destination = to, .gateway = ip("10.0.0.254")});
    if (!added) break;
  }
  const std::string said = refused({ip("10.2.0.7"), 24});
  EXPECT_NE(said.find("routes"), std::string::npos) << said;
  EXPECT_EQ(refused({ip("10.2.0.7"), 24}), said);
}

/// RFC 1122, 3.3.4.2, the strong model.
TEST_F(Interfaces, PacketsLeaveByTheInterfaceOfTheirSource) {
  ASSERT_TRUE(stack->add_route(
      {.destination = {ip("192.0.2.0"), 24}, .gateway = ip("10.1.0.254"), .interface = 1}));
  EXPECT_EQ(stack->source_for(far4), second4);
  EXPECT_EQ(leaves_by(second4, far4), 1);
  EXPECT_EQ(leaves_by(ours4, far4), 0);
  EXPECT_EQ(stack->path_mtu(ours4, far4), 9'000U);
  EXPECT_EQ(stack->path_mtu(second4, far4), 1'500U);
  // Where that knows no way, the other one has to do.
  EXPECT_EQ(leaves_by(second4, ip("198.51.100.1")), 0);
}

TEST_F(Interfaces, OfLinkLocalDestinationsTheSourceTellsTheLink) {
  const IpAddress there = ip("fe80::9");
  EXPECT_EQ(stack->path_mtu(local_of_first, there), 9'000U);
  EXPECT_EQ(stack->path_mtu(local_of_second, there), 1'500U);
  EXPECT_EQ(stack->path_mtu(second6, there), 1'500U);
  EXPECT_EQ(leaves_by(local_of_second, there), 1);
  EXPECT_EQ(leaves_by(local_of_first, there), 0);
  EXPECT_EQ(leaves_by(local_of_second, there, 1'461), 9);
  EXPECT_EQ(stack->counters().out_too_big, 1U);
}

TEST_F(Interfaces, ForwardProgressConfirmsTheNeighbourOnTheSourcesLink) {
  const IpAddress there = ip("fe80::9");
  for (const auto& [interface, ours] :
       {std::pair{std::uint8_t{0}, local_of_first}, {std::uint8_t{1}, local_of_second}}) {
    const MacAddress own = interface == 0 ? mac(1) : mac(2);
    wire::Ipv6Header header;
    header.next_header = 58;
    header.hop_limit = 255;
    const Bytes packet = ip_packet(
        header, there, ours, ndp_message({.target = ours.bytes(), .mac = mac(9)}, there, ours));
    Bytes frame(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = own, .source = mac(9), .type = wire::EtherType::ipv6},
                        std::as_writable_bytes(std::span(frame)));
    Packet* const burst = make_packet(*pool, join({frame, packet})).take();
    stack->receive(interface, {&burst, 1}, now);
  }
  stack->confirm_reachable(local_of_second, there, now);
  EXPECT_EQ(stack->neighbours().state(0, there, now), NeighbourState::stale);
  EXPECT_EQ(stack->neighbours().state(1, there, now), NeighbourState::reachable);
}

TEST_F(Interfaces, WhatTheLinkSaysAlreadyIsNoPathMtu) {
  const IpAddress there = ip("fe80::9");
  stack->learn_path_mtu(local_of_second, there, 1'500, now);
  EXPECT_EQ(stack->path_mtu(local_of_first, there), 9'000U);
  stack->learn_path_mtu(local_of_first, there, 1'500, now);
  EXPECT_EQ(stack->path_mtu(local_of_first, there), 1'500U);
}

TEST_F(Interfaces, OfOneHostAreNoGroupsAndNoBroadcasts) {
  for (const char* one : {"10.0.0.9", "10.1.0.9", "192.0.2.255", "2001:db8::9", "fe80::9"}) {
    EXPECT_TRUE(stack->is_unicast(ip(one))) << one;
  }
  for (const char* many : {"10.0.0.255", "10.1.0.255", "255.255.255.255", "224.0.0.1", "0.0.0.0",
                           "240.0.0.1", "ff02::1", "::", "::ffff:10.0.0.9"}) {
    EXPECT_FALSE(stack->is_unicast(ip(many))) << many;
  }
}

}  // namespace
}  // namespace pinion::test

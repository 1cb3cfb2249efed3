#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack_world.h"

namespace pinion::test {
namespace {

constexpr auto kProtocol = static_cast<IpProtocol>(kTestProtocol);

class Link : public StackWorld {
 protected:
  struct Arp {
    bool reply = false;
    MacAddress from{};
    const char* sender = "10.0.0.9";
    const char* target = "10.0.0.1";
    bool to_us = false;
  };
  static wire::Ipv4Address v4(std::string_view text) { return v4_bytes(ip(text)); }
  void inject_arp(const Arp& arp) {
    Bytes bytes(wire::ArpMessage::kSize);
    wire::emit_arp(
        {.operation = arp.reply ? wire::ArpOperation::reply : wire::ArpOperation::request,
         .sender_mac = arp.from,
         .sender = v4(arp.sender),
         .target_mac = arp.reply ? our_mac : MacAddress{},
         .target = v4(arp.target)},
        std::as_writable_bytes(std::span(bytes)));
    inject(arp.from, arp.to_us ? our_mac : wire::kBroadcastMac, wire::EtherType::arp, bytes);
  }
  void inject_ndp(const MacAddress& from_mac, const wire::NdpMessage& message,
                  const IpAddress& from, const IpAddress& to, std::uint8_t hop_limit = 255) {
    wire::Ipv6Header header;
    header.next_header = 58;
    header.hop_limit = hop_limit;
    inject(from_mac, is_multicast(to) ? multicast_mac(to) : our_mac, wire::EtherType::ipv6,
           ip_packet(header, from, to, ndp_message(message, from, to)));
  }
  void send_to(const IpAddress& to) {
    send({.source = to.is_v4() ? ours4 : ours6, .destination = to, .protocol = kProtocol}, 20);
  }
  [[nodiscard]] MacAddress goes_to(const IpAddress& to) {
    send_to(to);
    return sent_one().ethernet.destination;
  }
  static wire::NdpMessage ndp_of(const SentFrame& frame) {
    const wire::Ipv6Header header = frame.v6();
    const wire::IcmpMessage message = frame.icmp();
    const auto parsed = wire::parse_ndp(message, frame.ip_payload(),
                                        {.source = header.source,
                                         .destination = header.destination,
                                         .hop_limit = header.hop_limit});
    EXPECT_TRUE(parsed.has_value());
    return parsed.value_or(wire::NdpMessage{});
  }
};

TEST_F(Link, ArpRequestsForUsAreAnswered) {
  inject_arp({.from = mac(20), .sender = "10.0.0.20"});
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, mac(20));
  const wire::ArpMessage reply = frame.arp();
  EXPECT_EQ(reply.operation, wire::ArpOperation::reply);
  EXPECT_EQ(reply.sender_mac, our_mac);
  EXPECT_EQ(reply.sender, v4("10.0.0.1"));
  EXPECT_EQ(reply.target_mac, mac(20));
  EXPECT_EQ(reply.target, v4("10.0.0.20"));
  inject_arp({.from = mac(20), .sender = "10.0.0.20", .target = "10.0.0.2"});
  EXPECT_TRUE(sent().empty());
  // RFC 826: who has asked us needs no asking.
  EXPECT_EQ(goes_to(ip("10.0.0.20")), mac(20));
}

TEST_F(Link, ArpAsksAndListens) {
  send_to(ip("10.0.0.20"));
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, wire::kBroadcastMac);
  EXPECT_EQ(frame.arp().operation, wire::ArpOperation::request);
  EXPECT_EQ(frame.arp().sender, v4("10.0.0.1"));
  EXPECT_EQ(frame.arp().target, v4("10.0.0.20"));
  inject_arp({.reply = true, .from = mac(20), .sender = "10.0.0.20", .to_us = true});
  EXPECT_EQ(sent_one().ethernet.destination, mac(20));
}

// N2: unasked and forged answers about neighbours.
TEST_F(Link, N2GratuitousAndForgedArpChangesNothing) {
  const std::size_t known = stack->neighbours().size();
  inject_arp({.from = mac(66), .sender = "10.0.0.9", .target = "10.0.0.9"});
  inject_arp({.reply = true, .from = mac(66), .sender = "10.0.0.9", .target = "10.0.0.9"});
  inject_arp({.reply = true, .from = mac(66), .sender = "10.0.0.9", .to_us = true});
  inject_arp({.reply = true, .from = mac(66), .sender = "10.0.0.9"});
  inject_arp({.from = mac(66), .sender = "10.0.0.9", .target = "10.0.0.3"});
  // Who is not of the link, has a group's MAC, or ours.
  inject_arp({.from = mac(66), .sender = "192.0.2.66"});
  EXPECT_EQ(sent().size(), 1U);  // An answer costs us nothing.
  inject_arp({.from = wire::kBroadcastMac, .sender = "10.0.0.67"});
  inject_arp({.from = our_mac, .sender = "10.0.0.68"});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->neighbours().size(), known);
  EXPECT_EQ(goes_to(peer4), peer_mac);
}

TEST_F(Link, SolicitationsForUsAreAnswered) {
  const IpAddress asker = ip("fe80::20");
  inject_ndp(mac(20), {.target = ours6.bytes(), .mac = mac(20)}, asker, solicited_node(ours6));
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, mac(20));
  EXPECT_EQ(frame.v6().hop_limit, 255);
  EXPECT_EQ(IpAddress::v6(frame.v6().source), ours6);
  EXPECT_EQ(IpAddress::v6(frame.v6().destination), asker);
  const wire::NdpMessage answer = ndp_of(frame);
  EXPECT_EQ(answer.type, wire::IcmpV6Type::neighbor_advertisement);
  EXPECT_TRUE(answer.solicited);
  EXPECT_TRUE(answer.overrides);
  EXPECT_FALSE(answer.router);
  EXPECT_EQ(answer.mac, our_mac);
  EXPECT_EQ(IpAddress::v6(answer.target), ours6);
  // RFC 4862, 5.4.3: somebody checks our address.
  inject_ndp(mac(20), {.target = ours6.bytes(), .mac = {}}, ip("::"), solicited_node(ours6));
  const SentFrame defence = sent_one();
  EXPECT_EQ(IpAddress::v6(defence.v6().destination), all_nodes());
  EXPECT_FALSE(ndp_of(defence).solicited);
}

TEST_F(Link, NdpAsksAndListens) {
  const IpAddress to = ip("2001:db8::12:3456");
  send_to(to);
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, (MacAddress{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}));
  EXPECT_EQ(IpAddress::v6(frame.v6().destination), solicited_node(to));
  EXPECT_EQ(frame.v6().hop_limit, 255);
  EXPECT_EQ(ndp_of(frame).mac, our_mac);
  inject_ndp(mac(20),
             {.type = wire::IcmpV6Type::neighbor_advertisement,
              .solicited = true,
              .overrides = true,
              .target = to.bytes(),
              .mac = mac(20)},
             to, ours6);
  EXPECT_EQ(sent_one().ethernet.destination, mac(20));
}

/// RFC 4861, 7.2.4: the answer goes to whoever asked, not through a router.
TEST_F(Link, SolicitationsAreAnsweredOnTheLinkWhateverTheirSender) {
  inject_ndp(mac(20), {.target = ours6.bytes(), .mac = mac(20)}, far6, solicited_node(ours6));
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, mac(20));
  EXPECT_EQ(frame.v6().hop_limit, 255);
  // Without an address of its own in it, the one we know of the sender has to do.
  inject_ndp(peer_mac, {.target = ours6.bytes(), .mac = {}}, peer6, ours6);
  EXPECT_EQ(sent_one().ethernet.destination, peer_mac);
  const IpAddress other = ip("2001:db8:ffff::77");
  inject_ndp(mac(77), {.target = ours6.bytes(), .mac = {}}, other, ours6);
  frame = sent_one();
  EXPECT_EQ(ndp_of(frame).type, wire::IcmpV6Type::neighbor_solicitation);
  EXPECT_EQ(IpAddress::v6(ndp_of(frame).target), other);
}

TEST_F(Link, N1AFullCacheAnswersSolicitationsStill) {
  make_stack({.neighbours = {.capacity = 4}});
  // All four are in use.
  for (const IpAddress& to : {peer4, far4, peer6, far6}) send_to(to);
  sent();
  inject_ndp(mac(20), {.target = ours6.bytes(), .mac = mac(20)}, ip("fe80::20"),
             solicited_node(ours6));
  EXPECT_EQ(sent_one().ethernet.destination, mac(20));
}

TEST_F(Link, N1InventedSolicitorsDisplaceNobody) {
  make_stack({.neighbours = {.capacity = 16}});
  for (const IpAddress& to : {peer4, far4, peer6, far6}) {
    send_to(to);
    stack->confirm_reachable(to.is_v4() ? ours4 : ours6, to, now);
  }
  pass(11s, 100ms);
  sent();
  for (std::uint8_t i = 30; i < 230; ++i) {
    const IpAddress invented =
        IpAddress::v6({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, i});
    inject_ndp(mac(i), {.target = ours6.bytes(), .mac = mac(i)}, invented, solicited_node(ours6));
    EXPECT_EQ(sent_one().ethernet.destination, mac(i));
  }
  pass(3s, 100ms);
  EXPECT_EQ(stack->counters().neighbour_solicitations, 0U);
  for (const IpAddress& to : {peer4, peer6}) EXPECT_EQ(goes_to(to), peer_mac);
  for (const IpAddress& to : {far4, far6}) EXPECT_EQ(goes_to(to), mac(254));
}

/// RFC 6980, 5: such messages are ignored, since filters don't see what they are.
TEST_F(Link, N2FragmentedNeighborDiscoveryIsIgnored) {
  const IpAddress asker = ip("fe80::20");
  const Bytes message =
      ndp_message({.target = ours6.bytes(), .mac = mac(20)}, asker, solicited_node(ours6));
  const auto inject_piece = [&](std::uint16_t offset, const Bytes& payload, bool more) {
    Bytes fragment(wire::Ipv6Fragment::kSize);
    wire::emit_ipv6_fragment({.identification = 7, .offset = offset, .more = more}, 58,
                             std::as_writable_bytes(std::span(fragment)));
    wire::Ipv6Header header;
    header.next_header = 44;
    header.hop_limit = 255;
    inject(mac(20), multicast_mac(solicited_node(ours6)), wire::EtherType::ipv6,
           ip_packet(header, asker, solicited_node(ours6), join({fragment, payload})));
  };
  const std::size_t known = stack->neighbours().size();
  inject_piece(0, message, false);  // The whole, behind a fragment header.
  EXPECT_TRUE(sent().empty());
  inject_piece(0, Bytes(message.begin(), message.begin() + 16), true);
  inject_piece(16, Bytes(message.begin() + 16, message.end()), false);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().neighbour_bad, 2U);
  EXPECT_EQ(stack->neighbours().size(), known);
}

TEST_F(Link, ArpResolvesWhatARouteSaysIsOnTheLink) {
  const IpAddress other = ip("192.168.7.7");
  inject_arp({.from = mac(20), .sender = "192.168.7.7"});
  EXPECT_EQ(sent_one().arp().operation, wire::ArpOperation::reply);
  EXPECT_EQ(goes_to(other), mac(254));  // Whoever asks is not believed to be of the link.
  ASSERT_TRUE(stack->add_route({.destination = {ip("192.168.7.0"), 24}}));
  send_to(other);
  EXPECT_EQ(sent_one().arp().target, v4("192.168.7.7"));
  inject_arp({.reply = true, .from = mac(20), .sender = "192.168.7.7", .to_us = true});
  EXPECT_EQ(sent_one().ethernet.destination, mac(20));
  inject_arp({.from = mac(21), .sender = "192.168.7.8"});
  sent();
  EXPECT_EQ(goes_to(ip("192.168.7.8")), mac(21));
}

/// RFC 4861, 7.1: 255 shows that it comes from the link.
// N2: unasked and forged answers about neighbours.
TEST_F(Link, N2ForgedAdvertisementsChangeNothing) {
  const wire::NdpMessage claim{.type = wire::IcmpV6Type::neighbor_advertisement,
                               .solicited = true,
                               .overrides = true,
                               .target = peer6.bytes(),
                               .mac = mac(66)};
  inject_ndp(mac(66), claim, peer6, ours6);
  wire::NdpMessage unsolicited = claim;
  unsolicited.solicited = false;
  inject_ndp(mac(66), unsolicited, peer6, all_nodes());
  EXPECT_EQ(stack->counters().neighbour_not_asked, 2U);
  EXPECT_EQ(goes_to(peer6), peer_mac);
  // Asked for, but from beyond the link.
  send_to(ip("2001:db8::77"));
  sent();
  wire::NdpMessage answer = claim;
  answer.target = ip("2001:db8::77").bytes();
  inject_ndp(mac(66), answer, peer6, ours6, 254);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().malformed[wire_fault_index(wire::WireFault::ndp_hop_limit)], 1U);
}

TEST_F(Link, RouterMessagesChangeNothing) {
  const Bytes body(8);  // Reachable time and retransmission timer.
  const IpAddress router = ip("fe80::fe");
  wire::Ipv6Header header;
  header.next_header = 58;
  header.hop_limit = 255;
  inject_ip(
      ip_packet(header, router, all_nodes(),
                icmp_message({.type = 134, .detail = 0x40000708}, router, all_nodes(), body)));
  EXPECT_EQ(stack->counters().neighbour_ignored, 1U);
  EXPECT_TRUE(sent().empty());
}

TEST_F(Link, ForwardProgressKeepsANeighbourReachable) {
  std::uint64_t asked = 0;
  for (int i = 0; i < 20; ++i) {
    stack->confirm_reachable(ours4, far4, now);
    stack->confirm_reachable(ours6, far6, now);
    send_to(far4);
    send_to(far6);
    pass(10s, 1s);
    // The others, which nobody confirms, are probed once.
    if (i == 0) asked = stack->counters().neighbour_solicitations;
  }
  EXPECT_EQ(stack->counters().neighbour_solicitations, asked);
  sent();
}

TEST_F(Link, ASuspectedPathAsksItsFirstHopAlone) {
  for (const IpAddress& to : {peer4, far4, peer6, far6}) {
    stack->confirm_reachable(to.is_v4() ? ours4 : ours6, to, now);
  }
  pass(6s, 1s);
  sent();  // The others, which nobody confirms, are probed.
  const std::uint64_t asked = stack->counters().neighbour_solicitations;
  for (const IpAddress& to : {peer4, far4, peer6, far6}) {
    stack->suspect(to.is_v4() ? ours4 : ours6, to, now);
    const bool direct = to == peer4 || to == peer6;
    EXPECT_EQ(sent_one().ethernet.destination, direct ? peer_mac : mac(254));
  }
  EXPECT_EQ(stack->counters().neighbour_solicitations, asked + 4);
}

class AddressCheck : public Link {
 protected:
  void SetUp() override {
    make_bare_stack();
    const std::array addresses{IpPrefix{ours4, 24}, IpPrefix{ours6, 64}};
    ASSERT_TRUE(stack->add_interface({.mac = our_mac, .addresses = addresses}, now));
    begin = now;
  }
  [[nodiscard]] AddressState state(const IpAddress& address) const {
    return stack->address_state(0, address).value_or(AddressState::duplicate);
  }
  /// ARP messages that left, and solicitations for `ours6`.
  std::vector<SentFrame> take_arp() {
    std::vector<SentFrame> arp;
    for (SentFrame& frame : sent()) {
      if (frame.ethernet.type == wire::EtherType::arp) arp.push_back(std::move(frame));
    }
    return arp;
  }
  Instant begin;
};

/// RFC 5227, 2.1.1 and 2.3.
TEST_F(AddressCheck, Ipv4IsProbedThreeTimesAndAnnouncedTwice) {
  std::vector<std::pair<Delay, wire::ArpMessage>> seen;
  Delay usable_after = Delay::max();
  while (saturating_sub(now, begin) < Delay{15s}) {
    pass(10ms);
    for (const SentFrame& frame : take_arp()) {
      EXPECT_EQ(frame.ethernet.destination, wire::kBroadcastMac);
      seen.emplace_back(saturating_sub(now, begin), frame.arp());
    }
    if (state(ours4) == AddressState::usable) {
      usable_after = std::min(usable_after, saturating_sub(now, begin));
    }
  }
  ASSERT_EQ(seen.size(), 5U);
  const auto gap = [&seen](std::size_t i) {
    return Delay{std::chrono::nanoseconds{seen[i].first.count() - seen[i - 1].first.count()}};
  };
  EXPECT_LE(seen[0].first, Delay{1'020ms});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i].second.sender, (wire::Ipv4Address{}));
    EXPECT_EQ(seen[i].second.target, v4("10.0.0.1"));
  }
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_GE(gap(i), Delay{990ms});
    EXPECT_LE(gap(i), Delay{2'020ms});
  }
  for (std::size_t i = 3; i < 5; ++i) {
    EXPECT_GE(gap(i), Delay{1'990ms});
    EXPECT_LE(gap(i), Delay{2'020ms});
    EXPECT_EQ(seen[i].second.sender, v4("10.0.0.1"));
    EXPECT_EQ(seen[i].second.target, v4("10.0.0.1"));
  }
  EXPECT_EQ(usable_after, seen[3].first);
}

TEST_F(AddressCheck, NothingIsSentOrReceivedBefore) {
  inject_ip(ip_packet(peer4, ours4, kTestProtocol, counted(10)));
  inject_ip(ip_packet(peer6, ours6, kTestProtocol, counted(10)));
  inject_arp({.from = mac(20), .sender = "10.0.0.20"});
  EXPECT_TRUE(transport.received.empty());
  EXPECT_TRUE(take_arp().empty());
  EXPECT_FALSE(stack->is_local(ours4));
  EXPECT_FALSE(stack->source_for(peer4));
  pass(9s);
  sent();
  inject_ip(ip_packet(peer4, ours4, kTestProtocol, counted(10)));
  inject_ip(ip_packet(peer6, ours6, kTestProtocol, counted(10)));
  EXPECT_EQ(transport.received.size(), 2U);
}

TEST_F(AddressCheck, Ipv4OfSomebodyElseIsGivenUp) {
  pass(1'500ms);
  inject_arp({.reply = true, .from = mac(20), .sender = "10.0.0.1", .to_us = true});
  EXPECT_EQ(state(ours4), AddressState::duplicate);
  sent();
  pass(10s);
  EXPECT_TRUE(take_arp().empty());
  EXPECT_EQ(stack->counters().address_duplicate, 1U);
  inject_arp({.from = mac(30), .sender = "10.0.0.30"});
  EXPECT_TRUE(sent().empty());
}

TEST_F(AddressCheck, Ipv4ThatSomebodyProbesTooIsGivenUp) {
  pass(500ms);
  inject_arp({.from = our_mac, .sender = "0.0.0.0"});  // Our own probe, echoed.
  EXPECT_EQ(state(ours4), AddressState::checking);
  inject_arp({.from = mac(20), .sender = "0.0.0.0"});
  EXPECT_EQ(state(ours4), AddressState::duplicate);
}

/// RFC 5227, 2.4 (c).
TEST_F(AddressCheck, Ipv4InUseIsDefendedAtMostOnceInTenSeconds) {
  pass(15s);
  sent();
  for (int i = 0; i < 90; ++i) {
    inject_arp({.from = mac(20), .sender = "10.0.0.1", .target = "10.0.0.1"});
    pass(100ms);
  }
  ASSERT_EQ(take_arp().size(), 1U);
  pass(1'100ms);
  inject_arp({.from = mac(20), .sender = "10.0.0.1", .target = "10.0.0.1"});
  EXPECT_EQ(take_arp().size(), 1U);
  EXPECT_EQ(state(ours4), AddressState::usable);
  EXPECT_EQ(stack->counters().address_conflict, 91U);
}

/// RFC 4862, 5.4.2.
TEST_F(AddressCheck, Ipv6IsSolicitedOnceFromNowhere) {
  std::vector<IpAddress> targets;
  while (saturating_sub(now, begin) < Delay{3s}) {
    pass(10ms);
    for (const SentFrame& frame : sent()) {
      if (frame.ethernet.type != wire::EtherType::ipv6 || frame.v6().next_header != 58) continue;
      const wire::NdpMessage message = ndp_of(frame);
      EXPECT_TRUE(is_unspecified(IpAddress::v6(frame.v6().source)));
      EXPECT_FALSE(message.mac);
      targets.push_back(IpAddress::v6(message.target));
      EXPECT_EQ(IpAddress::v6(frame.v6().destination), solicited_node(targets.back()));
    }
  }
  std::ranges::sort(targets);
  EXPECT_EQ(targets, (std::vector{ours6, link_local_of(our_mac)}));
  EXPECT_EQ(state(ours6), AddressState::usable);
  EXPECT_EQ(state(link_local_of(our_mac)), AddressState::usable);
}

TEST_F(AddressCheck, Ipv6OfSomebodyElseIsGivenUp) {
  inject_ndp(mac(20),
             {.type = wire::IcmpV6Type::neighbor_advertisement,
              .overrides = true,
              .target = ours6.bytes(),
              .mac = mac(20)},
             ip("fe80::20"), all_nodes());
  EXPECT_EQ(state(ours6), AddressState::duplicate);
  EXPECT_EQ(state(link_local_of(our_mac)), AddressState::checking);
  inject_ndp(mac(20), {.target = link_local_of(our_mac).bytes(), .mac = {}}, ip("::"),
             solicited_node(link_local_of(our_mac)));
  EXPECT_EQ(state(link_local_of(our_mac)), AddressState::duplicate);
  EXPECT_EQ(stack->counters().address_duplicate, 2U);
}

/// RFC 4862, 5.4.5: somebody has our MAC.
TEST_F(AddressCheck, ADuplicateOfTheMacsAddressEndsIpv6OnTheInterface) {
  const IpAddress link_local = link_local_of(our_mac);
  inject_ndp(mac(20), {.target = link_local.bytes(), .mac = {}}, ip("::"),
             solicited_node(link_local));
  EXPECT_EQ(state(link_local), AddressState::duplicate);
  EXPECT_EQ(state(ours6), AddressState::duplicate);
  pass(15s);
  EXPECT_EQ(state(ours6), AddressState::duplicate);
  EXPECT_EQ(state(ours4), AddressState::usable);
  sent();
}

/// RFC 7527: on a link that echoes, our own solicitations and probes come back.
TEST_F(AddressCheck, WhatTheLinkEchoesIsNoDuplicate) {
  std::uint64_t echoed = 0;
  while (saturating_sub(now, begin) < Delay{10s}) {
    pass(10ms);
    for (const SentFrame& frame : sent()) {
      inject_frame(frame.bytes);
      ++echoed;
    }
  }
  EXPECT_GE(echoed, 7U);
  EXPECT_EQ(stack->counters().frame_ours, echoed);
  EXPECT_EQ(state(ours4), AddressState::usable);
  EXPECT_EQ(state(ours6), AddressState::usable);
}

class Listeners : public Link {
 protected:
  /// The groups that the reports among the frames name, after the record's type.
  static std::vector<std::pair<int, IpAddress>> reported(const std::vector<SentFrame>& frames) {
    std::vector<std::pair<int, IpAddress>> groups;
    for (const SentFrame& frame : frames) {
      if (frame.ethernet.type != wire::EtherType::ipv6) continue;
      const wire::Ipv6Header header = frame.v6();
      const auto walked = wire::walk_ipv6_extensions(header, frame.ip_payload());
      if (!walked || walked->protocol != 58) continue;
      const std::span<const std::byte> message = frame.ip_payload().subspan(walked->size);
      if (wire::load_u8(message.data()) != 143) continue;
      EXPECT_TRUE(walked->router_alert);
      EXPECT_EQ(header.hop_limit, 1);
      EXPECT_EQ(IpAddress::v6(header.destination), ip("ff02::16"));
      wire::InternetChecksum sum;
      sum.add_pseudo_header(IpAddress::v6(header.source), IpAddress::v6(header.destination), 58,
                            message.size());
      sum.add(message);
      EXPECT_EQ(sum.value(), 0);
      const std::size_t count = wire::load_be16(&message[6]);
      EXPECT_EQ(message.size(), 8 + 20 * count);
      for (std::size_t i = 0; i < count; ++i) {
        groups.emplace_back(wire::load_u8(&message[8 + 20 * i]),
                            IpAddress::v6(wire::load_bytes<16>(&message[12 + 20 * i])));
      }
    }
    return groups;
  }
  void query(std::uint8_t hop_limit, bool alert, std::size_t size) {
    const IpAddress router = ip("fe80::fe");
    Bytes message =
        icmp_message({.type = 130, .detail = 1000U << 16}, router, all_nodes(), Bytes(size - 8));
    wire::Ipv6Header header;
    header.hop_limit = hop_limit;
    header.next_header = 58;
    if (alert) {
      Bytes options(wire::kIpv6RouterAlertSize);
      wire::emit_ipv6_router_alert(58, std::as_writable_bytes(std::span(options)));
      message = join({options, message});
      header.next_header = 0;
    }
    inject_ip(ip_packet(header, router, all_nodes(), message));
  }
};

/// RFC 3810, 6.1, with its robustness of 2.
TEST_F(Listeners, JoinedGroupsAreReportedTwice) {
  make_bare_stack();
  const std::array addresses{IpPrefix{ours6, 64}};
  ASSERT_TRUE(stack->add_interface({.mac = our_mac, .addresses = addresses}, now));
  const IpAddress group = solicited_node(ours6);
  const auto times = [&group](const std::vector<std::pair<int, IpAddress>>& all) {
    return std::ranges::count(all, std::pair{4, group});
  };
  const auto from_link_local = [this] {
    std::vector<SentFrame> frames = sent();
    std::erase_if(frames, [](const SentFrame& frame) {
      return frame.ethernet.type != wire::EtherType::ipv6 ||
             !is_link_local(IpAddress::v6(frame.v6().source));
    });
    return frames;
  };
  EXPECT_EQ(times(reported(sent())), 1);
  pass(1'000ms);
  EXPECT_EQ(times(reported(sent())), 1);
  // RFC 3590, 4: what came from :: again, when there is somebody to come from.
  pass(1'020ms);
  EXPECT_EQ(stack->address_state(0, link_local_of(our_mac)), AddressState::usable);
  EXPECT_EQ(times(reported(from_link_local())), 1);
  pass(10s);
  EXPECT_EQ(times(reported(sent())), 0);
}

TEST_F(Listeners, QueriesAreAnsweredInTime) {
  pass(5s);
  sent();
  query(1, true, 28);
  EXPECT_TRUE(reported(sent()).empty());
  pass(1'010ms);
  const auto groups = reported(sent());
  // Our link-local address is in the same one.
  EXPECT_EQ(groups, (std::vector{std::pair{2, solicited_node(ours6)}}));
  query(64, true, 28);
  query(1, false, 28);
  query(1, true, 26);
  pass(2s);
  EXPECT_TRUE(reported(sent()).empty());
  EXPECT_EQ(stack->counters().neighbour_bad, 3U);
}

}  // namespace
}  // namespace pinion::test

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack/udp.h"
#include "stack_world.h"

namespace pinion::test {
namespace {

class Udp : public StackWorld {
 protected:
  void SetUp() override {
    StackWorld::SetUp();
    udp.emplace(*stack, *pool, seed());
  }
  void TearDown() override {
    udp.reset();
    StackWorld::TearDown();
  }

  void inject_udp(const Endpoint& from, const Endpoint& to, const Bytes& payload) {
    inject_ip(ip_packet(from.address, to.address, 17, udp_message(from, to, payload)));
  }
  UdpSend send_from(UdpSocket& socket, const Endpoint& to, const Bytes& payload) const {
    return socket.send_to(std::as_bytes(std::span(payload)), to, now);
  }
  /// A router's error about a datagram from `from` to `to`.
  void inject_error(const wire::IcmpMessage& message, const Endpoint& from, const Endpoint& to) {
    const Bytes quoted =
        ip_packet(from.address, to.address, 17, udp_message(from, to, counted(30)));
    const bool v4 = from.address.is_v4();
    const IpAddress& router = v4 ? far4 : far6;
    inject_ip(ip_packet(router, from.address, v4 ? 1 : 58,
                        icmp_message(message, router, from.address, quoted)));
  }

  std::optional<UdpLayer> udp;
};

TEST_F(Udp, TakesDatagramsToTheirSocket) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ip("0.0.0.0"), 7}));
  ASSERT_TRUE(six.bind({ip("::"), 7}));
  inject_udp({peer4, 1000}, {ours4, 7}, counted(100));
  inject_udp({peer6, 2000}, {ours6, 7}, counted(200));
  inject_udp({peer4, 1000}, {ours4, 7}, {});
  EXPECT_EQ(four.waiting(), 2U);
  std::optional<UdpDatagram> got = four.receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(bytes_of(*got->packet), counted(100));
  EXPECT_EQ(got->from, (Endpoint{peer4, 1000}));
  EXPECT_EQ(got->to, ours4);
  got = four.receive();
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->packet->empty());
  EXPECT_FALSE(four.receive());
  got = six.receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(bytes_of(*got->packet), counted(200));
  EXPECT_EQ(got->from, (Endpoint{peer6, 2000}));
}

TEST_F(Udp, SendsWithChecksums) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ip("::"), 7}));
  EXPECT_EQ(send_from(four, {peer4, 9}, counted(33)), UdpSend::sent);
  EXPECT_EQ(send_from(six, {peer6, 9}, counted(34)), UdpSend::sent);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_FALSE(frames[0].v4().dont_fragment);
  for (const SentFrame& frame : frames) {
    const auto header = wire::parse_udp(frame.ip_payload(), frame.ip_payload().size());
    ASSERT_TRUE(header);
    EXPECT_EQ(header->source_port, 7);
    EXPECT_EQ(header->destination_port, 9);
    EXPECT_NE(header->checksum, 0);
    const bool v4 = frame.ethernet.type == wire::EtherType::ipv4;
    wire::InternetChecksum sum;
    sum.add_pseudo_header(v4 ? ours4 : ours6, v4 ? peer4 : peer6, 17, frame.ip_payload().size());
    sum.add(frame.ip_payload());
    EXPECT_EQ(sum.value(), 0);
  }
  EXPECT_EQ(four.stats().sent, 1U);
}

TEST_F(Udp, SendsWithTheClassThatWasSet) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ours6, 7}));
  four.set_traffic_class(0xb9);
  six.set_traffic_class(0x28);
  EXPECT_EQ(send_from(four, {peer4, 9}, counted(33)), UdpSend::sent);
  EXPECT_EQ(send_from(six, {peer6, 9}, counted(34)), UdpSend::sent);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].v4().traffic_class, 0xb9);
  EXPECT_EQ(frames[1].v6().traffic_class, 0x28);
}

TEST_F(Udp, CarriesUpTo64KiBBothWays) {
  UdpSocket here(*udp);
  UdpSocket there(*udp);
  ASSERT_TRUE(here.bind({ours4, 7}));
  ASSERT_TRUE(there.bind({ours4, 8}));
  EXPECT_EQ(send_from(here, {ours4, 8}, counted(65'507)), UdpSend::sent);
  stack->end_of_burst(now);
  std::optional<UdpDatagram> got = there.receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(bytes_of(*got->packet), counted(65'507));
  EXPECT_EQ(send_from(here, {peer4, 8}, counted(65'507)), UdpSend::sent);
  EXPECT_EQ(sent().size(), 45U);
  EXPECT_EQ(send_from(here, {peer4, 8}, counted(65'508)), UdpSend::too_long);
  EXPECT_EQ(send_from(here, {peer6, 8}, counted(10)), UdpSend::other_family);
  // IPv6's length is of the payload alone.
  UdpSocket six(*udp);
  ASSERT_TRUE(six.bind({ours6, 9}));
  EXPECT_EQ(send_from(six, {peer6, 8}, counted(65'527)), UdpSend::sent);
  std::size_t bytes = 0;
  for (const SentFrame& frame : sent()) bytes += frame.ip_payload().size() - 8;
  EXPECT_EQ(bytes, 65'535U);
  EXPECT_EQ(send_from(six, {ours6, 9}, counted(65'527)), UdpSend::sent);
  stack->end_of_burst(now);
  got = six.receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(bytes_of(*got->packet), counted(65'527));
  EXPECT_EQ(send_from(six, {peer6, 8}, counted(65'528)), UdpSend::too_long);
}

/// RFC 1122, 4.1.3.1, and what a kernel answers.
// N6: ping, traceroute and UDP to closed ports.
TEST_F(Udp, N6ClosedPortsDrawPortUnreachable) {
  const Bytes four = ip_packet(peer4, ours4, 17, udp_message({peer4, 1}, {ours4, 9}, counted(20)));
  inject_ip(four);
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 3, .code = 3}));
  EXPECT_TRUE(same(frame.ip_payload().subspan(8), four));
  const Bytes six = ip_packet(peer6, ours6, 17, udp_message({peer6, 1}, {ours6, 9}, counted(20)));
  inject_ip(six);
  frame = sent_one();
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 1, .code = 4}));
  EXPECT_TRUE(same(frame.ip_payload().subspan(8), six));
  EXPECT_EQ(udp->counters().no_port, 2U);
  // Not to many, and not when it may never have been for a port.
  inject_udp({peer4, 1}, {ip("10.0.0.255"), 9}, counted(20));
  EXPECT_EQ(udp->counters().no_port_group, 1U);
  Bytes bad = four;
  bad.back() ^= 1;
  inject_ip(bad);
  EXPECT_TRUE(sent().empty());
}

/// Traceroute's probes have a hop limit of 1 when they arrive.
// N6: ping, traceroute and UDP to closed ports.
TEST_F(Udp, N6TracerouteGetsItsAnswer) {
  wire::Ipv4Header header;
  header.protocol = 17;
  header.hop_limit = 1;
  header.identification = 0x1234;
  const Bytes probe =
      ip_packet(header, far4, ours4, udp_message({far4, 40'000}, {ours4, 33'434}, counted(12)));
  inject_ip(probe);
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, mac(254));
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 3, .code = 3}));
  EXPECT_TRUE(same(frame.ip_payload().subspan(8), probe));
}

TEST_F(Udp, ClosedPortsRefuseReassembledDatagramsAsOne) {
  const Bytes whole = udp_message({peer4, 1}, {ours4, 9}, counted(192));
  wire::Ipv4Header header;
  header.protocol = 17;
  header.identification = 5;
  header.more_fragments = true;
  inject_ip(ip_packet(header, peer4, ours4, Bytes(whole.begin(), whole.begin() + 104)));
  header.fragment_offset = 104;
  header.more_fragments = false;
  inject_ip(ip_packet(header, peer4, ours4, Bytes(whole.begin() + 104, whole.end())));
  header.fragment_offset = 0;
  const Bytes expected = ip_packet(header, peer4, ours4, whole);
  const SentFrame frame = sent_one();
  EXPECT_TRUE(same(frame.ip_payload().subspan(8), expected));
}

TEST_F(Udp, AClosedPortOfOursRefusesOurOwnSocket) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.connect({ours4, 9}));
  EXPECT_EQ(socket.send({}, now), UdpSend::sent);
  stack->end_of_burst(now);
  EXPECT_EQ(socket.take_trouble(), std::nullopt);
  stack->end_of_burst(now);
  EXPECT_EQ(socket.take_trouble(), IpTrouble::port_unreachable);
}

TEST_F(Udp, TrustsADeviceInWholeDatagramsAlone) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ours4, 7}));
  Bytes message = udp_message({peer4, 1}, {ours4, 7}, counted(120));
  message.back() ^= 1;
  const auto inject_marked = [this](const Bytes& packet) {
    Bytes frame(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = our_mac, .source = peer_mac},
                        std::as_writable_bytes(std::span(frame)));
    PacketPtr marked = make_packet(*pool, join({frame, packet}));
    marked->set(PacketMark::transport_checksum_good);
    Packet* const burst = marked.take();
    stack->receive(0, {&burst, 1}, now);
  };
  inject_marked(ip_packet(peer4, ours4, 17, message));
  EXPECT_EQ(socket.waiting(), 1U);
  wire::Ipv4Header header;
  header.protocol = 17;
  header.more_fragments = true;
  inject_marked(ip_packet(header, peer4, ours4, Bytes(message.begin(), message.begin() + 64)));
  header.fragment_offset = 64;
  header.more_fragments = false;
  inject_marked(ip_packet(header, peer4, ours4, Bytes(message.begin() + 64, message.end())));
  EXPECT_EQ(socket.waiting(), 1U);
  EXPECT_EQ(udp->counters().malformed[wire_fault_index(wire::WireFault::udp_checksum)], 1U);
}

/// RFC 8200, 8.1: a device that takes a missing checksum for good decides nothing over IPv6.
TEST_F(Udp, AMissingChecksumIsRefusedOverIpv6WhateverTheDeviceSays) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ours6, 7}));
  for (const auto& [from, to] : {std::pair{peer4, ours4}, {peer6, ours6}}) {
    Bytes message = udp_message({from, 1}, {to, 7}, counted(20));
    message[6] = message[7] = 0;
    Bytes frame(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = our_mac,
                         .source = peer_mac,
                         .type = from.is_v4() ? wire::EtherType::ipv4 : wire::EtherType::ipv6},
                        std::as_writable_bytes(std::span(frame)));
    PacketPtr marked = make_packet(*pool, join({frame, ip_packet(from, to, 17, message)}));
    marked->set(PacketMark::transport_checksum_good);
    Packet* const burst = marked.take();
    stack->receive(0, {&burst, 1}, now);
  }
  EXPECT_EQ(four.waiting(), 1U);
  EXPECT_EQ(six.waiting(), 0U);
  EXPECT_EQ(udp->counters().malformed[wire_fault_index(wire::WireFault::udp_checksum)], 1U);
}

TEST_F(Udp, MalformedDatagramsAreCounted) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ip("::"), 7}));
  Bytes no_checksum = udp_message({peer6, 1}, {ours6, 7}, counted(20));
  no_checksum[6] = no_checksum[7] = 0;
  inject_ip(ip_packet(peer6, ours6, 17, no_checksum));
  inject_ip(ip_packet(peer6, ours6, 17, counted(7)));
  const auto& malformed = udp->counters().malformed;
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_checksum)], 1U);
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_truncated)], 1U);
  EXPECT_EQ(socket.waiting(), 0U);
}

// N4: checksums that a local sender has left to a NIC, which isn't there.
TEST_F(Udp, N4PartialChecksumsHaveAReasonOfTheirOwn) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ours6, 7}));
  for (const auto& [from, to] : {std::pair{peer4, ours4}, {peer6, ours6}}) {
    Bytes message = udp_message({from, 1}, {to, 7}, counted(20));
    const std::uint16_t partial = wire::partial_checksum(from, to, 17, message.size());
    message[6] = static_cast<std::uint8_t>(partial >> 8);
    message[7] = static_cast<std::uint8_t>(partial);
    inject_ip(ip_packet(from, to, 17, message));
    message[7] ^= 1;
    inject_ip(ip_packet(from, to, 17, message));
  }
  const auto& malformed = udp->counters().malformed;
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_checksum_partial)], 2U);
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_checksum)], 2U);
  EXPECT_EQ(four.waiting() + six.waiting(), 0U);
}

TEST_F(Udp, N4PartialChecksumsAreTakenWhereTheyAreTrusted) {
  udp.reset();
  make_stack();
  udp.emplace(*stack, *pool, seed(), UdpOptions{.trust_partial_checksums = true});
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ours6, 7}));
  for (const auto& [from, to] : {std::pair{peer4, ours4}, {peer6, ours6}}) {
    Bytes message = udp_message({from, 1}, {to, 7}, counted(20));
    const std::uint16_t partial = wire::partial_checksum(from, to, 17, message.size());
    message[6] = static_cast<std::uint8_t>(partial >> 8);
    message[7] = static_cast<std::uint8_t>(partial);
    inject_ip(ip_packet(from, to, 17, message));
    message[7] ^= 1;
    inject_ip(ip_packet(from, to, 17, message));
  }
  const auto& malformed = udp->counters().malformed;
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_checksum_partial)], 2U);
  EXPECT_EQ(malformed[wire_fault_index(wire::WireFault::udp_checksum)], 2U);
  EXPECT_EQ(four.waiting(), 1U);
  EXPECT_EQ(six.waiting(), 1U);
}

TEST_F(Udp, QueuesAreBoundedInNumberAndBytes) {
  UdpSocket few(*udp, {.datagrams = 3});
  const std::size_t cost = packet(0)->true_size();
  UdpSocket small(*udp, {.bytes = cost * 5});
  ASSERT_TRUE(few.bind({ours4, 7}));
  ASSERT_TRUE(small.bind({ours4, 8}));
  for (int i = 0; i < 10; ++i) {
    inject_udp({peer4, 1}, {ours4, 7}, counted(1));
    inject_udp({peer4, 1}, {ours4, 8}, counted(1));
  }
  EXPECT_EQ(few.waiting(), 3U);
  EXPECT_EQ(small.waiting(), 5U);
  EXPECT_EQ(small.waiting_bytes(), cost * 5);
  EXPECT_EQ(few.stats().dropped, 7U);
  EXPECT_EQ(udp->counters().queue_full, 12U);
  while (small.receive()) {
  }
  EXPECT_EQ(small.waiting_bytes(), 0U);
  EXPECT_TRUE(sent().empty());
}

TEST_F(Udp, QueuesTakeNothingWhenThePoolRunsDry) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ours4, 7}));
  std::vector<PacketPtr> busy;
  while (pool->available() > pool->capacity() / 16) busy.emplace_back(pool->allocate());
  inject_udp({peer4, 1}, {ours4, 7}, counted(1));
  EXPECT_EQ(socket.waiting(), 0U);
  EXPECT_EQ(socket.stats().dropped, 1U);
  EXPECT_EQ(udp->counters().pool_low, 1U);
  busy.resize(busy.size() - 2);
  inject_udp({peer4, 1}, {ours4, 7}, counted(1));
  EXPECT_EQ(socket.waiting(), 1U);
}

TEST_F(Udp, TheClosestSocketGetsTheDatagram) {
  UdpSocket any(*udp);
  UdpSocket connected(*udp);
  ASSERT_TRUE(connected.bind({ip("0.0.0.0"), 7}));
  ASSERT_TRUE(connected.connect({peer4, 1}));
  EXPECT_FALSE(any.bind({ip("0.0.0.0"), 7}));
  inject_udp({peer4, 1}, {ours4, 7}, counted(1));
  inject_udp({peer4, 2}, {ours4, 7}, counted(1));  // Not from its peer.
  inject_udp({far4, 1}, {ours4, 7}, counted(1));
  EXPECT_EQ(connected.waiting(), 1U);
  EXPECT_EQ(udp->counters().no_port, 2U);
  sent();
  UdpSocket bound(*udp);
  ASSERT_TRUE(any.bind({ip("0.0.0.0"), 8}));
  EXPECT_FALSE(bound.bind({ours4, 8}));
  ASSERT_TRUE(bound.bind({ours4, 9}));
  inject_udp({peer4, 1}, {ip("10.0.0.255"), 8}, counted(1));
  inject_udp({peer4, 1}, {ip("10.0.0.255"), 9}, counted(1));
  EXPECT_EQ(any.waiting(), 1U);
  EXPECT_EQ(bound.waiting(), 0U);
}

/// RFC 6056.
TEST_F(Udp, FreePortsAreDrawnAtRandomUntilThereAreNone) {
  std::vector<std::unique_ptr<UdpSocket>> sockets;
  const auto bind = [&](std::uint16_t port) {
    sockets.push_back(std::make_unique<UdpSocket>(*udp, UdpSocketOptions{.datagrams = 1}));
    return sockets.back()->bind({ours4, port}).has_value();
  };
  std::vector<std::uint16_t> drawn;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(bind(0));
    drawn.push_back(sockets.back()->local().port);
    EXPECT_GE(drawn.back(), 49'152);
  }
  EXPECT_FALSE(std::ranges::is_sorted(drawn));
  std::ranges::sort(drawn);
  EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());
  for (unsigned port = 49'152; port < 65'536; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    ASSERT_NE(bind(number), std::ranges::binary_search(drawn, number));
  }
  UdpSocket late(*udp);
  EXPECT_EQ(late.bind({ours4, 0}).error().code, ErrorCode::resource_exhausted);
  sockets.pop_back();
  EXPECT_TRUE(late.bind({ours4, 0}));
  EXPECT_EQ(late.local().port, 65'535);
}

TEST_F(Udp, SocketsThatDieFreeTheirPort) {
  std::optional<UdpSocket> socket(std::in_place, *udp);
  ASSERT_TRUE(socket->bind({ours4, 7}));
  inject_udp({peer4, 1}, {ours4, 7}, counted(1));
  socket.emplace(*udp);
  EXPECT_TRUE(socket->bind({ours4, 7}));
  EXPECT_FALSE(socket->receive());
}

TEST_F(Udp, BindAndConnectSayWhatIsWrong) {
  UdpSocket socket(*udp);
  EXPECT_EQ(socket.bind({peer4, 7}).error().code, ErrorCode::not_found);
  EXPECT_EQ(socket.connect({peer4, 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(socket.connect({ip("0.0.0.0"), 7}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(socket.send({}, now), UdpSend::not_connected);
  ASSERT_TRUE(socket.connect({peer4, 7}));
  EXPECT_EQ(socket.local().address, ours4);
  EXPECT_GE(socket.local().port, 49'152);
  EXPECT_EQ(socket.bind({ours4, 7}).error().code, ErrorCode::already_exists);
  EXPECT_EQ(socket.connect({peer6, 7}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(socket.send({}, now), UdpSend::sent);
}

/// RFC 1122, 4.1.3.3.
TEST_F(Udp, ConnectedSocketsTellWhatIcmpSaysOnce) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.connect({far4, 7}));
  inject_error({.type = 3, .code = 3}, socket.local(), {far4, 7});
  EXPECT_EQ(socket.take_trouble(), IpTrouble::port_unreachable);
  EXPECT_EQ(socket.take_trouble(), std::nullopt);
  // Of another peer, another port of ours, or to a socket that talks to anybody.
  inject_error({.type = 3, .code = 3}, socket.local(), {far4, 8});
  inject_error({.type = 3, .code = 3}, {ours4, 5}, {far4, 7});
  UdpSocket open(*udp);
  ASSERT_TRUE(open.bind({ours4, 99}));
  inject_error({.type = 3, .code = 3}, {ours4, 99}, {far4, 7});
  EXPECT_EQ(socket.take_trouble(), std::nullopt);
  EXPECT_EQ(open.take_trouble(), std::nullopt);
  EXPECT_EQ(udp->counters().complaints, 1U);
  EXPECT_EQ(udp->counters().complaints_ignored, 3U);
}

TEST_F(Udp, NeighboursThatDoNotAnswerAreTold) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.connect({ip("10.0.0.77"), 7}));
  EXPECT_EQ(socket.send({}, now), UdpSend::sent);
  pass(4s);
  EXPECT_EQ(socket.take_trouble(), IpTrouble::host_unreachable);
  sent();
}

/// RFC 8201: only who can have sent it may shrink the path.
// N5: ICMP's complaints.
TEST_F(Udp, N5PacketTooBigShrinksThePathOfWhatWeSend) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ip("::"), 7}));
  inject_error({.type = 2, .detail = 1'300}, {ours6, 8}, {far6, 9});
  EXPECT_EQ(stack->path_mtu(ours6, far6), 1'500U);
  inject_error({.type = 2, .detail = 1'300}, {ours6, 7}, {far6, 9});
  EXPECT_EQ(stack->path_mtu(ours6, far6), 1'300U);
  EXPECT_EQ(send_from(socket, {far6, 9}, counted(1'400)), UdpSend::sent);
  for (const SentFrame& frame : sent()) EXPECT_LE(frame.payload().size(), 1'300U);
  // IPv4's may be fragmented on their way.
  UdpSocket four(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  inject_error({.type = 3, .code = 4, .detail = 600}, {ours4, 7}, {far4, 9});
  EXPECT_EQ(stack->path_mtu(ours4, far4), 1'500U);
}

TEST_F(Udp, N5InventedPathsDisplaceNone) {
  make_stack({.path_mtus = 4});
  udp.emplace(*stack, *pool, seed());
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ip("::"), 7}));
  stack->learn_path_mtu(ours6, far6, 1'400, now);
  const auto invented = [](std::uint8_t i) {
    return IpAddress::v6({0x20, 1, 0xd, 0xb8, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 1, i});
  };
  // What the link says already takes no place.
  for (std::uint8_t i = 0; i < 8; ++i) stack->learn_path_mtu(ours6, invented(i), 1'500, now);
  EXPECT_EQ(stack->path_mtu(ours6, far6), 1'400U);
  for (std::uint8_t i = 0; i < 8; ++i) {
    inject_error({.type = 2, .detail = 1'300}, {ours6, 7}, {invented(i), 9});
  }
  EXPECT_EQ(stack->path_mtu(ours6, invented(0)), 1'300U);
  EXPECT_EQ(stack->path_mtu(ours6, invented(7)), 1'500U);
  EXPECT_EQ(stack->path_mtu(ours6, far6), 1'400U);
  // Who talks to one peer is told of his path alone.
  UdpSocket connected(*udp);
  ASSERT_TRUE(connected.connect({invented(7), 9}));
  inject_error({.type = 2, .detail = 1'300}, connected.local(), {invented(7), 9});
  EXPECT_EQ(stack->path_mtu(ours6, invented(7)), 1'300U);
}

TEST_F(Udp, WhatIsNobodysIsNoDestination) {
  UdpSocket four(*udp);
  UdpSocket six(*udp);
  ASSERT_TRUE(four.bind({ours4, 7}));
  ASSERT_TRUE(six.bind({ours6, 7}));
  for (const char* nobody : {"0.0.0.0", "0.1.2.3", "240.0.0.1"}) {
    EXPECT_EQ(send_from(four, {ip(nobody), 9}, counted(1)), UdpSend::no_destination) << nobody;
    EXPECT_FALSE(UdpSocket(*udp).connect({ip(nobody), 9})) << nobody;
  }
  for (const char* nobody : {"::", "::ffff:10.0.0.9"}) {
    EXPECT_EQ(send_from(six, {ip(nobody), 9}, counted(1)), UdpSend::no_destination) << nobody;
  }
  EXPECT_EQ(send_from(four, {peer4, 0}, counted(1)), UdpSend::no_destination);
  EXPECT_TRUE(sent().empty());
  for (const char* many : {"255.255.255.255", "10.0.0.255", "224.0.0.251"}) {
    EXPECT_EQ(send_from(four, {ip(many), 9}, counted(1)), UdpSend::sent) << many;
  }
  EXPECT_EQ(sent().size(), 3U);
}

/// RFC 1122, 4.1.3.5: the answer comes from where the request went.
TEST_F(Udp, ASocketOfAnyAddressAnswersFromTheOneAskedAt) {
  make_bare_stack();
  const IpAddress second = ip("10.0.0.2");
  const std::array addresses{IpPrefix{ours4, 24}, IpPrefix{second, 24}, IpPrefix{ours6, 64}};
  ASSERT_TRUE(stack->add_interface(
      {.mac = our_mac, .addresses = addresses, .check_duplicates = false}, now));
  udp.emplace(*stack, *pool, seed());
  meet_neighbours();
  UdpSocket any(*udp);
  UdpSocket bound(*udp);
  ASSERT_TRUE(any.bind({ip("0.0.0.0"), 7}));
  ASSERT_TRUE(bound.bind({ours4, 8}));
  inject_udp({peer4, 1}, {second, 7}, counted(1));
  const std::optional<UdpDatagram> got = any.receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(any.send_to({}, got->from, now, got->to), UdpSend::sent);
  EXPECT_EQ(IpAddress::v4(sent_one().v4().source), second);
  EXPECT_EQ(any.send_to({}, got->from, now), UdpSend::sent);
  EXPECT_EQ(IpAddress::v4(sent_one().v4().source), ours4);
  for (const IpAddress& other : {peer4, ip("10.0.0.255"), ours6}) {
    EXPECT_EQ(any.send_to({}, got->from, now, other), UdpSend::not_ours);
  }
  EXPECT_EQ(bound.send_to({}, got->from, now, second), UdpSend::not_ours);
  EXPECT_EQ(bound.send_to({}, got->from, now, ours4), UdpSend::sent);
  EXPECT_EQ(sent().size(), 1U);
}

/// RFC 1122, 4.1.4.
TEST_F(Udp, SocketsChooseHopLimitAndTrafficClass) {
  UdpSocket socket(*udp, {.hop_limit = 9, .group_hop_limit = 5, .traffic_class = 0xb8});
  ASSERT_TRUE(socket.bind({ours4, 7}));
  EXPECT_EQ(send_from(socket, {peer4, 9}, counted(1)), UdpSend::sent);
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.v4().hop_limit, 9);
  EXPECT_EQ(frame.v4().traffic_class, 0xb8);
  EXPECT_EQ(send_from(socket, {ip("224.0.0.251"), 9}, counted(1)), UdpSend::sent);
  EXPECT_EQ(sent_one().v4().hop_limit, 5);
}

TEST_F(Udp, SendsToGroupsOnTheLinkAlone) {
  UdpSocket socket(*udp);
  ASSERT_TRUE(socket.bind({ours4, 7}));
  EXPECT_EQ(send_from(socket, {ip("224.0.0.251"), 5353}, counted(1)), UdpSend::sent);
  EXPECT_EQ(sent_one().v4().hop_limit, 1);
}

}  // namespace
}  // namespace pinion::test

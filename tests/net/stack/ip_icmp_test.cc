#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stack_world.h"

namespace pinion::test {
namespace {

class Icmp : public StackWorld {
 protected:
  [[nodiscard]] Bytes echo(const IpAddress& from, const IpAddress& to, std::size_t size) const {
    const auto type = static_cast<std::uint8_t>(from.is_v4() ? 8 : 128);
    const Bytes message =
        icmp_message({.type = type, .detail = 0x12345678}, from, to, counted(size));
    return ip_packet(from, to, from.is_v4() ? 1 : 58, message);
  }
  /// An error that quotes `quoted`.
  void inject_error(const wire::IcmpMessage& message, const Bytes& quoted, const IpAddress& from) {
    const IpAddress& to = from.is_v4() ? ours4 : ours6;
    inject_ip(ip_packet(from, to, from.is_v4() ? 1 : 58, icmp_message(message, from, to, quoted)));
  }
  static testing::AssertionResult quotes(const SentFrame& frame, const Bytes& packet,
                                         std::size_t most) {
    const auto quoted = frame.ip_payload().subspan(8);
    const auto original = std::as_bytes(std::span(packet));
    if (quoted.size() != std::min(packet.size(), most)) {
      return testing::AssertionFailure() << quoted.size() << " bytes";
    }
    return std::ranges::equal(quoted, original.first(quoted.size()))
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "other bytes";
  }
};

/// RFC 1122, 3.2.2.6; RFC 4443, 4.2.
// N6: ping, traceroute and UDP to closed ports.
TEST_F(Icmp, N6PingIsAnswered) {
  wire::Ipv4Header header;
  header.protocol = 1;
  header.traffic_class = 0x13;
  inject_ip(ip_packet(header, peer4, ours4,
                      icmp_message({.type = 8, .detail = 7}, peer4, ours4, counted(56))));
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.ethernet.destination, peer_mac);
  EXPECT_EQ(IpAddress::v4(frame.v4().source), ours4);
  EXPECT_EQ(IpAddress::v4(frame.v4().destination), peer4);
  EXPECT_EQ(frame.v4().hop_limit, 64);
  EXPECT_EQ(frame.v4().traffic_class, 0x10);  // Not what of congestion the request met.
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 0, .detail = 7}));
  EXPECT_TRUE(same(frame.ip_payload().subspan(8), counted(56)));

  inject_ip(echo(peer6, ours6, 56));
  frame = sent_one();
  EXPECT_EQ(IpAddress::v6(frame.v6().source), ours6);
  EXPECT_EQ(IpAddress::v6(frame.v6().destination), peer6);
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 129, .detail = 0x12345678}));
  EXPECT_EQ(stack->counters().echo_requests, 2U);
}

// N6: ping, traceroute and UDP to closed ports.
TEST_F(Icmp, N6PingOf64KiBIsAnsweredInFragments) {
  const Bytes whole = icmp_message({.type = 8, .detail = 7}, peer4, ours4, counted(65'507));
  wire::Ipv4Header header;
  header.protocol = 1;
  header.identification = 77;
  for (std::size_t at = 0; at < whole.size(); at += 1480) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t size = std::min<std::size_t>(1480, whole.size() - at);
    header.fragment_offset = static_cast<std::uint16_t>(at);
    header.more_fragments = at + size < whole.size();
    inject_ip(
        ip_packet(header, peer4, ours4, Bytes(begin, begin + static_cast<std::ptrdiff_t>(size))));
  }
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 45U);
  Bytes answer(whole.size());
  const std::uint16_t id = frames[0].v4().identification;
  for (const SentFrame& frame : frames) {
    const wire::Ipv4Header part = frame.v4();
    EXPECT_EQ(part.identification, id);
    EXPECT_LE(frame.payload().size(), 1500U);
    EXPECT_EQ(part.more_fragments, part.fragment_offset + part.payload_size < whole.size());
    std::memcpy(answer.data() + part.fragment_offset, frame.ip_payload().data(), part.payload_size);
  }
  EXPECT_EQ(answer[0], 0);
  EXPECT_TRUE(std::equal(answer.begin() + 4, answer.end(), whole.begin() + 4));
  EXPECT_EQ(wire::checksum_of(std::as_bytes(std::span(answer))), 0);
}

TEST_F(Icmp, PingToManyIsNotAnswered) {
  for (const char* to : {"10.0.0.255", "255.255.255.255", "224.0.0.1"}) {
    inject_ip(echo(peer4, ip(to), 8));
  }
  inject_ip(echo(peer6, ip("ff02::1"), 8));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().echo_to_group, 4U);
}

TEST_F(Icmp, PingWithAWrongChecksumIsNotAnswered) {
  for (Bytes packet : {echo(peer4, ours4, 9), echo(peer6, ours6, 9)}) {
    packet.back() ^= 1;
    inject_ip(packet);
  }
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().malformed[wire_fault_index(wire::WireFault::icmp_checksum)], 2U);
}

TEST_F(Icmp, WePingOurselves) {
  PacketPtr request =
      make_packet(*pool, icmp_message({.type = 8, .detail = 1}, ours4, ours4, counted(8)));
  stack->send(std::move(request),
              {.source = ours4, .destination = ours4, .protocol = IpProtocol::icmp}, now);
  stack->end_of_burst(now);
  EXPECT_EQ(stack->counters().echo_requests, 1U);
  EXPECT_TRUE(stack->pending());  // The reply, for the next turn.
  stack->end_of_burst(now);
  EXPECT_FALSE(stack->pending());
  EXPECT_EQ(stack->counters().icmp_ignored, 1U);
}

/// RFC 1122, 3.2.2.1: code 2, quoting as much as fits in 576 bytes.
TEST_F(Icmp, UnknownProtocolsAreRefused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{20}, std::size_t{1400}}) {
    wire::Ipv4Header header;
    header.protocol = 99;
    header.traffic_class = 0x0b;
    header.hop_limit = 3;
    const Bytes packet = ip_packet(header, peer4, ours4, counted(size));
    inject_ip(packet);
    const SentFrame frame = sent_one();
    EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 3, .code = 2}));
    EXPECT_EQ(frame.v4().traffic_class, 0xc8);
    EXPECT_LE(frame.payload().size(), 576U);
    EXPECT_TRUE(quotes(frame, packet, 576 - 28));
  }
  EXPECT_EQ(stack->counters().protocol_unknown, 3U);
}

/// RFC 8200, 4: code 1, with a pointer to what named the protocol; RFC 4443: up to 1,280 bytes.
TEST_F(Icmp, UnknownNextHeadersAreRefused) {
  const Bytes packet = ip_packet(peer6, ours6, 99, counted(1400));
  inject_ip(packet);
  SentFrame frame = sent_one();
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 4, .code = 1, .detail = 6}));
  EXPECT_EQ(frame.payload().size(), 1280U);
  EXPECT_TRUE(quotes(frame, packet, 1280 - 48));
  wire::Ipv6Header header;
  header.next_header = 60;
  inject_ip(ip_packet(header, peer6, ours6, join({{99, 0, 1, 4, 0, 0, 0, 0}, counted(8)})));
  frame = sent_one();
  EXPECT_EQ(frame.icmp(), (wire::IcmpMessage{.type = 4, .code = 1, .detail = 40}));
  // "No next header" is none to refuse.
  inject_ip(ip_packet(peer6, ours6, 59, {}));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stack->counters().no_next_header, 1U);
}

/// RFC 8200, 4.2: by the highest bits of the option's type.
TEST_F(Icmp, UnknownOptionsAreRefusedAsTheyAsk) {
  const auto with_option = [this](std::uint8_t type, const IpAddress& to) {
    wire::Ipv6Header header;
    header.next_header = 60;
    inject_ip(
        ip_packet(header, peer6, to, join({{kTestProtocol, 0, type, 4, 0, 0, 0, 0}, counted(8)})));
  };
  with_option(0x3e, ours6);
  EXPECT_EQ(transport.received.size(), 1U);
  with_option(0x7e, ours6);
  EXPECT_TRUE(sent().empty());
  with_option(0xbe, ours6);
  EXPECT_EQ(sent_one().icmp(), (wire::IcmpMessage{.type = 4, .code = 2, .detail = 42}));
  with_option(0xfe, ours6);
  EXPECT_EQ(sent_one().icmp(), (wire::IcmpMessage{.type = 4, .code = 2, .detail = 42}));
  // To many, only the first of the two is answered.
  with_option(0xfe, all_nodes());
  EXPECT_TRUE(sent().empty());
  with_option(0xbe, all_nodes());
  const SentFrame frame = sent_one();
  EXPECT_EQ(frame.icmp().code, 2);
  EXPECT_EQ(IpAddress::v6(frame.v6().source), ours6);
  EXPECT_EQ(transport.received.size(), 1U);
}

/// RFC 1122, 3.2.2; RFC 4443, 2.4 (e).
TEST_F(Icmp, NoErrorsAboutErrorsBroadcastsAndNobody) {
  inject_ip(ip_packet(peer4, ip("10.0.0.255"), 99, counted(20)));
  inject_ip(ip_packet(peer4, ip("224.0.0.1"), 99, counted(20)));
  inject_ip(ip_packet(peer6, all_nodes(), 99, counted(20)));
  EXPECT_EQ(stack->counters().icmp_not_answered, 3U);
  // An ICMPv6 error with an unknown option in front of it.
  wire::Ipv6Header header;
  header.next_header = 60;
  const Bytes error = icmp_message({.type = 1}, peer6, ours6, counted(48));
  inject_ip(ip_packet(header, peer6, ours6, join({{58, 0, 0xbe, 4, 0, 0, 0, 0}, error})));
  // A redirect, which is none but as good as one, and a first fragment of either.
  for (const Bytes& message : {error, icmp_message({.type = 137}, peer6, ours6, counted(48))}) {
    inject_ip(ip_packet(header, peer6, ours6, join({{58, 0, 0xbe, 4, 0, 0, 0, 0}, message})));
    header.next_header = 44;
    const Bytes fragment = {60, 0, 0, 1, 0, 0, 0, message[0]};
    const Bytes options = {58, 0, 1, 4, 0, 0, 0, 0};
    inject_ip(ip_packet(header, peer6, ours6, join({fragment, options, message})));
    header.next_header = 60;
  }
  EXPECT_EQ(stack->reassembly().datagrams(), 2U);
  // Later fragments alone.
  wire::Ipv4Header later;
  later.protocol = 99;
  later.fragment_offset = 64;
  inject_ip(ip_packet(later, peer4, ours4, counted(20)));
  pass(59s, 1s);
  sent();
  meet_neighbours();
  pass(2s, 1s);
  EXPECT_TRUE(sent_errors().empty());
  EXPECT_EQ(stack->counters().reassembly_timeout, 3U);
}

// N6: ping, traceroute and UDP to closed ports.
TEST_F(Icmp, N6ErrorsAreRateLimited) {
  make_stack({.icmp_errors = {.per_second = 100, .burst = 10}});
  for (int i = 0; i < 1'000; ++i) inject_ip(ip_packet(peer4, ours4, 99, counted(20)));
  const std::size_t at_once = sent().size();
  EXPECT_LE(at_once, 10U);
  EXPECT_GE(at_once, 4U);
  EXPECT_EQ(stack->counters().icmp_rate_limited + at_once, 1'000U);
  pass(1s);
  for (int i = 0; i < 1'000; ++i) inject_ip(ip_packet(peer6, ours6, 99, counted(20)));
  EXPECT_GE(sent().size(), 4U);
}

TEST_F(Icmp, ErrorsAreTakenToTheTransportTheyQuote) {
  struct Case {
    int type, code;
    IpTrouble trouble;
  };
  const Bytes ours = ip_packet(ours4, far4, kTestProtocol, counted(40));
  const std::vector<Case> cases4 = {
      {3, 0, IpTrouble::net_unreachable},      {3, 1, IpTrouble::host_unreachable},
      {3, 2, IpTrouble::protocol_unreachable}, {3, 3, IpTrouble::port_unreachable},
      {3, 4, IpTrouble::packet_too_big},       {3, 5, IpTrouble::host_unreachable},
      {3, 6, IpTrouble::net_unreachable},      {3, 7, IpTrouble::host_unreachable},
      {3, 9, IpTrouble::prohibited},           {3, 10, IpTrouble::prohibited},
      {3, 11, IpTrouble::net_unreachable},     {3, 12, IpTrouble::host_unreachable},
      {3, 13, IpTrouble::prohibited},          {11, 0, IpTrouble::time_exceeded},
      {11, 1, IpTrouble::time_exceeded},       {12, 0, IpTrouble::parameter_problem}};
  for (const Case& one : cases4) {
    inject_error(
        {.type = static_cast<std::uint8_t>(one.type), .code = static_cast<std::uint8_t>(one.code)},
        ours, ip("198.51.100.1"));
    ASSERT_FALSE(transport.complaints.empty());
    const auto& said = transport.complaints.back();
    EXPECT_EQ(said.complaint.trouble, one.trouble) << one.type << "/" << one.code;
    EXPECT_EQ(said.complaint.source, ours4);
    EXPECT_EQ(said.complaint.destination, far4);
    EXPECT_EQ(said.quoted, counted(40));
  }
  EXPECT_EQ(transport.complaints.size(), cases4.size());

  const Bytes ours_v6 = ip_packet(ours6, far6, kTestProtocol, counted(40));
  const std::vector<Case> cases6 = {
      {1, 0, IpTrouble::net_unreachable},      {1, 1, IpTrouble::prohibited},
      {1, 2, IpTrouble::host_unreachable},     {1, 3, IpTrouble::host_unreachable},
      {1, 4, IpTrouble::port_unreachable},     {1, 5, IpTrouble::prohibited},
      {1, 6, IpTrouble::prohibited},           {2, 0, IpTrouble::packet_too_big},
      {3, 0, IpTrouble::time_exceeded},        {4, 0, IpTrouble::parameter_problem},
      {4, 1, IpTrouble::protocol_unreachable}, {100, 0, IpTrouble::net_unreachable},
      {127, 9, IpTrouble::net_unreachable}};
  transport.complaints.clear();
  for (const Case& one : cases6) {
    inject_error({.type = static_cast<std::uint8_t>(one.type),
                  .code = static_cast<std::uint8_t>(one.code),
                  .detail = 1300},
                 ours_v6, far6);
    ASSERT_FALSE(transport.complaints.empty());
    EXPECT_EQ(transport.complaints.back().complaint.trouble, one.trouble)
        << one.type << "/" << one.code;
    EXPECT_EQ(transport.complaints.back().complaint.mtu,
              one.trouble == IpTrouble::packet_too_big ? 1300U : 0U);
  }
  EXPECT_EQ(transport.complaints.size(), cases6.size());
  EXPECT_TRUE(sent().empty());
}

/// RFC 1191, 3 and 7.1.
// N5: ICMP's complaints.
TEST_F(Icmp, N5FragmentationNeededSaysTheMtuOrLetsItBeGuessed) {
  wire::Ipv4Header header;
  header.protocol = kTestProtocol;
  Bytes ours = ip_packet(header, ours4, far4, counted(1480));
  ours.resize(28);  // What a router of old quotes.
  inject_error({.type = 3, .code = 4, .detail = 1400}, ours, far4);
  inject_error({.type = 3, .code = 4, .detail = 0}, ours, far4);
  ASSERT_EQ(transport.complaints.size(), 2U);
  EXPECT_EQ(transport.complaints[0].complaint.mtu, 1400U);
  EXPECT_EQ(transport.complaints[1].complaint.mtu, 1492U);
  EXPECT_EQ(transport.complaints[1].quoted.size(), 8U);
  // The IP layer believes nothing by itself.
  EXPECT_EQ(stack->path_mtu(ours4, far4), 1500U);
}

TEST_F(Icmp, ErrorsAboutWhatWeDidNotSendAreDropped) {
  inject_error({.type = 3, .code = 1}, ip_packet(peer4, far4, kTestProtocol, counted(40)), far4);
  inject_error({.type = 3, .code = 1}, ip_packet(ours4, far4, 99, counted(40)), far4);
  EXPECT_EQ(stack->counters().icmp_not_ours, 2U);
  inject_error({.type = 3, .code = 1}, counted(12), far4);
  EXPECT_TRUE(transport.complaints.empty());
}

/// RFC 5927, 4: an error comes to where its datagram came from, which keeps what we say to
/// ourselves, or from another address of ours, out of a stranger's reach.
TEST_F(Icmp, ErrorsThatComeToAnotherAddressThanTheyQuoteAreDropped) {
  const IpAddress self = ip("127.0.0.1");
  inject_error({.type = 3, .code = 3}, ip_packet(self, self, kTestProtocol, counted(40)), peer4);
  inject_error({.type = 1, .code = 4}, ip_packet(ip("::1"), ip("::1"), kTestProtocol, counted(40)),
               peer6);
  inject_error({.type = 1, .code = 4},
               ip_packet(link_local_of(our_mac), peer6, kTestProtocol, counted(40)), peer6);
  // To a group nobody answers.
  const Bytes quoted = ip_packet(ours4, far4, kTestProtocol, counted(40));
  for (const char* to : {"10.0.0.255", "224.0.0.1"}) {
    const Bytes message = icmp_message({.type = 3, .code = 3}, peer4, ip(to), quoted);
    inject_ip(ip_packet(peer4, ip(to), 1, message));
  }
  EXPECT_EQ(stack->counters().icmp_not_ours, 5U);
  EXPECT_TRUE(transport.complaints.empty());
}

/// RFC 6633; RFC 1122, 3.2.2.2, of which a host without a route cache has no use.
TEST_F(Icmp, RedirectsAndSourceQuenchAreNotFollowed) {
  const Bytes ours = ip_packet(ours4, far4, kTestProtocol, counted(40));
  inject_error({.type = 5, .code = 1, .detail = 0x0a000009}, ours, ip("10.0.0.254"));
  inject_error({.type = 4}, ours, ip("10.0.0.254"));
  inject_error({.type = 137}, counted(40), ip("fe80::fe"));
  EXPECT_EQ(stack->counters().icmp_redirect, 2U);
  EXPECT_EQ(stack->counters().icmp_ignored, 1U);
  EXPECT_TRUE(transport.complaints.empty());
}

}  // namespace
}  // namespace pinion::test

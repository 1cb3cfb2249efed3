#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "stack_world.h"

namespace pinion::test {
namespace {

/// Packets of several segments, as devices give them whose MTU is above their buffers.
class Chains : public StackWorld {
 protected:
  /// What the packets of the pool hold in one segment.
  [[nodiscard]] std::size_t room() { return packet(0)->tailroom(); }

  void inject_chain(const std::vector<Bytes>& parts) {
    Packet* const burst = make_chain(*pool, parts).take();
    stack->receive(0, {&burst, 1}, now);
  }
  /// A frame around `packet`, cut into segments that are filled.
  void inject_cut(const Bytes& packet) {
    const bool v4 = packet[0] >> 4 == 4;
    const Bytes frame =
        join({ethernet(v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6), packet});
    std::vector<Bytes> parts;
    for (std::size_t at = 0; at < frame.size(); at += room()) {
      const auto begin = frame.begin() + static_cast<std::ptrdiff_t>(at);
      const std::size_t size = std::min(room(), frame.size() - at);
      parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
    inject_chain(parts);
  }
  [[nodiscard]] Bytes ethernet(wire::EtherType type) const {
    Bytes header(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = our_mac, .source = peer_mac, .type = type},
                        std::as_writable_bytes(std::span(header)));
    return header;
  }
};

/// A header of destination options of 1,864 bytes, all to be passed over.
Bytes long_options(std::uint8_t next_header) {
  Bytes options = {next_header, 232};
  for (const std::size_t size : {257U, 257U, 257U, 257U, 257U, 257U, 257U, 63U}) {
    options.push_back(0x1e);
    options.push_back(static_cast<std::uint8_t>(size - 2));
    options.resize(options.size() + size - 2);
  }
  return options;
}

/// RFC 8504, 5.3: a host limits what it takes of extension headers.
TEST_F(Chains, HeadersThatFillASegmentAreRefused) {
  wire::Ipv6Header header;
  header.next_header = 60;
  const Bytes options = long_options(kTestProtocol);
  ASSERT_EQ(options.size(), 1'864U);
  inject_cut(ip_packet(header, peer6, ours6, join({options, counted(102)})));
  EXPECT_EQ(stack->counters().header_split, 1U);
  EXPECT_TRUE(transport.received.empty());
  // Where the transport's header still fits behind them, they are passed over.
  const Bytes whole =
      join({ethernet(wire::EtherType::ipv6),
            ip_packet(header, peer6, ours6,
                      join({{kTestProtocol, 0, 1, 4, 0, 0, 0, 0}, counted(2'000)}))});
  const auto cut = whole.begin() + 70;
  inject_chain(
      {Bytes(whole.begin(), cut), Bytes(cut, cut + 1'000), Bytes(cut + 1'000, whole.end())});
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, counted(2'000));
}

TEST_F(Chains, ManyShortSegmentsBehindLongHeadersAreRefused) {
  wire::Ipv6Header header;
  header.next_header = 60;
  const Bytes frame =
      join({ethernet(wire::EtherType::ipv6),
            ip_packet(header, peer6, ours6, join({long_options(kTestProtocol), counted(400)}))});
  std::vector<Bytes> parts{Bytes(frame.begin(), frame.begin() + 1'918)};
  for (auto at = frame.begin() + 1'918; at != frame.end(); at += 4) parts.emplace_back(at, at + 4);
  inject_chain(parts);
  EXPECT_EQ(stack->counters().header_split, 1U);
  EXPECT_TRUE(transport.received.empty());
}

/// RFC 1122, 3.3.2.
TEST_F(Chains, FragmentsLongerThanASegmentAreReassembled) {
  const Bytes whole = counted(15'000);
  const auto piece = [&whole](std::size_t at) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at);
    return Bytes(begin, begin + 5'000);
  };
  for (const std::size_t at : {5'000U, 0U, 10'000U}) {
    wire::Ipv4Header four;
    four.protocol = kTestProtocol;
    four.fragment_offset = static_cast<std::uint16_t>(at);
    four.more_fragments = at < 10'000;
    inject_cut(ip_packet(four, peer4, ours4, piece(at)));
    Bytes fragment(wire::Ipv6Fragment::kSize);
    wire::emit_ipv6_fragment({.offset = static_cast<std::uint16_t>(at), .more = at < 10'000},
                             kTestProtocol, std::as_writable_bytes(std::span(fragment)));
    wire::Ipv6Header six;
    six.next_header = 44;
    inject_cut(ip_packet(six, peer6, ours6, join({fragment, piece(at)})));
  }
  EXPECT_EQ(stack->counters().header_split, 0U);
  ASSERT_EQ(transport.received.size(), 2U);
  for (const auto& one : transport.received) EXPECT_EQ(one.bytes, whole);
  EXPECT_EQ(stack->reassembly().bytes(), 0U);
}

TEST_F(Chains, FragmentsThatWaitCountWithAllTheirSegments) {
  wire::Ipv4Header header;
  header.protocol = kTestProtocol;
  header.more_fragments = true;
  inject_cut(ip_packet(header, peer4, ours4, counted(5'000)));
  EXPECT_EQ(stack->reassembly().bytes(), 3 * packet(0)->true_size());
  pass(61s, 1s);
  EXPECT_EQ(stack->reassembly().bytes(), 0U);
  EXPECT_EQ(sent_errors().size(), 1U);
}

/// One that somebody else holds is copied.
TEST_F(Chains, FragmentsThatAreSharedAreReassembled) {
  wire::Ipv4Header header;
  header.protocol = kTestProtocol;
  header.more_fragments = true;
  for (const std::size_t at : {0U, 64U}) {
    header.fragment_offset = static_cast<std::uint16_t>(at);
    header.more_fragments = at == 0;
    PacketPtr frame = make_packet(*pool, join({ethernet(wire::EtherType::ipv4),
                                               ip_packet(header, peer4, ours4, counted(64))}));
    const PacketPtr held(pool->view(*frame, 0, frame->size()));
    Packet* const burst = frame.take();
    stack->receive(0, {&burst, 1}, now);
  }
  ASSERT_EQ(transport.received.size(), 1U);
  EXPECT_EQ(transport.received[0].bytes, join({counted(64), counted(64)}));
}

TEST_F(Chains, LongerThanTheDeviceSendsTheyAreCopied) {
  for (const std::size_t most : {1U, 3U, 30U}) {
    make_bare_stack();
    ASSERT_TRUE(stack->add_interface({.mac = our_mac,
                                      .max_segments = most,
                                      .addresses = std::array{IpPrefix{ours4, 24}},
                                      .check_duplicates = false},
                                     now));
    meet_neighbours();
    for (const std::size_t segments : {1U, 2U, 3U, 20U}) {
      std::vector<Bytes> parts;
      for (std::size_t i = 0; i < segments; ++i) parts.push_back(counted(60));
      const Bytes whole = bytes_of(*make_chain(*pool, parts));
      stack->send(make_chain(*pool, parts), {.source = ours4, .destination = peer4}, now);
      std::array<Packet*, 2> burst{};
      ASSERT_EQ(stack->take(0, burst), 1U);
      const PacketPtr frame(burst[0]);
      EXPECT_LE(chain_length(*frame), most);
      EXPECT_EQ(chain_length(*frame), segments <= most ? segments : 1U);
      const Bytes bytes = bytes_of(*frame);
      EXPECT_TRUE(std::equal(bytes.begin() + 34, bytes.end(), whole.begin(), whole.end()));
    }
  }
}

}  // namespace
}  // namespace pinion::test

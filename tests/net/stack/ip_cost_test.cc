#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "../malloc_counter.h"
#include "stack/udp.h"
#include "stack_world.h"

namespace pinion::test {
namespace {

class IpCost : public StackWorld {
 protected:
  void add(const MacAddress& to, wire::EtherType type, const Bytes& payload) {
    Bytes header(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = to, .source = mac(20), .type = type},
                        std::as_writable_bytes(std::span(header)));
    frames.push_back(join({header, payload}));
  }
  void add_ip(const Bytes& packet) {
    const bool v4 = packet[0] >> 4 == 4;
    add(our_mac, v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6, packet);
  }
  void add_udp(const IpAddress& from, std::uint16_t port) {
    const IpAddress& to = from.is_v4() ? ours4 : ours6;
    add_ip(ip_packet(from, to, 17, udp_message({from, 1}, {to, port}, counted(100))));
  }
  /// One of everything that draws an answer or is kept for a while.
  void gather_frames() {
    add_udp(peer4, 7);
    add_udp(peer6, 9);  // A closed port.
    add_ip(ip_packet(peer4, ours4, 1, icmp_message({.type = 8}, peer4, ours4, counted(1'400))));
    add_ip(ip_packet(peer4, ours4, 99, counted(20)));
    wire::Ipv4Header piece;
    piece.protocol = 99;
    piece.more_fragments = true;
    add_ip(ip_packet(piece, peer4, ours4, counted(64)));
    piece.identification = 1;
    add_ip(ip_packet(piece, peer4, ours4, counted(64)));
    piece.fragment_offset = 64;
    piece.more_fragments = false;
    add_ip(ip_packet(piece, peer4, ours4, counted(64)));
    Bytes request(wire::ArpMessage::kSize);
    wire::emit_arp({.sender_mac = mac(20), .sender = {10, 0, 0, 20}, .target = {10, 0, 0, 1}},
                   std::as_writable_bytes(std::span(request)));
    add(wire::kBroadcastMac, wire::EtherType::arp, request);
    const Bytes quoted = ip_packet(ours4, far4, 17, udp_message({ours4, 7}, {far4, 9}, {}));
    add_ip(ip_packet(far4, ours4, 1, icmp_message({.type = 3}, far4, ours4, quoted)));
  }
  void turn(UdpSocket& socket) {
    for (const Bytes& frame : frames) {
      Packet* const burst = make_packet(*pool, frame).take();
      stack->receive(0, {&burst, 1}, now);
    }
    const std::array<std::byte, 4'000> payload{};
    (void)socket.send_to(payload, {ip("10.0.0.20"), 9}, now);
    (void)socket.send_to(payload, {ip("10.0.0.77"), 9}, now);
    (void)socket.send_to(payload, {ours4, 7}, now);
    stack->end_of_burst(now);
    while (socket.receive()) {
    }
    std::array<Packet*, 64> out{};
    while (const std::size_t count = stack->take(0, out)) {
      for (std::size_t i = 0; i < count; ++i) out[i]->release();
    }
    pass(2s, 100ms);
  }

  std::vector<Bytes> frames;
};

TEST_F(IpCost, NothingIsAllocatedOncePacketsFlow) {
  if (!malloc_is_counted()) GTEST_SKIP() << "a sanitizer's malloc";
  UdpLayer udp(*stack, *pool, seed());
  UdpSocket socket(udp);
  ASSERT_TRUE(socket.bind({ip("0.0.0.0"), 7}));
  gather_frames();
  turn(socket);
  const std::uint64_t before = mallocs();
  for (int i = 0; i < 100; ++i) turn(socket);
  EXPECT_EQ(mallocs() - before, 0U);
  EXPECT_GE(stack->counters().reassembled, 101U);
  EXPECT_GT(stack->counters().icmp_errors_out, 101U);
  EXPECT_GT(stack->counters().reassembly_timeout, 0U);
  EXPECT_GT(stack->counters().neighbours_unreachable, 0U);
  EXPECT_GT(stack->counters().fragments_out, 202U);
}

}  // namespace
}  // namespace pinion::test

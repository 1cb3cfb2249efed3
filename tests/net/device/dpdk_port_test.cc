#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "device/dpdk_wait.h"
#include "dpdk_world.h"

// DPDK ports against the kernel at their other end.

namespace pinion::test {
namespace {

using Bytes = std::vector<std::byte>;

/// One that is a member of each test: a pool, a tap, and what the kernel sees of it.
class ATap : public ::testing::Test {
 protected:
  void SetUp() override {
    PINION_TEST_NEEDS_PORTS();
    open(DpdkPoolOptions{.packets = 1023}, "tap:ptap0");
  }
  void TearDown() override {
    port.reset();
    EXPECT_EQ(pool == nullptr ? 0 : pool->lent(), 0U) << "not given back";
    EXPECT_EQ(if_nametoindex("ptap0"), 0U) << "its interface is left behind";
  }
  void open(DpdkPoolOptions options, const std::string& name) {
    kernel.reset();
    port.reset();
    pool.reset();
    pool = make_pool(options);
    port = open_port(*pool, name);
    kernel = std::make_unique<KernelEnd>("ptap0");
  }

  std::unique_ptr<DpdkPacketPool> pool;
  std::unique_ptr<DpdkPort> port;
  std::unique_ptr<KernelEnd> kernel;
  Random random{seed()};
};

TEST_F(ATap, ReceivesWhatTheKernelSends) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    const Bytes frame = make_frame(random.between<std::size_t>(14, 1514), random.next());
    kernel->send(frame);
    const PacketPtr packet = receive(*port);
    ASSERT_TRUE(packet);
    ASSERT_EQ(bytes_of(*packet), frame);
    EXPECT_GE(packet->headroom(), kPacketHeadroom);
    EXPECT_FALSE(packet->shared());
    bytes += frame.size();
  }
  EXPECT_GE(port->stats().rx_packets, 100U);
  EXPECT_GE(port->stats().rx_bytes, bytes);
  EXPECT_EQ(port->stats().rx_dropped, 0U);
}

TEST_F(ATap, SendsWhatTheKernelReceives) {
  for (int i = 0; i < 100; ++i) {
    const Bytes frame = make_frame(random.between<std::size_t>(60, 1514), random.next());
    const std::size_t segments = random.between<std::size_t>(1, DpdkPort::kMaxTxSegments);
    ASSERT_TRUE(sent(*port, chain_with(*pool, frame, segments, random)));
    ASSERT_EQ(kernel->receive(), frame);
  }
  EXPECT_EQ(port->stats().tx_packets, 100U);
  EXPECT_EQ(port->stats().tx_dropped, 0U);
}

TEST_F(ATap, SendsAReceivedPacketBack) {
  for (int i = 0; i < 10; ++i) {
    Bytes frame = make_frame(1000, random.next());
    kernel->send(frame);
    PacketPtr packet = receive(*port);
    ASSERT_TRUE(packet);
    packet->remove_prefix(14);
    std::byte* const header = packet->prepend(14);
    ASSERT_NE(header, nullptr);
    std::swap_ranges(header, header + 6, header + 6);
    std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
    ASSERT_TRUE(sent(*port, std::move(packet)));
    ASSERT_EQ(kernel->receive(), frame);
  }
}

TEST_F(ATap, LeavesASegmentThatSomebodyHoldsToItsHolder) {
  const Bytes payload = make_frame(700, random.next());
  const PacketPtr kept = packet_with(*pool, payload);
  for (int i = 0; i < 3; ++i) {
    Bytes frame = make_frame(14, random.next());
    PacketPtr header = packet_with(*pool, frame);
    kept->add_reference();
    header->set_next_segment(kept.get());
    ASSERT_TRUE(sent(*port, std::move(header)));
    frame.insert(frame.end(), payload.begin(), payload.end());
    ASSERT_EQ(kernel->receive(), frame);
    EXPECT_FALSE(kept->shared());
    EXPECT_EQ(bytes_of(*kept), payload);
  }
}

TEST_F(ATap, SendsViewsOfWhatSomebodyKeeps) {
  const Bytes payload = make_frame(1000, random.next());
  PacketPtr kept = packet_with(*pool, payload);
  const std::size_t before = pool->lent();
  for (int i = 0; i < 10; ++i) {
    const std::size_t offset = random.between<std::size_t>(0, 500);
    const std::size_t size = random.between<std::size_t>(46, 500);
    Bytes frame = make_frame(14, random.next());
    PacketPtr header = packet_with(*pool, frame);
    header->set_next_segment(pool->view(*kept, offset, size));
    EXPECT_TRUE(kept->shared());
    ASSERT_TRUE(sent(*port, std::move(header)));
    const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(offset);
    frame.insert(frame.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(kernel->receive(), frame);
    EXPECT_FALSE(kept->shared());
    EXPECT_EQ(pool->lent(), before);
  }
  // The last view keeps the bytes, whoever goes first.
  PacketPtr whole(pool->view(*kept, 0, payload.size()));
  kept.reset();
  PacketPtr part(pool->view(*whole, 0, 100));
  whole.reset();
  EXPECT_EQ(bytes_of(*part), Bytes(payload.begin(), payload.begin() + 100));
  ASSERT_TRUE(sent(*port, std::move(part)));
  EXPECT_EQ(kernel->receive(), Bytes(payload.begin(), payload.begin() + 100));
  EXPECT_EQ(pool->lent(), before - 1);
}

TEST_F(ATap, CopiesPacketsOfAnotherPool) {
  const auto others = make_pool({.packets = 127});
  const Bytes frame = make_frame(1514, random.next());
  ASSERT_TRUE(sent(*port, chain_with(*others, frame, 5, random)));
  EXPECT_EQ(kernel->receive(), frame);
  EXPECT_EQ(others->lent(), 0U);

  PacketPtr mixed = packet_with(*pool, std::span(frame).first(100));
  mixed->set_next_segment(packet_with(*others, std::span(frame).subspan(100)).take());
  ASSERT_TRUE(sent(*port, std::move(mixed)));
  EXPECT_EQ(kernel->receive(), frame);
  EXPECT_EQ(others->lent(), 0U);
}

TEST_F(ATap, ReceivesInSegmentsWhatIsLargerThanABuffer) {
  open({.packets = 1023, .packet_size = 256}, "tap:ptap0");
  for (int i = 0; i < 20; ++i) {
    const Bytes frame = make_frame(random.between<std::size_t>(14, 1514), random.next());
    kernel->send(frame);
    PacketPtr packet = receive(*port);
    ASSERT_TRUE(packet);
    ASSERT_EQ(bytes_of(*packet), frame);
    EXPECT_EQ(packet->next_segment() != nullptr, frame.size() > 256);
    ASSERT_TRUE(sent(*port, std::move(packet)));
    ASSERT_EQ(kernel->receive(), frame);
  }
}

TEST_F(ATap, DropsWhatNoPortEverTakesAndSendsTheRest) {
  std::vector<Bytes> good;
  std::vector<Packet*> packets;
  for (int i = 0; i < 10; ++i) {
    good.push_back(make_frame(100, random.next()));
    packets.push_back(packet_with(*pool, good.back()).take());
    const Bytes long_frame = make_frame(1519, random.next());
    const Bytes short_frame = make_frame(13, random.next());
    packets.push_back(packet_with(*pool, long_frame).take());
    packets.push_back(packet_with(*pool, short_frame).take());
    packets.push_back(chain_with(*pool, good.back(), DpdkPort::kMaxTxSegments + 1, random).take());
  }
  EXPECT_EQ(port->tx_burst({}, packets), packets.size());
  for (const Bytes& frame : good) ASSERT_EQ(kernel->receive(), frame);
  EXPECT_EQ(port->stats().tx_packets, 10U);
  EXPECT_EQ(port->stats().tx_dropped, 30U);
}

TEST_F(ATap, SendsMoreThanOneBurst) {
  std::vector<Bytes> frames;
  std::vector<Packet*> packets;
  for (int i = 0; i < 150; ++i) {
    frames.push_back(make_frame(60, random.next()));
    packets.push_back(packet_with(*pool, frames.back()).take());
  }
  EXPECT_EQ(port->tx_burst({}, packets), packets.size());
  for (const Bytes& frame : frames) ASSERT_EQ(kernel->receive(), frame);
}

TEST_F(ATap, LeavesWhatThePortDoesNotTakeToTheCaller) {
  ASSERT_TRUE(shell("ip link set ptap0 down"));
  const Bytes frame = make_frame(200, random.next());
  std::vector<PacketPtr> packets;
  packets.push_back(chain_with(*pool, frame, 3, random));
  packets.push_back(packet_with(*pool, frame));
  const std::array<Packet*, 2> offered = {packets[0].get(), packets[1].get()};
  EXPECT_EQ(port->tx_burst({}, offered), 0U);
  EXPECT_EQ(bytes_of(*packets[0]), frame) << "the caller's, as it was";
  EXPECT_EQ(port->stats().tx_dropped, 0U);

  ASSERT_TRUE(shell("ip link set ptap0 up"));
  const KernelEnd again("ptap0");
  EXPECT_EQ(port->tx_burst({}, offered), 2U);
  for (PacketPtr& packet : packets) static_cast<void>(packet.take());
  EXPECT_EQ(again.receive(), frame);
  EXPECT_EQ(again.receive(), frame);
}

TEST_F(ATap, SendsNoMoreThanIsLeftOfAChainThatItRefused) {
  ASSERT_TRUE(shell("ip link set ptap0 down"));
  const Bytes frame = make_frame(200, random.next());
  PacketPtr head = packet_with(*pool, frame);
  head->set_next_segment(packet_with(*pool, make_frame(50, random.next())).take());
  Packet* const offered = head.get();
  EXPECT_EQ(port->tx_burst({}, std::span(&offered, 1)), 0U);
  const PacketPtr tail(head->next_segment());
  head->set_next_segment(nullptr);

  ASSERT_TRUE(shell("ip link set ptap0 up"));
  const KernelEnd again("ptap0");
  const std::size_t before = pool->lent();
  ASSERT_TRUE(sent(*port, std::move(head)));
  EXPECT_EQ(again.receive(), frame);
  EXPECT_EQ(pool->lent(), before - 1) << "the tail is the caller's";
}

TEST_F(ATap, LeavesACopyThatThePortDoesNotTakeToNobody) {
  const auto others = make_pool({.packets = 127});
  const std::size_t before = pool->lent();
  ASSERT_TRUE(shell("ip link set ptap0 down"));
  PacketPtr packet = packet_with(*others, make_frame(200, random.next()));
  Packet* const offered = packet.get();
  EXPECT_EQ(port->tx_burst({}, std::span(&offered, 1)), 0U);
  EXPECT_EQ(pool->lent(), before);
  EXPECT_EQ(others->lent(), 1U);
}

TEST_F(ATap, WaitsForAPoolThatIsEmpty) {
  const auto others = make_pool({.packets = 127});
  std::vector<PacketPtr> all;
  while (Packet* const packet = pool->allocate()) all.emplace_back(packet);
  const Bytes frame = make_frame(200, random.next());
  EXPECT_FALSE(sent(*port, packet_with(*others, frame))) << "no memory for a copy";
  kernel->send(frame);
  Packet* received = nullptr;
  EXPECT_EQ(port->rx_burst({}, std::span(&received, 1)), 0U);
  EXPECT_GE(port->stats().rx_dropped, 1U) << "lost, and counted";
  all.clear();
  kernel->send(frame);
  const PacketPtr packet = receive(*port);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), frame);
}

TEST_F(ATap, GivesTheKernelAnotherAddressThanItself) {
  const MacAddress mac = port->info().mac;
  EXPECT_EQ(mac[0] & 3U, 2U) << "of one host, assigned by no vendor";
  std::string text;
  for (const std::uint8_t byte : mac) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x:", byte);
    text += digits.data();
  }
  text.pop_back();
  EXPECT_FALSE(shell("ip link show ptap0 | grep -q " + text));

  open({.packets = 1023}, "tap:ptap0,mac=02:00:00:00:00:2a,mtu=1400");
  EXPECT_EQ(port->info().mac, (MacAddress{2, 0, 0, 0, 0, 42}));
  EXPECT_EQ(port->info().mtu, 1400U);
  EXPECT_TRUE(shell("ip link show ptap0 | grep -q 'mtu 1400 '"));
}

TEST_F(ATap, HasTheProcessSignalledForNoPacket) {
  ASSERT_GE(port->wait_descriptor(), 0);
  const int flags = fcntl(port->wait_descriptor(), F_GETFL);
  EXPECT_EQ(flags & O_ASYNC, 0);
  EXPECT_NE(flags & O_NONBLOCK, 0);
}

TEST_F(ATap, HasFramesAsLongAsItsDriverTakes) {
  open({.packets = 1023}, "tap:ptap0,mtu=1504");
  const Bytes frame = make_frame(1518, random.next());
  kernel->send(frame);
  PacketPtr packet = receive(*port);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), frame);
  ASSERT_TRUE(sent(*port, std::move(packet)));
  EXPECT_EQ(kernel->receive(), frame);
}

TEST_F(ATap, CountsWhatTheKernelFoundNoRoomFor) {
  const Bytes frame = make_frame(60, random.next());
  constexpr std::uint64_t kSent = 3000;  // Its queue is for 1000.
  for (std::uint64_t i = 0; i < kSent; ++i) kernel->offer(frame);
  std::uint64_t received = 0;
  std::array<Packet*, 32> burst{};
  while (const std::size_t count = port->rx_burst({}, burst)) {
    for (Packet* const packet : std::span(burst).first(count)) packet->release();
    received += count;
  }
  const std::uint64_t dropped = port->stats().rx_dropped;
  EXPECT_GE(dropped, 1U);
  EXPECT_GE(received + dropped, kSent);
  kernel.reset();
  ASSERT_TRUE(shell("ip link delete ptap0"));
  EXPECT_EQ(port->stats().rx_dropped, dropped) << "it does not forget them with the interface";
}

TEST_F(ATap, IsNotInheritedByProgramsThatAreStarted) {
  int taps = 0;
  for (const int fd : detail::open_descriptors()) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    std::array<char, 64> target{};
    if (readlink(link.c_str(), target.data(), target.size() - 1) < 0) continue;
    if (std::string_view(target.data()) != "/dev/net/tun") continue;
    ++taps;
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_GE(taps, 1);
}

TEST_F(ATap, IsOpenedOnce) {
  const auto again = try_port(*pool, "tap:ptap0");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::already_exists);
  EXPECT_NE(again.error().what.find("tap:ptap0"), std::string::npos);
  EXPECT_NE(again.error().hint.find("ip link delete ptap0"), std::string::npos);
}

TEST_F(ATap, CanBeOpenedAgainAfterItsEnd) {
  for (int i = 0; i < 3; ++i) {
    open({.packets = 255}, "tap:ptap0");
    const Bytes frame = make_frame(100, random.next());
    kernel->send(frame);
    ASSERT_TRUE(receive(*port));
  }
}

TEST(DpdkPort, LeavesNothingBehindWhenItCannotBeOpened) {
  PINION_TEST_NEEDS_PORTS();
  const auto pool = make_pool({.packets = 64});
  std::vector<PacketPtr> held;
  while (pool->available() > 1) held.emplace_back(pool->allocate());
  const auto port = try_port(*pool, "tap:ptap1");
  ASSERT_FALSE(port) << "its queue asks for more packets than there are";
  EXPECT_EQ(port.error().code, ErrorCode::resource_exhausted);
  EXPECT_NE(port.error().what.find("cannot open tap:ptap1"), std::string::npos);
  EXPECT_FALSE(port.error().hint.empty());
  EXPECT_EQ(if_nametoindex("ptap1"), 0U) << "its interface is left behind";
  EXPECT_EQ(pool->lent(), held.size()) << "not given back";
  held.clear();
  EXPECT_TRUE(try_port(*pool, "tap:ptap1")) << "the name is free again";
}

TEST(DpdkPort, SaysWhyItCannotBeOpenedBeforeItMakesAnything) {
  PINION_TEST_NEEDS_PORTS();
  const auto pool = make_pool({.packets = 64, .packet_size = 256});
  for (const auto& [name, code] : {std::pair{"tap:ptap1,mtu=1", ErrorCode::invalid_argument},
                                   {"tap:ptap1,mtu=9000", ErrorCode::invalid_argument},
                                   {"tap:ptap1,speed=9", ErrorCode::invalid_argument},
                                   {"af_packet:ptap1", ErrorCode::not_found},
                                   {"pci:03:00.0", ErrorCode::unsupported},
                                   {"memif:/run/m.sock", ErrorCode::unsupported}}) {
    const auto refused = try_port(*pool, name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, code) << to_string(refused.error());
    EXPECT_FALSE(refused.error().hint.empty()) << to_string(refused.error());
  }
  EXPECT_EQ(if_nametoindex("ptap1"), 0U);
}

TEST_F(ATap, MarksTheChecksumsThatItHasVerified) {
  kernel->send(make_datagram(kRightChecksum));
  const PacketPtr good = receive(*port, kIpv4Type);
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->has(PacketMark::ip_checksum_good));
  EXPECT_TRUE(good->has(PacketMark::transport_checksum_good));

  kernel->send(make_datagram(kRightChecksum - 1));
  const PacketPtr bad = receive(*port, kIpv4Type);
  ASSERT_TRUE(bad);
  EXPECT_TRUE(bad->has(PacketMark::ip_checksum_good));
  EXPECT_FALSE(bad->has(PacketMark::transport_checksum_good));

  kernel->send(make_frame(100, random.next()));
  const PacketPtr unknown = receive(*port);
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->has(PacketMark::ip_checksum_good));
  EXPECT_FALSE(unknown->has(PacketMark::transport_checksum_good));
}

// N4: what the port has verified on its way in says nothing of what it should do on its way out.
TEST_F(ATap, N4_SendsChecksumsAsTheyAre) {
  const KernelEnd end("ptap0", kIpv4Type);
  for (const std::uint16_t checksum : {kRightChecksum, std::uint16_t{0}, std::uint16_t{0x12ee}}) {
    const Bytes frame = make_datagram(checksum);
    ASSERT_TRUE(sent(*port, packet_with(*pool, frame)));
    EXPECT_EQ(end.receive(), frame);
    end.send(frame);
    PacketPtr packet = receive(*port, kIpv4Type);
    ASSERT_TRUE(packet);
    ASSERT_TRUE(sent(*port, std::move(packet)));
    EXPECT_EQ(end.receive(), frame) << "a packet that came in";
  }
}

}  // namespace
}  // namespace pinion::test

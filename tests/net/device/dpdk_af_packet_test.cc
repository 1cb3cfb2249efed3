#include <fcntl.h>
#include <net/if.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "dpdk_world.h"

// DPDK ports on interfaces that the kernel has.

namespace pinion::test {
namespace {

using Bytes = std::vector<std::byte>;

/// Ports on an interface that exists, one end of a veth pair.
class OnVeth : public ::testing::Test {
 protected:
  void SetUp() override {
    PINION_TEST_NEEDS_PORTS();
    ASSERT_TRUE(shell("ip link add pveth0 type veth peer name pveth1"));
    ASSERT_TRUE(shell("ip link set pveth0 up && ip link set pveth1 up"));
  }
  void TearDown() override { shell("ip link delete pveth0"); }

  Random random{seed()};
};

TEST_F(OnVeth, PassesPacketsBothWaysAndSaysWhenTheyCome) {
  const auto pool = make_pool({.packets = 8191});
  {
    const auto port = open_port(*pool, "af_packet:pveth0");
    const KernelEnd peer("pveth1");
    EXPECT_GE(port->wait_descriptor(), 0);
    EXPECT_EQ(port->info().mtu, 1500U);
    for (int i = 0; i < 50; ++i) {
      const Bytes in = make_frame(random.between<std::size_t>(60, 1514), random.next());
      peer.send(in);
      const PacketPtr packet = receive(*port);
      ASSERT_TRUE(packet);
      ASSERT_EQ(bytes_of(*packet), in);
      const Bytes out = make_frame(random.between<std::size_t>(60, 1514), random.next());
      ASSERT_TRUE(sent(*port, chain_with(*pool, out, 3, random)));
      ASSERT_EQ(peer.receive(), out);
    }
  }
  EXPECT_EQ(pool->lent(), 0U);
  EXPECT_NE(if_nametoindex("pveth0"), 0U) << "it is the operator's";
}

TEST_F(OnVeth, TakesNoMoreThanTheInterfacesMtu) {
  const auto pool = make_pool();
  ASSERT_TRUE(shell("ip link set pveth0 mtu 1300"));
  const auto port = try_port(*pool, "af_packet:pveth0,mtu=1400");
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().hint, "ip link set pveth0 mtu 1400");
}

TEST_F(OnVeth, SaysHowLargeItsPacketsMustBe) {
  const auto small = make_pool({.packets = 1023, .packet_size = 1024});
  const auto refused = try_port(*small, "af_packet:pveth0");
  ASSERT_FALSE(refused);
  const std::string& hint = refused.error().hint;
  const std::size_t equals = hint.find("packet_size = ");
  ASSERT_NE(equals, std::string::npos) << to_string(refused.error());
  const std::size_t size = std::stoul(hint.substr(equals + std::string("packet_size = ").size()));
  const auto pool = make_pool({.packets = 1023, .packet_size = size});
  const auto port = try_port(*pool, "af_packet:pveth0");
  EXPECT_TRUE(port) << to_string(port.error());
}

/// Both ends take 9000 bytes; a port can be told to take 1500.
TEST_F(OnVeth, DropsWhatIsLongerThanItsMtuAndCountsIt) {
  ASSERT_TRUE(shell("ip link set pveth0 mtu 9000 && ip link set pveth1 mtu 9000"));
  const auto pool = make_pool({.packets = 1023});
  EXPECT_EQ(try_port(*pool, "af_packet:pveth0").error().code, ErrorCode::invalid_argument);
  const auto port = open_port(*pool, "af_packet:pveth0,mtu=1500");
  const KernelEnd peer("pveth1");
  for (const std::size_t size : {1519U, 1982U, 1983U, 3000U, 9014U}) {
    peer.send(make_frame(size, random.next()));
  }
  const Bytes whole = make_frame(1518, random.next());
  peer.send(whole);
  const PacketPtr packet = receive(*port);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), whole);
  EXPECT_EQ(port->stats().rx_dropped, 5U);
  EXPECT_EQ(port->stats().rx_packets, 1U);
  EXPECT_EQ(port->stats().rx_bytes, 1518U);
}

TEST_F(OnVeth, GivesAShortBurstOnlyWhenThereIsNoMore) {
  ASSERT_TRUE(shell("ip link set pveth0 mtu 9000 && ip link set pveth1 mtu 9000"));
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0,mtu=1500");
  const KernelEnd peer("pveth1");
  for (int i = 0; i < 100; ++i) peer.send(make_frame(3000, random.next()));
  const Bytes whole = make_frame(100, random.next());
  peer.send(whole);
  std::array<Packet*, 32> burst{};
  const std::size_t count = port->rx_burst({}, burst);
  EXPECT_EQ(count, 1U);
  PacketQueue received;
  for (Packet* const packet : std::span(burst).first(count)) received.push_back(PacketPtr(packet));
  ASSERT_FALSE(received.empty());
  EXPECT_EQ(bytes_of(*received.front()), whole);
}

TEST_F(OnVeth, SaysWhenTheKernelJoinsSegments) {
  if (!shell("ethtool --version")) GTEST_SKIP() << "no ethtool";
  const auto pool = make_pool({.packets = 1023});
  for (const bool on : {true, false}) {
    ASSERT_TRUE(shell(on ? "ethtool -K pveth0 gro on" : "ethtool -K pveth0 gro off"));
    ::testing::internal::CaptureStderr();
    static_cast<void>(open_port(*pool, "af_packet:pveth0"));
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("fix: ethtool -K pveth0 gro off lro off") != std::string::npos, on) << log;
  }
}

// N4: it has no offloads, and none is asked of it.
TEST_F(OnVeth, N4_SendsChecksumsAndTagsAsTheyAre) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  const KernelEnd peer("pveth1", kIpv4Type);
  for (const std::uint16_t checksum : {kRightChecksum, std::uint16_t{0}, std::uint16_t{0x12ee}}) {
    const Bytes frame = make_datagram(checksum);
    ASSERT_TRUE(sent(*port, packet_with(*pool, frame)));
    EXPECT_EQ(peer.receive(), frame);
    peer.send(frame);
    PacketPtr packet = receive(*port, kIpv4Type);
    ASSERT_TRUE(packet);
    EXPECT_FALSE(packet->has(PacketMark::transport_checksum_good)) << "nobody has looked at it";
    ASSERT_TRUE(sent(*port, std::move(packet)));
    EXPECT_EQ(peer.receive(), frame) << "a packet that came in";
  }
  // The kernel takes tags off and says what they were; the driver puts them back.
  Bytes tagged = make_datagram(kRightChecksum);
  const std::array<std::byte, 4> tag = {std::byte{0x81}, std::byte{0}, std::byte{0x60},
                                        std::byte{42}};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  constexpr std::size_t kVlanType = 0x8100;
  const KernelEnd tagging("pveth1", kVlanType);
  tagging.send(tagged);
  const PacketPtr packet = receive(*port, kVlanType);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), tagged);
}

TEST_F(OnVeth, ReceivesNothingThatTheKernelItselfSends) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  const KernelEnd same("pveth0");
  const KernelEnd peer("pveth1");
  same.send(make_frame(100, random.next()));
  const Bytes from_peer = make_frame(100, random.next());
  peer.send(from_peer);
  const PacketPtr packet = receive(*port);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), from_peer);
  EXPECT_EQ(port->stats().rx_packets, 1U);
}

TEST_F(OnVeth, CountsWhatItsRingHadNoRoomFor) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  const KernelEnd peer("pveth1");
  const Bytes frame = make_frame(60, random.next());
  constexpr std::uint64_t kSent = 1500;
  for (std::uint64_t i = 0; i < kSent; ++i) peer.send(frame);
  std::uint64_t received = 0;
  std::array<Packet*, 32> burst{};
  while (const std::size_t count = port->rx_burst({}, burst)) {
    for (Packet* const packet : std::span(burst).first(count)) packet->release();
    received += count;
  }
  EXPECT_LT(received, kSent);
  EXPECT_EQ(received + port->stats().rx_dropped, kSent);
  EXPECT_EQ(received + port->stats().rx_dropped, kSent) << "the kernel forgets what it was asked";
}

TEST_F(OnVeth, CountsWhatItIsGivenWhileTheInterfaceIsDown) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  ASSERT_TRUE(shell("ip link set pveth0 down"));
  ASSERT_TRUE(sent(*port, packet_with(*pool, make_frame(100, random.next()))));
  EXPECT_EQ(port->stats().tx_dropped, 1U);
  EXPECT_EQ(port->stats().tx_packets, 0U);
}

TEST_F(OnVeth, AnnouncesPacketsAgainAfterItsInterfaceWentDownAndUp) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  ASSERT_TRUE(shell("ip link set pveth0 down && ip link set pveth0 up"));
  const auto has_error = [&] {
    pollfd wait{.fd = port->wait_descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_GE(poll(&wait, 1, 0), 0);
    return (wait.revents & POLLERR) != 0;
  };
  EXPECT_TRUE(has_error());
  port->on_wait_error();
  EXPECT_FALSE(has_error());
  const KernelEnd peer("pveth1");
  const Bytes frame = make_frame(100, random.next());
  peer.send(frame);
  const PacketPtr packet = receive(*port);
  ASSERT_TRUE(packet);
  EXPECT_EQ(bytes_of(*packet), frame);
}

TEST_F(OnVeth, IsNotInheritedByProgramsThatAreStarted) {
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  EXPECT_EQ(fcntl(port->wait_descriptor(), F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace pinion::test

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"
#include "wire/tcp_checksum.h"
#include "wire/tcp_emitter.h"

/// Requirements of the RFCs that no other test shows, by their numbers: docs/tcp-conformance.md has
/// all of them.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::TcpFlag;

TEST(TcpRfc, Must1_WindowsAreUnsigned) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept("< . 1:1(0) ack 1 win 40000\n")));
  EXPECT_EQ(world.tcp().info({.index = 0, .generation = 1})->window, 40'000U);
}

TEST(TcpRfc, Must15_WithoutAnMssSegmentsAreWhatAllMustTake) {
  for (const bool v6 : {false, true}) {
    ScriptTcpOptions options = plain_tcp();
    options.v6 = v6;
    ScriptTcp world(options);
    const std::uint32_t size = v6 ? 1'220 : 536;
    EXPECT_TRUE(run_script(world, R"(
      < S 0:0(0) win 65535
      > S. 0:0(0) ack 1 ...
      < . 1:1(0) ack 1
      accept -> accepted
      write 5000 -> 5000
    )" + full_segments(1, v6 ? 4 : 9, size)));
  }
}

TEST(TcpRfc, Must65_NoSegmentButSynsHasAnMss) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 10 -> 10
    > P. 1:11(10) ack 1 <>
    < F. 1:1(0) ack 11
    > . 11:11(0) ack 2 <>
    close
    > F. 11:11(0) ack 2 <>
    < R. 2:2(0) ack 11
  )")));
}

TEST(TcpRfc, Must42_ListensWhereItConnectsFrom) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    flow [out] peer 192.0.2.2:80 host 7
    connect 7 -> in progress
    > [out] S 0:0(0)
    < [out] S. 0:0(0) ack 1
    > [out] . 1:1(0) ack 1
    events -> connected
    flow [in] peer 192.0.2.2:4000 host 7
    < [in] S 0:0(0)
    > [in] S. 0:0(0) ack 1
    < [in] . 1:1(0) ack 1
    state -> established
    accept -> accepted
    count connections -> 2
  )"));
}

TEST(TcpRfc, Must43_TheUserMayChooseTheLocalAddressOfAConnection) {
  TwoHosts world;
  const auto strange = world.tcp(0).connect(
      {.remote = world.endpoint(1, 7), .local_address = IpAddress::v4({198, 51, 100, 1})}, nullptr,
      world.now());
  ASSERT_FALSE(strange);
  EXPECT_EQ(strange.error(), TcpConnectError::unreachable);
  const auto made = world.tcp(0).connect(
      {.remote = world.endpoint(1, 7), .local_address = world.endpoint(0, 0).address}, nullptr,
      world.now());
  ASSERT_TRUE(made);
  EXPECT_EQ(world.tcp(0).info(*made)->local.address, world.endpoint(0, 0).address);
  world.tcp(0).abort(*made, world.now());
  world.run_for(seconds{1});
}

/// A SYN to the port where host 1 listens comes with these addresses.
void receive_syn(TwoHosts& world, const IpArrival& arrival) {
  PacketPtr packet(world.pool().allocate());
  wire::emit_tcp({packet->append(wire::kTcpHeaderSize), wire::kTcpHeaderSize},
                 {.source_port = 4'000,
                  .destination_port = 7,
                  .sequence = {},
                  .acknowledgment = {},
                  .flags = wire::TcpFlags(TcpFlag::syn),
                  .window = 65'535},
                 {});
  wire::store_tcp_checksum(*packet, packet->size(), arrival.source, arrival.destination);
  world.tcp(1).receive(std::move(packet), arrival, world.now());
  world.tcp(1).end_of_burst(world.now());
}

TEST(TcpRfc, Must57And63_SynsToManyAndFromNobodyAreDropped) {
  TwoHosts world;
  ASSERT_TRUE(world.tcp(1).listen({IpAddress::v4({0, 0, 0, 0}), 7}, {}, nullptr));
  const IpAddress host = world.endpoint(1, 7).address;
  const IpAddress peer = world.endpoint(0, 0).address;
  receive_syn(
      world,
      {.source = peer, .destination = IpAddress::v4({255, 255, 255, 255}), .broadcast = true});
  receive_syn(world,
              {.source = peer, .destination = IpAddress::v4({224, 0, 0, 1}), .broadcast = true});
  EXPECT_EQ(world.tcp(1).stats().dropped(TcpDrop::broadcast), 2U);
  receive_syn(world, {.source = IpAddress::v4({224, 0, 0, 1}), .destination = host});
  receive_syn(world, {.source = IpAddress::v4({255, 255, 255, 255}), .destination = host});
  receive_syn(world, {.source = IpAddress::v4({0, 0, 0, 0}), .destination = host});
  EXPECT_EQ(world.tcp(1).stats().dropped(TcpDrop::address), 3U);
  EXPECT_EQ(world.tcp(1).stats().segments_out, 0U);
  EXPECT_EQ(world.tcp(1).half_open(), 0U);
}

// RFC 1191, 3.1: the option says what we take, whatever a path has become for what we send.
TEST(TcpRfc, Must67_TheMssIsOfTheInterfaceAndSegmentsAreOfThePath) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 1460 -> 1460
    > P. 1:1461(1460) ack 1
    complain too_big 0 1000
    > . 1:961(960) ack 1
    > P. 961:1461(500) ack 1
    < [b] S 0:0(0) win 65535 <mss 1460>
    > [b] S. 0:0(0) ack 1 <mss 1460>
    < [b] . 1:1(0) ack 1
    accept -> accepted
    write 1920 -> 1920
    > [b] . 1:961(960) ack 1
    > [b] P. 961:1921(960) ack 1
    abort
    > [b] R. 1921:1921(0)
    flow [c] peer 192.0.2.2:80
    connect -> in progress
    > [c] S 0:0(0) <mss 1460>
    < [c] S. 0:0(0) ack 1 win 65535 <mss 1460>
    > [c] . 1:1(0) ack 1
    write 1920 -> 1920
    > [c] . 1:961(960) ack 1
    > [c] P. 961:1921(960) ack 1
    abort
    > [c] R. 1921:1921(0)
  )")));
}

TEST(TcpRfc, Must66_AResetCountsWhileTheWindowIsShut) {
  ScriptTcpOptions options = plain_tcp();
  options.socket.receive_buffer = 4'096;
  const std::string shut = R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1 win 4096
    < . 1:1(0) ack 1
    accept -> accepted
    < . 1:1461(1460) ack 1
    & < . 1461:2921(1460) ack 1
    > . 1:1(0) ack 2921
    < . 2921:4097(1176) ack 1
    +0ms..45ms > . 1:1(0) ack 4097 win 0
  )";
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, shut + R"(
    < R 4098:4098(0)
    < R 4096:4096(0)
    state -> established
    < P. 4097:4098(1) ack 1         # A probe is answered, and not taken.
    > . 1:1(0) ack 4097 win 0
    < R 4097:4097(0)
    events -> acceptable readable readable closed:reset
  )"));
}

// Urgent data are part of the stream (RFC 6093, 3.1); the pointer means nothing.
TEST(TcpRfc, Must30_UrgentDataAreReadInLine) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < PU. 1:101(100) ack 1 urg 50
    +0ms..45ms > . 1:1(0) ack 101
    < U. 101:101(0) ack 1 urg 500
    < PU. 101:201(100) ack 1 urg 65535
    +0ms..45ms > . 1:1(0) ack 201
    read -> 200
  )")));
}

// R1: SHLD-10.
TEST(TcpRfc, Must20_AfterThreeRetransmissionsTheIpLayerHearsOfIt) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 100 -> 100
    > P. 1:101(100) ack 1
    +1s > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +4s > P. 1:101(100) ack 1
    count suspicions -> 0
    +8s > P. 1:101(100) ack 1
    count suspicions -> 1
    +16s > P. 1:101(100) ack 1
    count suspicions -> 2
    < . 1:1(0) ack 101
    write 100 -> 100
    > P. 101:201(100) ack 1
    +32s > P. 101:201(100) ack 1
    count suspicions -> 2
    abort
    > R. 201:201(0)
  )")));
}

TEST(TcpRfc, Must25_KeepaliveIsOffUnlessAskedFor) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    +10h nothing
    state -> established
  )")));
}

TEST(TcpRfc, Must40_AcknowledgementsAreNotDelayedByHalfASecond) {
  TwoHostsOptions options;
  options.config.delayed_ack = milliseconds{400};
  TwoHosts world(options);
  SlabPacketPool& pool = world.pool();
  TcpConfig config;
  config.delayed_ack = milliseconds{401};
  class Nowhere final : public IpLayer {
   public:
    void send(PacketPtr, const IpDeparture&, Instant) noexcept override {}
    std::size_t path_mtu(const IpAddress&, const IpAddress&) const noexcept override {
      return 1500;
    }
    std::size_t link_mtu(const IpAddress&, const IpAddress&) const noexcept override {
      return 1500;
    }
    void learn_path_mtu(const IpAddress&, const IpAddress&, std::size_t,
                        Instant) noexcept override {}
    std::optional<IpAddress> source_for(const IpAddress&) const noexcept override { return {}; }
    bool is_local(const IpAddress&) const noexcept override { return false; }
    bool is_unicast(const IpAddress&) const noexcept override { return true; }
    void confirm_reachable(const IpAddress&, const IpAddress&, Instant) noexcept override {}
    void suspect(const IpAddress&, const IpAddress&, Instant) noexcept override {}
  } ip;
  TimingWheel wheel(world.now());
  const auto made = Tcp::create(
      config, {.ip = ip, .wheel = wheel, .packets = pool, .small_packets = pool}, 1, world.now());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().hint.find("delayed_ack"), std::string::npos);
}

TEST(TcpRfc, Should2_AResetMayHaveData) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < R. -49:51(100) ack 1          # Its data reach into the window, its number doesn't lie there.
    < R. 1:101(100) ack 1
    read -> closed
    events -> closed:reset
  )")));
}

// SHLD-29 too: the first probe comes when the timeout has passed.
TEST(TcpRfc, Should17_AWindowThatShrinksToNothingEndsNoConnection) {
  std::string script = R"(
    write 100 -> 100
    > P. 1:101(100) ack 1
    < . 1:1(0) ack 1 win 0
  )";
  const char* const times[] = {"1s", "2s", "4s", "8s", "16s", "32s", "60s"};
  for (int i = 0; i < 30; ++i) {
    script += std::string("+") + times[std::min(i, 6)] + " > . 1:2(1) ack 1\n";
    script += "< . 1:1(0) ack 1 win 0\n";
  }
  script += "< . 1:1(0) ack 1 win 1000\n> P. 1:101(100) ack 1\nstate -> established\n";
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

// RFC 7323, 4.3: the echo is of the earliest segment that the acknowledgement is for.
TEST(TcpRfc, TimestampsEchoTheEarliestSegmentThatIsAcknowledged) {
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
    < . 1:1(0) ack 1 <ts val 1001 ecr 100>
    accept -> accepted
    < . 1:101(100) ack 1 <ts val 1010 ecr 100>
    +10ms < . 101:201(100) ack 1 <ts val 1020 ecr 100>
    > . 1:1(0) ack 201 <ts val 110 ecr 1010>
    < . 301:401(100) ack 1 <ts val 1040 ecr 100>
    > . 1:1(0) ack 201 <ts val 110 ecr 1010>
    < . 201:301(100) ack 1 <ts val 1030 ecr 100>
    > . 1:1(0) ack 401 <ts val 110 ecr 1030>
  )"));
}

}  // namespace
}  // namespace pinion::test

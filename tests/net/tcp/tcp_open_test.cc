#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Connections begin, or don't: the cases O2 to O8.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using wire::TcpFlag;

/// A SYN from host 0, from a port that no connection there has.
void forge_syn(TwoHosts& world, std::uint16_t port, std::uint32_t sequence) {
  world.forge(0, {.source_port = port,
                  .destination_port = 7,
                  .sequence = wire::SequenceNumber(sequence),
                  .acknowledgment = {},
                  .flags = wire::TcpFlags(TcpFlag::syn),
                  .window = 65'535});
}

// O2: half-open SYNs that never finish, and a flood of spoofed ones.
TEST(TcpCases, O2_AFloodOfSynsIsBoundedAndHurtsNobody) {
  TwoHostsOptions options;
  options.config.max_half_open = 64;
  TwoHosts world(options);
  TestPair pair(world);
  // Whoever sends these never answers.
  world.passes = [](const LineSegment& line) {
    return line.from == 0 || line.segment.header.destination_port >= 49'152;
  };
  for (std::uint32_t i = 0; i < 1'000'000; ++i) {
    forge_syn(world, static_cast<std::uint16_t>(1'024 + i % 48'000), i * 77'777);
    if (i % 100 == 99) world.run_for(milliseconds{1});
  }
  world.run_for(milliseconds{10});
  EXPECT_EQ(world.tcp(1).half_open(), 64U);
  pair.client.write_up_to(100'000, world.now());
  world.run_for(milliseconds{500});
  EXPECT_TRUE(pair.server.received_stream(100'000));

  TestSocket client(world.tcp(0));
  client.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(client.connected, 1);
  EXPECT_EQ(world.tcp(1).stats().cookie_opens, 1U);
  TestSocket server(world.tcp(1));
  server.handle = world.tcp(1).accept(pair.listener, &server);
  ASSERT_TRUE(server.handle);
  client.write_up_to(100'000, world.now());
  server.write_up_to(100'000, world.now());
  world.run_for(seconds{1});
  EXPECT_TRUE(server.received_stream(100'000));
  EXPECT_TRUE(client.received_stream(100'000));
  world.run_for(seconds{70});
  EXPECT_EQ(world.tcp(1).half_open(), 0U);
}

// O3: SYN, SYN-ACK, RST, time and again.
TEST(TcpCases, O3_HealthChecksLeaveNothingBehind) {
  TwoHosts world;
  const auto listener = world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr);
  ASSERT_TRUE(listener);
  constexpr std::uint32_t kChecks = 100'000;
  // Host 0 answers the SYN-ACK of what it knows nothing of by a reset.
  for (std::uint32_t i = 0; i < kChecks; ++i) {
    forge_syn(world, static_cast<std::uint16_t>(1'024 + i % 8), i * 1'000'003);
    world.run_for(milliseconds{20});
  }
  EXPECT_EQ(world.tcp(1).stats().resets_in, kChecks);
  EXPECT_EQ(world.tcp(1).half_open(), 0U);
  EXPECT_EQ(world.tcp(1).connections(), 0U);
  TestSocket client(world.tcp(0));
  client.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(client.connected, 1);
}

// O4: connecting to a dead host and to a closed port.
TEST(TcpCases, O4_SynsToADeadHostEndWithTheConnection) {
  TwoHosts world;
  world.passes = [](const LineSegment&) { return false; };
  world.recording = true;
  TestSocket client(world.tcp(0));
  client.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
  world.run_for(milliseconds{7'500});
  EXPECT_EQ(world.sent.size(), 4U);  // At 0, 1, 3 and 7 s.
  world.tcp(0).close(client.handle, world.now());
  world.run_for(minutes{5});
  EXPECT_EQ(world.sent.size(), 4U);
  EXPECT_EQ(client.end, TcpEnd::aborted);
  EXPECT_EQ(world.tcp(0).connections(), 0U);
}

// O4: connecting to a dead host and to a closed port.
TEST(TcpCases, O4_ConnectGivesUpAfterThreeMinutes) {
  TwoHosts world;
  world.passes = [](const LineSegment&) { return false; };
  TestSocket client(world.tcp(0));
  client.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
  world.run_for(seconds{179});
  EXPECT_EQ(client.closed, 0);
  world.run_for(seconds{10});
  EXPECT_EQ(client.end, TcpEnd::connect_timeout);
}

// O4: connecting to a dead host and to a closed port.
TEST(TcpCases, O4_TheResetOfAClosedPortAcknowledgesAllThatCame) {
  ScriptTcpOptions options = plain_tcp();
  options.listens = false;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > R. 0:0(0) ack 1
    < P 1:101(100)
    > R. 0:0(0) ack 101
    < F 1:101(100)
    > R. 0:0(0) ack 102
    < . 1:1(0) ack 5000
    > R 5000:5000(0)
    < R 1:1(0)
    < R. 1:1(0) ack 1
  )"));
}

// O5: a SYN with ECE and CWR.
TEST(TcpCases, O5_ASynWithEcnIsAnOrdinaryOne) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < SEW 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1 win 65535 <mss 1460>
    < . 1:1(0) ack 1
    accept -> accepted
    abort
    > R. 1:1(0)
  )"));
}

// O6: the handshake's last ACK lacks the timestamp that was agreed on.
TEST(TcpCases, O6_AHandshakeWithoutItsTimestampFreesItsPlace) {
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    tolerance 3ms
    < S 0:0(0) win 65535 <mss 1460, ts val 1 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1>
    < . 1:1(0) ack 1
    accept -> none
    +1s > S. 0:0(0) ack 1 ...
    +2s > S. 0:0(0) ack 1 ...
    +4s > S. 0:0(0) ack 1 ...
    +8s > S. 0:0(0) ack 1 ...
    +16s > S. 0:0(0) ack 1 ...
    count half_open -> 1
    +33s nothing
    count half_open -> 0
    dropped no_timestamp -> 1
  )"));
}

// O7: simultaneous open.
TEST(TcpCases, O7_SimultaneousOpen) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    connect -> in progress
    > S 0:0(0) win 65535 <mss 1460>
    +10ms < S 0:0(0) win 65535 <mss 1000>
    > S. 0:0(0) ack 1 win 65535 <mss 1460>
    state -> syn_received
    < S 0:0(0) win 65535 <mss 1000>
    > S. 0:0(0) ack 1 win 65535 <mss 1460>
    < S. 0:0(0) ack 1 win 65535 <mss 1000>
    state -> established
    events -> connected
    write 1000 -> 1000
    > P. 1:1001(1000) ack 1
    abort
    > R. 1001:1001(0)
  )"));
}

/// The numbers with which both sides of a connection from `port` begin, which is reset then.
struct InitialNumbers {
  InitialNumbers(TwoHosts& world, std::uint16_t port) : at(world.now()) {
    world.sent.clear();
    TestSocket socket(world.tcp(0));
    const auto made = world.tcp(0).connect({.remote = world.endpoint(1, 7), .local_port = port},
                                           &socket, world.now());
    EXPECT_TRUE(made);
    socket.handle = *made;
    world.run_for(milliseconds{20});
    EXPECT_EQ(socket.connected, 1);
    world.tcp(0).abort(socket.handle, world.now());
    world.run_for(milliseconds{20});
    for (const LineSegment& line : world.sent) {
      if (!line.has(TcpFlag::syn)) continue;
      (line.from == 0 ? client : server) = line.segment.header.sequence;
    }
  }

  Instant at;
  wire::SequenceNumber client;
  wire::SequenceNumber server;
};

// O8: initial numbers, those in SYN-ACKs too.
TEST(TcpCases, O8_InitialNumbersOfATupleGrowByOneEveryFourMicroseconds) {
  TwoHosts world;
  ASSERT_TRUE(world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr));
  world.recording = true;
  InitialNumbers last(world, 5'000);
  for (const Delay pause : {Delay(milliseconds{1}), Delay(seconds{1}), Delay(minutes{30})}) {
    world.run_for(pause);
    const InitialNumbers next(world, 5'000);
    const auto grown =
        static_cast<std::uint32_t>((next.at - last.at) / std::chrono::microseconds{4});
    for (const std::uint32_t by : {static_cast<std::uint32_t>(next.client - last.client),
                                   static_cast<std::uint32_t>(next.server - last.server)}) {
      EXPECT_GE(by, grown - 1);
      EXPECT_LE(by, grown + 1);
    }
    last = next;
  }
}

// O8: initial numbers, those in SYN-ACKs too.
TEST(TcpCases, O8_InitialNumbersOfATupleTellNothingOfOthers) {
  TwoHosts world;
  ASSERT_TRUE(world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr));
  world.recording = true;
  constexpr std::uint16_t kTuples = 500;
  std::set<std::uint32_t> of_clients;
  std::set<std::uint32_t> of_servers;
  InitialNumbers last(world, 5'000);
  for (std::uint16_t i = 1; i <= kTuples; ++i) {
    const InitialNumbers next(world, static_cast<std::uint16_t>(5'000 + i));
    of_clients.insert(static_cast<std::uint32_t>(next.client - last.client));
    of_servers.insert(static_cast<std::uint32_t>(next.server - last.server));
    last = next;
  }
  // The time between them is always the same. Of 500 numbers of 32 bits, two pairs are equal once
  // in 10^9 times.
  EXPECT_GE(of_clients.size(), kTuples - 1U);
  EXPECT_GE(of_servers.size(), kTuples - 1U);
}

TEST(TcpOpen, ARefusedHandshakeGoesUnheard) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1
    < . 1:1(0) ack 77
    > R 77:77(0)
    < R 5:5(0)
    > . 1:1(0) ack 1
    < R 70000:70000(0)
    count half_open -> 1
    < R 1:1(0)
    count half_open -> 0
    accept -> none
    events ->
  )"));
}

// RFC 9293, 3.10.7.4, first; RFC 7323, 5.3: an acceptable ACK in an unacceptable segment opens
// nothing.
TEST(TcpOpen, OnlyASegmentThatFitsCompletesAHandshake) {
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
    < P. -99:1(100) ack 1 <ts val 1000 ecr 100>
    > . 1:1(0) ack 1 <ts val 100 ecr 1000>
    < P. 70000:70100(100) ack 1 <ts val 1000 ecr 100>
    < . 1:1(0) ack 1 <ts val 999 ecr 100>
    dropped paws -> 1
    dropped out_of_window -> 2
    count half_open -> 1
    count connections -> 0
    accept -> none
    < . 1:1(0) ack 1 <ts val 1000 ecr 100>
    accept -> accepted
    state -> established
    abort
    > R. 1:1(0)
  )"));
}

TEST(TcpOpen, BeyondTheBacklogTheLastAckWaits) {
  ScriptTcpOptions options = plain_tcp();
  options.backlog = 1;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1
    < [b] S 0:0(0) win 65535 <mss 1460>
    > [b] S. 0:0(0) ack 1
    < . 1:1(0) ack 1
    < [b] . 1:1(0) ack 1
    dropped backlog_full -> 1
    accept -> accepted
    accept -> none
    < [b] P. 1:11(10) ack 1
    accept -> accepted
    read -> 10
    +40ms > [b] . 1:1(0) ack 11
    abort
    > [b] R. 1:1(0)
  )"));
}

TEST(TcpOpen, ListenersHaveEqualPartsOfThoseWhoWait) {
  TwoHostsOptions options;
  options.config.max_waiting = 5;
  TwoHosts world(options);
  const auto listen = [&](std::uint16_t port) {
    const auto made = world.tcp(1).listen(world.endpoint(1, port), {}, nullptr);
    PINION_ASSERT(made);
    return *made;
  };
  const auto connect = [&](std::uint16_t port) {
    for (int i = 0; i < 8; ++i) {
      static_cast<void>(
          world.tcp(0).connect({.remote = world.endpoint(1, port)}, nullptr, world.now()));
    }
    world.run_for(seconds{1});
  };
  const TcpListenerHandle one = listen(7);
  connect(7);
  EXPECT_EQ(world.tcp(1).waiting(one), 5U);
  const TcpListenerHandle other = listen(8);
  connect(8);
  EXPECT_EQ(world.tcp(1).waiting(other), 2U);
  EXPECT_TRUE(world.tcp(1).accept(one, nullptr));
  world.run_for(seconds{10});
  EXPECT_EQ(world.tcp(1).waiting(one), 4U) << "above its part now";
  world.tcp(1).close(other, world.now());
  world.run_for(seconds{60});
  EXPECT_EQ(world.tcp(1).waiting(one), 5U);
}

TEST(TcpOpen, RefusesAddressesThatAreNobodys) {
  TwoHosts world;
  for (const IpAddress& address :
       {IpAddress(), IpAddress::v4({224, 0, 0, 1}), IpAddress::v4({255, 255, 255, 255}),
        IpAddress::v6({0xff, 0x02})}) {
    const auto made = world.tcp(0).connect({.remote = {address, 7}}, nullptr, world.now());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), TcpConnectError::unreachable);
  }
}

}  // namespace
}  // namespace pinion::test

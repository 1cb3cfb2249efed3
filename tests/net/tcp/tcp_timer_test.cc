#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Timers: the cases T1 to T4, delayed acknowledgements, deadlines.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Retransmission {
  Instant at = kNever;  ///< Of the first, if it came within 0.4 s.
  std::uint64_t timeouts = 0;
};

/// Loses the acknowledgements of a write of two segments; tells when the first goes out again,
/// unless a forged one of `acknowledged` bytes, to arrive at `answered`, prevents it.
Retransmission retransmission(Instant answered, std::uint32_t acknowledged, bool wheels_first) {
  TwoHosts world;
  TestPair pair(world, {.no_delay = true});
  world.wheels_first = wheels_first;
  world.run_for(seconds{1});
  world.recording = true;
  wire::TcpSegment ack;
  world.passes = [&](const LineSegment& line) {
    if (line.from == 1) ack = line.segment;
    return line.from == 0;
  };
  const wire::SequenceNumber begin = world.tcp(0).info(pair.client.handle)->first_unacknowledged;
  pair.client.write_up_to(100, world.now());
  pair.client.write_up_to(200, world.now());
  world.run_for(milliseconds{100});
  if (answered != kNever) {
    world.run_for(answered - world.now() - milliseconds{5});
    ack.options = {};
    ack.options.timestamps = world.sent.back().segment.options.timestamps;
    ack.header.acknowledgment = begin + acknowledged;
    world.forge(1, ack.header, ack.options);
  }
  Retransmission result;
  const std::size_t before = world.sent.size();
  const Instant limit =
      answered == kNever ? world.now() + milliseconds{400} : answered + milliseconds{100};
  if (world.run_until([&] { return world.sent.size() > before; }, limit - world.now())) {
    result.at = world.now();
  }
  result.timeouts = world.tcp(0).stats().retransmission_timeouts;
  world.passes = [](const LineSegment&) { return true; };
  pair.close_both();
  return result;
}

// T1: a timer expires in the same burst that brings its ACK, of all or of what it was armed for.
TEST(TcpCases, T1_ATimerWhoseAckComesInTheSameBurstDoesNothing) {
  for (const bool wheels_first : {false, true}) {
    const Retransmission unanswered = retransmission(kNever, 0, wheels_first);
    ASSERT_NE(unanswered.at, kNever);
    EXPECT_EQ(unanswered.timeouts, 1U);
    for (const std::uint32_t acknowledged : {200U, 100U}) {
      const Retransmission answered = retransmission(unanswered.at, acknowledged, wheels_first);
      EXPECT_EQ(answered.at, kNever) << acknowledged;
      EXPECT_EQ(answered.timeouts, 0U) << acknowledged;
    }
  }
}

// T2: keepalive.
TEST(TcpCases, T2_KeepaliveProbesAndResets) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 3
    +10s > . 0:0(0) ack 1
    +200ms < . 1:1(0) ack 1
    +5s < P. 1:11(10) ack 1
    +40ms > . 1:1(0) ack 11
    +9960ms > . 0:0(0) ack 11
    +1s > . 0:0(0) ack 11
    < . 1:1(0) ack 1                # Old: it says nothing of now, and is answered.
    > . 1:1(0) ack 11
    +1s > . 0:0(0) ack 11
    +1s > R. 1:1(0) ack 11
    events -> readable closed:keepalive_timeout
  )")));
}

// T2: keepalive.
TEST(TcpCases, T2_RetransmissionsAreTheProbesWhileDataIsInFlight) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 2000 1000 2
    write 100 -> 100
    > P. 1:101(100) ack 1
    +1s > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +1s > R. 101:101(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

// T3: 25 idle days.
TEST(TcpCases, T3_AfterTwentyFiveIdleDaysOldTimestampsAreForgotten) {
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  const std::string open = R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
    < . 1:1(0) ack 1 <ts val 1000 ecr 100>
    accept -> accepted
  )";
  ScriptTcp young(options);
  EXPECT_TRUE(run_script(young, open + R"(
    +10d < P. 1:11(10) ack 1 <ts val 900 ecr 100>
    > . 1:1(0) ack 1 ...
    read -> again
    dropped paws -> 1
    abort
    > R. 1:1(0)
  )"));
  ScriptTcp old(options);
  EXPECT_TRUE(run_script(old, open + R"(
    +25d < P. 1:11(10) ack 1 <ts val 2160001000 ecr 100>
    read -> 10
    +40ms > . 1:1(0) ack 11 ...
    write 10 -> 10
    > P. 1:11(10) ack 11 ...
    < . 11:11(0) ack 11 <ts val 2160001040 ecr 2160000140>
    +1h nothing
    abort
    > R. 11:11(0)
  )"));
}

// T3: 25 idle days.
TEST(TcpCases, T3_AfterAnyIdleTimeTheWindowIsAsAtTheBegin) {
  for (const int days : {1, 24, 25, 26, 40, 49, 51, 75}) {
    TwoHosts world;
    TestPair pair(world);
    pair.client.write_up_to(300'000, world.now());
    world.run_for(seconds{2});
    const auto before = world.tcp(0).info(pair.client.handle);
    ASSERT_GT(before->congestion_window, 20U * before->segment);
    world.run_for(std::chrono::hours{24 * days});
    world.recording = true;
    pair.client.write_up_to(500'000, world.now());
    EXPECT_EQ(world.sent.size(), 10U) << days << " days";
    world.run_for(seconds{2});
    EXPECT_TRUE(pair.server.received_stream(500'000));
    pair.close_both();
  }
}

// T4: Karn, backoff, restarts, R1 and R2.
TEST(TcpCases, T4_TimeoutsDoubleAndGiveUpAtTheLimit) {
  std::string script = "write 100 -> 100\n> P. 1:101(100) ack 1\n";
  const char* const times[] = {"1s", "2s", "4s", "8s", "16s", "32s", "60s"};
  for (int i = 0; i < 14; ++i) {
    script += std::string("+") + times[std::min(i, 6)] + " > P. 1:101(100) ack 1\n";
  }
  script += "tolerance 20ms\n+57s > R. 101:101(0)\nevents -> closed:peer_timeout\n";
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

// T4: Karn, backoff, restarts, R1 and R2.
TEST(TcpCases, T4_TheUserTimeoutIsTheConnectionsOwnLimit) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    +1s > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +2s > R. 101:101(0)
    events -> closed:peer_timeout
  )")));
}

// T4: Karn, backoff, restarts, R1 and R2.
TEST(TcpCases, T4_ANewAckRestartsTheTimerAndARetransmissionIsNoSample) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 2920 -> 2920
    > . 1:1461(1460) ack 1
    > P. 1461:2921(1460) ack 1
    +1s > . 1:1461(1460) ack 1
    +500ms < . 1:1(0) ack 1461
    > P. 1461:2921(1460) ack 1
    +2s > P. 1461:2921(1460) ack 1
    < . 1:1(0) ack 2921
    +1h nothing
    abort
    > R. 2921:2921(0)
  )")));
}

TEST(TcpTimers, DataIsAcknowledgedAfterFortyMillisecondsOrTwoSegments) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    reading on
    < P. 1:101(100) ack 1
    +40ms > . 1:1(0) ack 101
    < P. 101:201(100) ack 1
    +10ms < P. 201:301(100) ack 1
    > . 1:1(0) ack 301
    < P. 301:401(100) ack 1
    & < P. 401:501(100) ack 1
    & < P. 501:601(100) ack 1
    & < P. 601:701(100) ack 1
    > . 1:1(0) ack 701
    < P. 701:801(100) ack 1
    +5ms write 10 -> 10
    > P. 1:11(10) ack 801
    +100ms < . 801:801(0) ack 11
    abort
    > R. 11:11(0)
  )")));
}

TEST(TcpTimers, NagleHoldsASecondSmallSegmentAndNoDelayDoesNot) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 10 -> 10
    > P. 1:11(10) ack 1
    write 10 -> 10
    +100ms nothing
    < . 1:1(0) ack 11
    > P. 11:21(10) ack 1
    write 1 -> 1
    no_delay on
    > P. 21:22(1) ack 1
    write 5 -> 5
    > P. 22:27(5) ack 1
    abort
    > R. 27:27(0)
  )")));
}

TEST(TcpTimers, AReadDeadlineIsToldOnce) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    read_deadline 1000
    +900ms nothing
    events
    +101ms nothing
    events -> read_deadline
    +1h nothing
    events
    abort
    > R. 1:1(0)
  )")));
}

TEST(TcpRecovery, ThreeDuplicatesBringFastRetransmitAndTheFirstTwoNewData) {
  ScriptTcp world(plain_tcp());
  std::string script = "write 30000 -> 30000\n" + full_segments(1, 10, 1460) + R"(
    +10ms < . 1:1(0) ack 1
    > . 14601:16061(1460) ack 1
    < . 1:1(0) ack 1
    > . 16061:17521(1460) ack 1
    < . 1:1(0) ack 1
    > . 1:1461(1460) ack 1
    < . 1:1(0) ack 1
    < . 1:1(0) ack 1
    < . 1:1(0) ack 1
    < . 1:1(0) ack 1
    < . 1:1(0) ack 1
    > . 17521:18981(1460) ack 1
    < . 1:1(0) ack 2921              # Partial: the next hole.
    > . 2921:4381(1460) ack 1
    > . 18981:20441(1460) ack 1
    < . 1:1(0) ack 20441
    > * 20441:21901(1460) ack 1
    > * 21901:23361(1460) ack 1
    abort
    > R. 23361:23361(0)
  )";
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

TEST(TcpRecovery, HolesAreReportedBySack) {
  ScriptTcpOptions options = plain_tcp();
  options.config.sack = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460, sack>
    > S. 0:0(0) ack 1 <mss 1460, sack>
    < . 1:1(0) ack 1
    accept -> accepted
    < . 1001:2001(1000) ack 1
    > . 1:1(0) ack 1 <sack 1001:2001>
    < . 3001:4001(1000) ack 1
    > . 1:1(0) ack 1 <sack 3001:4001 1001:2001>
    < . 3001:4001(1000) ack 1
    > . 1:1(0) ack 1 <sack 3001:4001 3001:4001 1001:2001>
    < . 1:1001(1000) ack 1
    > . 1:1(0) ack 2001 <sack 3001:4001>
    < . 1:1001(1000) ack 1
    > . 1:1(0) ack 2001 <sack 1:1001 3001:4001>
    < . 2001:3001(1000) ack 1
    > . 1:1(0) ack 4001 <>
    read -> 4000
    > . 1:1(0) ack 4001 win 65535 <>
    abort
    > R. 1:1(0)
  )"));
}

}  // namespace
}  // namespace pinion::test

#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Challenges (RFC 5961, 7) of what is no connection any more, or none yet.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using wire::TcpFlag;

std::string times(int count, const std::string& lines) {
  std::string all;
  for (int i = 0; i < count; ++i) all += lines;
  return all;
}

/// A connection whose peer has restarted.
const std::string kRestartedPeer = R"(
  < [b] S 0:0(0) win 65535 <mss 1460>
  > [b] S. 0:0(0) ack 1
  < [b] . 1:1(0) ack 1
  accept -> accepted
  events -> acceptable
)";
const std::string kRestarts = R"(
  < [b] S 70000:70000(0) win 65535 <mss 1460>
  > [b] . 1:1(0) ack 1
)";

TEST(TcpChallenge, AHalfOpenConnectionSendsOneInASecond) {
  for (const bool v6 : {false, true}) {
    for (const char* const stray : {"R 5:5(0)", "S 9000:9000(0)", ". 900000:900000(0) ack 1"}) {
      ScriptTcp world(plain_tcp(v6));
      const std::string arrives = std::string("< ") + stray + "\n";
      EXPECT_TRUE(run_script(world, kRestartedPeer + R"(
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
      )" + arrives + "> . 1:1(0) ack 1\n" +
                                        times(2'999, arrives) + "+1s > S. 0:0(0) ack 1\n" +
                                        arrives + "> . 1:1(0) ack 1\n" + arrives + kRestarts + R"(
        < . 1:1(0) ack 1
        accept -> accepted
      )")) << stray;
      EXPECT_EQ(world.tcp().stats().challenge_acks, 3U);
      EXPECT_EQ(world.tcp().stats().challenge_acks_withheld, 3'000U);
    }
  }
}

// Or whoever forges them would have us send as much to whom he likes.
TEST(TcpChallenge, ASynThatComesAgainIsAnsweredOnceInEachTimeout) {
  for (const bool v6 : {false, true}) {
    ScriptTcp world(plain_tcp(v6));
    const std::string syn = "< S 0:0(0) win 65535 <mss 1460>\n";
    const std::string answer = "> S. 0:0(0) ack 1\n";
    EXPECT_TRUE(run_script(world, syn + answer + "+300ms " + syn + answer + times(3'000, syn) +
                                      "+700ms " + answer + "+100ms " + syn + answer +
                                      times(1'000, "+1ms " + syn) + R"(
      < . 1:1(0) ack 1
      accept -> accepted
    )"));
  }
}

TEST(TcpChallenge, AClientWhoseSynAckWasLostIsAnsweredAtItsNextSyn) {
  for (const bool v6 : {false, true}) {
    ScriptTcp world(plain_tcp(v6));
    EXPECT_TRUE(run_script(world, R"(
      < S 0:0(0) win 65535 <mss 1460>
      > S. 0:0(0) ack 1
      +999ms < S 0:0(0) win 65535 <mss 1460>
      > S. 0:0(0) ack 1
      +1ms > S. 0:0(0) ack 1
      +1999ms < S 0:0(0) win 65535 <mss 1460>
      > S. 0:0(0) ack 1
      +1ms > S. 0:0(0) ack 1
      +4s > S. 0:0(0) ack 1
      +1ms < S 0:0(0) win 65535 <mss 1460>
      > S. 0:0(0) ack 1
      < . 1:1(0) ack 1
      accept -> accepted
    )"));
  }
}

TEST(TcpChallenge, ASynThatComesAgainInASimultaneousOpenIsAnsweredAsOftenAsAChallenge) {
  ScriptTcp world(plain_tcp());
  const std::string syn = "< S 0:0(0) win 65535 <mss 1460>\n";
  const std::string answer = "> S. 0:0(0) ack 1\n";
  EXPECT_TRUE(run_script(world, "connect -> in progress\n> S 0:0(0)\n" + syn + answer +
                                    times(10, syn + answer) + times(3'000, syn) + R"(
    < S. 0:0(0) ack 1 win 65535 <mss 1460>
    state -> established
    abort
    > R. 1:1(0)
  )"));
}

// Nobody who means it sends such, before the handshake is complete.
TEST(TcpChallenge, DataThatFitNoHalfOpenConnectionAreAnsweredOnceInASecond) {
  for (const bool v6 : {false, true}) {
    for (const char* const stray :
         {". 900000:900100(100) ack 1", "F. 900000:900000(0) ack 1", ". 0:0(0) ack 1"}) {
      ScriptTcp world(plain_tcp(v6));
      const std::string arrives = std::string("< ") + stray + "\n";
      EXPECT_TRUE(run_script(world, R"(
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
      )" + arrives + "> . 1:1(0) ack 1\n" +
                                        times(2'999, arrives) + "+1s > S. 0:0(0) ack 1\n" +
                                        arrives + "> . 1:1(0) ack 1\n" + arrives + R"(
        < . 1:1(0) ack 1
        accept -> accepted
      )")) << stray;
    }
  }
}

TEST(TcpChallenge, TimeWaitSendsOneInASecond) {
  for (const bool v6 : {false, true}) {
    for (const char* const stray : {"S -9:-9(0)", "S. 2:2(0) ack 5", ". 9:9(0) ack 2"}) {
      ScriptTcp world(plain_tcp(v6));
      const std::string arrives = std::string("< ") + stray + "\n";
      const std::string answer = "> . 2:2(0) ack 2\n";
      EXPECT_TRUE(run_script(world, kRestartedPeer + after_accept(R"(
        close
        > F. 1:1(0) ack 1
        < F. 1:1(0) ack 2
        > . 2:2(0) ack 2
        count time_waits -> 1
      )" + arrives + answer + times(2'999, arrives) + "+1s " + arrives +
                                                                  answer + arrives + kRestarts + R"(
        < F. 1:1(0) ack 2               # What bears something is always answered.
        > . 2:2(0) ack 2
        < F. 1:1(0) ack 2
        > . 2:2(0) ack 2
      )")))
          << stray;
      EXPECT_EQ(world.tcp().stats().challenge_acks, 3U);
      EXPECT_EQ(world.tcp().stats().challenge_acks_withheld, 3'000U);
    }
  }
}

// However many there are, connections have theirs.
TEST(TcpChallenge, ManyHalfOpenConnectionsTakeNoneFromConnections) {
  TwoHostsOptions options;
  options.config.max_half_open = 2'000;
  TwoHosts world(options);
  TestPair pair(world);
  // Host 0 knows nothing of these, and its resets would end them.
  world.passes = [](const LineSegment& line) {
    return line.segment.header.destination_port >= 49'152 ||
           line.segment.header.source_port >= 49'152;
  };
  const auto forge = [&world](std::uint16_t port, std::uint32_t sequence, TcpFlag flag) {
    world.forge(0, {.source_port = port,
                    .destination_port = 7,
                    .sequence = wire::SequenceNumber(sequence),
                    .acknowledgment = {},
                    .flags = wire::TcpFlags(flag),
                    .window = 65'535});
  };
  constexpr std::uint16_t kHalfOpen = 1'800;
  for (std::uint16_t i = 0; i < kHalfOpen; ++i) forge(1'000 + i, 0, TcpFlag::syn);
  world.run_for(milliseconds{10});
  ASSERT_EQ(world.tcp(1).half_open(), kHalfOpen);
  for (std::uint16_t i = 0; i < kHalfOpen; ++i) forge(1'000 + i, 9, TcpFlag::rst);
  world.run_for(milliseconds{10});
  const std::uint64_t sent = world.tcp(1).stats().challenge_acks;
  EXPECT_GE(sent, 500U);
  EXPECT_LT(sent, 1'500U) << "they have a bound";
  const auto info = world.tcp(0).info(pair.client.handle);
  forge(info->local.port, 77'777, TcpFlag::syn);
  world.run_for(milliseconds{10});
  EXPECT_EQ(world.tcp(1).stats().challenge_acks, sent + 1);
  world.passes = [](const LineSegment&) { return true; };
  pair.close_both();
}

}  // namespace
}  // namespace pinion::test

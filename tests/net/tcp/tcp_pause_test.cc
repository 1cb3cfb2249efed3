#include <chrono>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// An lcore that was held up (a debugger, a machine that was stopped, a long turn): its pause is
/// not the peer's silence, and whoever is to be given up is asked once more (RFC 9293, 3.8.3).
/// Keepalive: tcp_keepalive_test.cc.

namespace pinion::test {
namespace {

TEST(TcpPause, AfterAPauseOfOursWhatWasSentGoesOutOnceMoreBeforeThePeerIsGivenUp) {
  for (const bool v6 : {false, true}) {
    ScriptTcp world(plain_tcp(v6));
    EXPECT_TRUE(run_script(world, after_accept(R"(
      user_timeout 5000
      write 100 -> 100
      > P. 1:101(100) ack 1
      stall 60000
      > P. 1:101(100) ack 1
      +1900ms < . 1:1(0) ack 101
      state -> established
      abort
      > R. 101:101(0)
    )")));
  }
}

TEST(TcpPause, APauseOfOursIsNoPartOfThePeersSilence) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    stall 60000                # Its timer was due after a second: that was silence.
    > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +2s > R. 101:101(0)
    events -> closed:peer_timeout
  )")));
}

// Its answer may wait to be read.
TEST(TcpPause, APauseOverTheEndOfThePatienceLeavesTimeForAnAnswer) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    +1s > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +1s stall 10000
    > P. 1:101(100) ack 1
    +4s > R. 101:101(0)
    events -> closed:peer_timeout
  )")));
}

TEST(TcpPause, R2CountsNoPause) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 100 -> 100
    > P. 1:101(100) ack 1
    stall 3600000
    > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +3900ms < . 1:1(0) ack 101
    state -> established
    abort
    > R. 101:101(0)
  )")));
}

TEST(TcpPause, ASynGoesOutOnceMoreToo) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    connect -> in progress
    > S 0:0(0)
    stall 600000
    > S 0:0(0)
    +1900ms < S. 0:0(0) ack 1 win 65535 <mss 1460>
    > . 1:1(0) ack 1
    events -> connected
    abort
    > R. 1:1(0)
  )"));
}

TEST(TcpPause, AShutWindowIsProbedOnceMoreToo) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 1
    stall 60000
    > . 1:2(1) ack 1
    +2s < . 1:1(0) ack 1 win 0
    +1s~10ms > . 1:2(1) ack 1
    +4s stall 60000
    > . 1:2(1) ack 1
    +5s~10ms > R. 1:1(0)
    events -> closed:peer_timeout
  )")));
}

// Nobody else would end it.
TEST(TcpPause, WhatWasWrittenBeforeACloseGoesOutOnceMoreToo) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 100 -> 100
    > P. 1:101(100) ack 1
    close
    > F. 101:101(0) ack 1
    stall 600000
    > FP. 1:101(100) ack 1
    +1900ms < . 1:1(0) ack 102
    < F. 1:1(0) ack 102
    > . 102:102(0) ack 2
    count connections -> 0
    count resets -> 0
  )")));
}

TEST(TcpPause, ThePeersFinIsWaitedForOnceMore) {
  ScriptTcpOptions options = plain_tcp();
  options.config.fin_wait_2 = std::chrono::seconds{2};
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < . 1:1(0) ack 2
    stall 60000
    state -> fin_wait_2
    +100ms < F. 1:1(0) ack 2
    > . 2:2(0) ack 2
    count time_waits -> 1
  )")));
  ScriptTcp gone(options);
  EXPECT_TRUE(run_script(gone, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < . 1:1(0) ack 2
    stall 60000
    state -> fin_wait_2
    +1500ms state -> gone
  )")));
}

TEST(TcpPause, ThePeersFinIsWaitedForOnceMoreAndNotAgain) {
  ScriptTcpOptions options = plain_tcp();
  options.config.fin_wait_2 = std::chrono::seconds{2};
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < . 1:1(0) ack 2
    stall 2030
    state -> fin_wait_2
    stall 1500
    state -> gone
  )")));
}

// An lcore that is always a little late gives its peers up all the same.
TEST(TcpPause, ManySmallDelaysAreNoNewPatience) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    stall 1030
    > P. 1:101(100) ack 1
    stall 2030
    > P. 1:101(100) ack 1
    stall 2030
    > R. 101:101(0)
    events -> closed:peer_timeout
  )")));
}

// As long as the lcore is only late, everything has its time.
TEST(TcpPause, AShortDelayIsNone) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 3000
    write 100 -> 100
    > P. 1:101(100) ack 1
    stall 1015
    > P. 1:101(100) ack 1
    +1985ms > R. 101:101(0)
    events -> closed:peer_timeout
  )")));
}

}  // namespace
}  // namespace pinion::test

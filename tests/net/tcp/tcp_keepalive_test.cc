#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// Keepalive (RFC 9293, 3.8.4; case T2): an lcore that was held up, and what counts as hearing the
/// peer.

namespace pinion::test {
namespace {

TEST(TcpKeepalive, AfterAPauseOfOursTheProbesGoOutAtTheirInterval) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 3
    stall 35000
    > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +500ms < . 1:1(0) ack 1
    +10s > . 0:0(0) ack 1
    stall 1900
    > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

// It may lie in the device's queue still.
TEST(TcpKeepalive, AfterAPauseOfOursTheLastAnswerIsWaitedFor) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 1
    +10s > . 0:0(0) ack 1
    stall 5000
    +900ms < . 1:1(0) ack 1
    +10s > . 0:0(0) ack 1
    stall 5000
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

TEST(TcpKeepalive, AfterAPauseOfOursARetransmissionIsWaitedFor) {
  for (const bool v6 : {false, true}) {
    ScriptTcp world(plain_tcp(v6));
    EXPECT_TRUE(run_script(world, after_accept(R"(
      keepalive 2000 1000 2
      write 100 -> 100
      > P. 1:101(100) ack 1
      stall 60000
      > P. 1:101(100) ack 1
      +900ms < . 1:1(0) ack 101
      state -> established
      abort
      > R. 101:101(0)
    )")));
  }
}

TEST(TcpKeepalive, WithoutAPacketAfterAPauseOfOursTheSameTimePassesOnceMore) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 16;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 1
    leave 0
    stall 35500
    leave all
    +1s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

// MUST-26: neither data nor an acknowledgement has come for so long.
TEST(TcpKeepalive, APeerWhoAsksIsThere) {
  for (const bool v6 : {false, true}) {
    ScriptTcp world(plain_tcp(v6));
    EXPECT_TRUE(run_script(world, after_accept(R"(
      keepalive 10000 1000 1
      +5s < . 0:0(0) ack 1
      > . 1:1(0) ack 1
      +4s < . 0:1(1) ack 1            # With a byte, as old ones ask.
      > . 1:1(0) ack 1
      +10s > . 0:0(0) ack 1
      +500ms < . 0:0(0) ack 1
      > . 1:1(0) ack 1
      +10s > . 0:0(0) ack 1
      +1s > R. 1:1(0) ack 1
      events -> closed:keepalive_timeout
    )")));
  }
}

TEST(TcpKeepalive, WhoAsksWithAWrongAcknowledgmentIsNobody) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 1
    +5s < . 0:0(0) ack 2
    > . 1:1(0) ack 1
    +1s < . 0:0(0) ack -70000
    > . 1:1(0) ack 1
    +4s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  ScriptTcp stamped(options);
  EXPECT_TRUE(run_script(stamped, R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
    < . 1:1(0) ack 1 <ts val 2000 ecr 100>
    accept -> accepted
    keepalive 10000 1000 1
    +5s < . 0:0(0) ack 1 <ts val 1000 ecr 100>
    > . 1:1(0) ack 1 ...
    +5s > . 0:0(0) ack 1 ...
    +1s > R. 1:1(0) ack 1 ...
  )"));
}

}  // namespace
}  // namespace pinion::test

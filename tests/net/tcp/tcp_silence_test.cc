#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// What counts as a peer's silence while its window is shut, and how long it may last (RFC 9293,
/// 3.8.3, 3.8.4 and 3.8.6.1).

namespace pinion::test {
namespace {

TEST(TcpSilence, AWindowThatOpensLateGivesWhatFollowsItsWholeTime) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +2s > . 1:2(1) ack 1
    +3500ms < . 1:1(0) ack 1 win 65535
    > P. 1:11(10) ack 1
    +1s > P. 1:11(10) ack 1
    +2s > P. 1:11(10) ack 1
    +2s > R. 11:11(0)
    events -> closed:peer_timeout
  )")));
}

TEST(TcpSilence, APeerThatAnswersEveryProbeStaysWhateverTheUserTimeout) {
  ScriptTcp world(plain_tcp());
  std::string script = "user_timeout 5000\n< . 1:1(0) ack 1 win 0\nwrite 10 -> 10\n";
  for (const char* const time : {"1s", "2s", "4s", "8s", "16s", "32s", "60s", "60s"}) {
    script += std::string("+") + time + " > . 1:2(1) ack 1\n< . 1:1(0) ack 1 win 0\n";
  }
  EXPECT_TRUE(
      run_script(world, after_accept(script + "state -> established\nabort\n> R. 1:1(0)\n")));
}

TEST(TcpSilence, OneProbeLostAfterALongIdleTimeEndsNothing) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1(0) ack 1 win 0
    +11min write 10 -> 10
    +1s > . 1:2(1) ack 1
    +2s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 65535
    > P. 1:11(10) ack 1
    < . 1:1(0) ack 11
    abort
    > R. 11:11(0)
  )")));
}

TEST(TcpSilence, ProbesThatNobodyAnswersEndAtTheUserTimeout) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    < . 1:1(0) ack 1 win 0
    +11min write 10 -> 10
    +1s > . 1:2(1) ack 1
    +2s > . 1:2(1) ack 1
    +3s > R. 1:1(0)
    events -> closed:peer_timeout
  )")));
}

TEST(TcpSilence, WithoutAPacketTheSilenceIsNotThePeers) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 16;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    +11min nothing
    leave 1
    write 10 -> 10
    +10s nothing
    leave all
    state -> established
    +0ms..1s > P. 1:11(10) ack 1
    < . 1:1(0) ack 11
    abort
    > R. 11:11(0)
  )")));
}

TEST(TcpSilence, KeepaliveProbesGoOutWhileTheWindowIsShut) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 2500 1000 2
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +2s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +2500ms > . 0:0(0) ack 1
    < . 1:1(0) ack 1 win 0
    +1500ms > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +2500ms > . 0:0(0) ack 1
    < . 1:1(0) ack 1 win 0
    +2500ms > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

TEST(TcpSilence, AKeepaliveProbeWithoutAPacketDoesNotCount) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 16;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 2000 1000 2
    leave 0
    +10s nothing
    leave all
    +0ms..1s > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

TEST(TcpSilence, ASmallWindowIsUsedWithinASecondWhateverTheBackoff) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 1000 -> 1000
    > P. 1:1001(1000) ack 1
    +1s > P. 1:1001(1000) ack 1
    +2s > P. 1:1001(1000) ack 1
    +4s > P. 1:1001(1000) ack 1
    < . 1:1(0) ack 1001 win 100
    write 1000 -> 1000
    +1s > . 1001:1101(100) ack 1
    < . 1:1(0) ack 1101
    > P. 1101:2001(900) ack 1
    abort
    > R. 2001:2001(0)
  )")));
}

TEST(TcpSilence, SettingKeepaliveIsNotHearingThePeer) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 10000 1000 2
    +9s keepalive 10000 1000 2
    +1s > . 0:0(0) ack 1
    +500ms keepalive 10000 1000 2
    +500ms > . 0:0(0) ack 1
    +500ms keepalive 10000 1000 2
    +500ms > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

// The first probe is due at once then, and the others as far apart as was asked for.
TEST(TcpSilence, KeepaliveSetInTheMidstOfALongSilenceAsksBeforeItGivesUp) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    +1h keepalive 10000 1000 3
    +0ms..2ms > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +500ms keepalive 10000 1000 3
    +500ms > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
}

TEST(TcpSilence, SettingKeepaliveProlongsNoOtherPatience) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    user_timeout 5000
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 1
    +1s keepalive 60000 1000 2
    +1s > . 1:2(1) ack 1
    +1s keepalive 1000 60000 2
    +0ms..2ms > . 0:0(0) ack 1
    +2s > R. 1:1(0)
    events -> closed:peer_timeout
  )")));
}

// Times are kept in 32 bits, and a silence of weeks would lie ahead.
TEST(TcpSilence, ASilenceOfAMonthIsOne) {
  ScriptTcp asked(plain_tcp());
  EXPECT_TRUE(run_script(asked, after_accept(R"(
    +30d keepalive 10000 1000 2
    +0ms..2ms > . 0:0(0) ack 1
    < . 1:1(0) ack 1
    +10s > . 0:0(0) ack 1
    +1s > . 0:0(0) ack 1
    +1s > R. 1:1(0) ack 1
    events -> closed:keepalive_timeout
  )")));
  ScriptTcp shut(plain_tcp());
  EXPECT_TRUE(run_script(shut, after_accept(R"(
    user_timeout 5000
    < . 1:1(0) ack 1 win 0
    +30d write 10 -> 10
    +1s > . 1:2(1) ack 1
    +2s > . 1:2(1) ack 1
    +3s > R. 1:1(0)
    events -> closed:peer_timeout
  )")));
}

}  // namespace
}  // namespace pinion::test

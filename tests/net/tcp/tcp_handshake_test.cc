#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// The last acknowledgement of a passive open: what it must be, and who takes it (RFC 9293,
/// 3.10.7.2 and 3.10.7.4; RFC 4987).

namespace pinion::test {
namespace {

TEST(TcpHandshake, AnAckOutsideTheWindowMakesNoConnection) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1
    < . 0:0(0) ack 1
    > . 1:1(0) ack 1 win 65535
    < . 70000:70000(0) ack 1          # Within a second none is answered any more.
    < P. 65537:65540(3) ack 1
    accept -> none
    dropped out_of_window -> 3
    count connections -> 0
    < . 1:1(0) ack 1
    accept -> accepted
    abort
    > R. 1:1(0)
  )"));
}

TEST(TcpHandshake, AListenerThatClosesTakesItsHandshakesAlong) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1
    count half_open -> 1
    unlisten
    count half_open -> 0
    listen
    < . 1:1(0) ack 1
    > R 1:1(0)
    accept -> none
    +1min nothing
  )"));
}

TEST(TcpHandshake, ACookieCountsBesideARecordOfTheSameSyn) {
  ScriptTcpOptions options = plain_tcp();
  options.config.max_half_open = 1;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < [b] S 0:0(0) win 65535 <mss 1460>
    > [b] S. 0:0(0) ack 1
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1                  # With a cookie, which is lost,
    < [b] R 1:1(0)
    +500ms < S 0:0(0) win 65535 <mss 1460>
    > S. * ack 1                       # by what comes second.
    < P. 1:11(10) ack 1
    accept -> accepted
    count half_open -> 0
    read -> 10
    +40ms > . 1:1(0) ack 11
    abort
    > R. 1:1(0)
  )"));
  EXPECT_EQ(world.tcp().stats().cookie_opens, 1U);
}

TEST(TcpHandshake, ASynAckThatComesAgainIsAlwaysAnswered) {
  ScriptTcp world(plain_tcp());
  std::string script = R"(
    connect -> in progress
    > S 0:0(0) win 65535 <mss 1460>
    < S. 0:0(0) ack 1 win 65535 <mss 1460>
    > . 1:1(0) ack 1
  )";
  for (int i = 0; i < 20; ++i)
    script += "< S. 0:0(0) ack 1 win 65535 <mss 1460>\n> . 1:1(0) ack 1\n";
  EXPECT_TRUE(run_script(world, script + "abort\n> R. 1:1(0)\n"));
}

TEST(TcpHandshake, InASimultaneousOpenBothSynsSayTheSameMss) {
  ScriptTcpOptions options = plain_tcp();
  options.socket.max_segment = 500;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    connect -> in progress
    > S 0:0(0) win 65535 <mss 500>
    +10ms < S 0:0(0) win 65535 <mss 400>
    > S. 0:0(0) ack 1 win 65535 <mss 500>
    < . 1:1(0) ack 1
    events -> connected
    write 1000 -> 1000
    > . 1:401(400) ack 1
    > . 401:801(400) ack 1
    < . 1:1(0) ack 801
    > P. 801:1001(200) ack 1
    abort
    > R. 1001:1001(0)
  )"));
}

/// A connection that the host closed first.
std::string in_time_wait(const std::string& script) {
  return after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < F. 1:1(0) ack 2
    > . 2:2(0) ack 2
    count time_waits -> 1
    events -> closed:orderly
  )" + script);
}

TEST(TcpHandshake, ASynThatIsNotAnsweredLeavesTimeWaitAlone) {
  ScriptTcpOptions options = plain_tcp();
  options.backlog = 1;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, in_time_wait(R"(
    < [b] S 0:0(0) win 65535 <mss 1460>
    > [b] S. 0:0(0) ack 1
    < [b] . 1:1(0) ack 1
    < S 1000:1000(0) win 65535 <mss 1460>
    count time_waits -> 1
    accept -> accepted
    < S 1000:1000(0) win 65535 <mss 1460>
    > S. * ack 1001
    count time_waits -> 0
    abort
    > [b] R. 1:1(0)
    < R 1001:1001(0)
  )")));
}

TEST(TcpHandshake, WithoutTimestampsAnOldSynWithTheOptionReopensNothing) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, in_time_wait(R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 5 ecr 0>
    > . 2:2(0) ack 2
    count time_waits -> 1
  )")));
}

}  // namespace
}  // namespace pinion::test

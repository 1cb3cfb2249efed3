#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Windows: the cases W1 to W10 of sending and receiving.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// W1: what is in flight never exceeds the congestion window or the peer's.
TEST(TcpCases, W1_InFlightIsBoundedByCongestionWindowAndWindow) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(
      run_script(world, after_accept("write 100000 -> 100000\n" + full_segments(1, 10, 1460) +
                                     "+990ms nothing\nabort\n> R. 14601:14601(0)\n")));
  ScriptTcp narrow(plain_tcp());
  EXPECT_TRUE(run_script(narrow, after_accept(R"(
    < . 1:1(0) ack 1 win 3000
    write 100000 -> 100000
    > . 1:1461(1460) ack 1
    > . 1461:2921(1460) ack 1
    +990ms nothing
    abort
    > R. 2921:2921(0)
  )")));
}

// W2: a reader that drains a full buffer is announced by a window update.
TEST(TcpCases, W2_DrainingAFullReceiveBufferSendsAWindowUpdate) {
  TwoHosts world;
  TestPair pair(world);
  pair.server.reads = false;
  pair.client.write_up_to(2'000'000, world.now());
  world.run_for(milliseconds{150});
  const std::uint64_t probes = world.tcp(0).stats().window_probes;
  pair.server.reads = true;
  pair.server.read_all(world.now());
  EXPECT_GE(pair.server.received, 200'000U);
  EXPECT_GE(world.tcp(1).stats().window_updates, 1U);
  world.run_for(seconds{2});
  EXPECT_TRUE(pair.server.received_stream(2'000'000));
  EXPECT_EQ(world.tcp(0).stats().window_probes, probes);
  pair.close_both();
}

// W3: a head segment that is larger than the peer's small window, and a lost update.
TEST(TcpCases, W3_ASmallWindowWhoseUpdateIsLostIsNoDeadlock) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1(0) ack 1 win 100
    write 1000 -> 1000
    +990ms nothing
    +10ms > . 1:101(100) ack 1
    < . 1:1(0) ack 101 win 65535
    > P. 101:1001(900) ack 1
    abort
    > R. 1001:1001(0)
  )")));
}

// W3, W9: a window that opens a little is used within a second, whatever the probes' backoff.
TEST(TcpCases, W3_AWindowThatOpensALittleIsNotLeftToTheProbe) {
  const std::string shut = R"(
    write 1000 -> 1000
    > P. 1:1001(1000) ack 1
    +1s > P. 1:1001(1000) ack 1
    +2s > P. 1:1001(1000) ack 1
    +4s > P. 1:1001(1000) ack 1
    +8s > P. 1:1001(1000) ack 1
    < . 1:1(0) ack 1001 win 0
    write 5000 -> 5000
    +1s < . 1:1(0) ack 1001 win 900
  )";
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(shut + R"(
    +1s > . 1001:1901(900) ack 1
    < . 1:1(0) ack 1901 win 0
    abort
    > R. 1901:1901(0)
  )")));
  // Nor does it wait longer when it shuts once more in between.
  ScriptTcp flaps(plain_tcp());
  EXPECT_TRUE(run_script(flaps, after_accept(shut + R"(
    +500ms < . 1:1(0) ack 1001 win 0
    +300ms < . 1:1(0) ack 1001 win 900
    +200ms > . 1001:1901(900) ack 1
    abort
    > R. 1901:1901(0)
  )")));
}

// W4: a zero-window probe draws an ACK.
TEST(TcpCases, W4_ZeroWindowProbeDrawsAnAck) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +2s > . 1:2(1) ack 1
    < . 1:1(0) ack 1 win 0
    +4s > . 1:2(1) ack 1
    < . 1:1(0) ack 2 win 0
    +1s > . 2:3(1) ack 1
    < . 1:1(0) ack 2 win 1000
    > P. 2:11(9) ack 1
    < . 1:1(0) ack 11 win 1000
    +1h nothing
    state -> established
    abort
    > R. 11:11(0)
  )")));
}

// W4: a zero-window probe draws an ACK.
TEST(TcpCases, W4_AProbedConnectionStaysWhileThePeerAnswers) {
  ScriptTcp world(plain_tcp());
  std::string script = "< . 1:1(0) ack 1 win 0\nwrite 10 -> 10\n";
  const char* const times[] = {"1s", "2s", "4s", "8s", "16s", "32s", "60s"};
  for (int i = 0; i < 40; ++i) {
    script += std::string("+") + times[std::min(i, 6)] + " > . 1:2(1) ack 1\n";
    script += "< . 1:1(0) ack 1 win 0\n";
  }
  script += "state -> established\nabort\n> R. 1:1(0)\n";
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

// W5: old data and probes are always acknowledged.
TEST(TcpCases, W5_OldDataAndProbesAreAlwaysAcknowledged) {
  ScriptTcp world(plain_tcp());
  std::string script = "< P. 1:101(100) ack 1\n+40ms > . 1:1(0) ack 101\n";
  for (int i = 0; i < 50; ++i) script += "< P. 1:101(100) ack 1\n> . 1:1(0) ack 101\n";
  for (int i = 0; i < 50; ++i) script += "< . 100:100(0) ack 1\n> . 1:1(0) ack 101\n";
  script += "read -> 100\nabort\n> R. 1:1(0)\n";
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

// W6: windows in SYNs are not scaled; receive buffers of any size connect.
TEST(TcpCases, W6_WindowsInSynsAreNotScaledAndAnyBufferConnects) {
  struct Case {
    std::uint32_t buffer;
    int scale;
    int window;
  };
  for (const Case& each : {Case{65'535, 0, 65'535}, Case{65'536, 1, 32'768},
                           Case{524'288, 4, 32'768}, Case{1'048'576, 5, 32'768}}) {
    ScriptTcpOptions options = plain_tcp();
    options.config.window_scale = true;
    options.socket.receive_buffer = each.buffer;
    const std::string scale = std::to_string(each.scale);
    ScriptTcp active(options);
    EXPECT_TRUE(run_script(
        active, "connect -> in progress\n> S 0:0(0) win 65535 <mss 1460, wscale " + scale +
                    ">\n< S. 0:0(0) ack 1 win 65535 <mss 1460, wscale 7>\n"
                    "> . 1:1(0) ack 1 win " +
                    std::to_string(each.window) + "\nevents -> connected\nabort\n> R. 1:1(0)\n"));
    ScriptTcp passive(options);
    EXPECT_TRUE(run_script(passive,
                           "< S 0:0(0) win 65535 <mss 1460, wscale 7>\n"
                           "> S. 0:0(0) ack 1 win 65535 <mss 1460, wscale " +
                               scale +
                               ">\n< . 1:1(0) ack 1 win 1000\naccept -> accepted\n"
                               "+1s nothing\nabort\n> R. 1:1(0)\n"));
  }
}

// W7: tiny MSS are clamped, options count, and the smaller MSS wins.
TEST(TcpCases, W7_TinyMssIsClampedAndOptionsCount) {
  for (const char* mss : {"0", "1", "12"}) {
    ScriptTcpOptions options = plain_tcp();
    options.config.timestamps = true;
    ScriptTcp world(options);
    EXPECT_TRUE(run_script(
        world, std::string("< S 0:0(0) win 65535 <mss ") + mss + ", ts val 1 ecr 0>\n" + R"(
      > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1>
      < . 1:1(0) ack 1 <ts val 1 ecr 100>
      accept -> accepted
      write 100 -> 100
      > . 1:37(36) ack 1 <ts val 100 ecr 1>
      > . 37:73(36) ack 1 ...
      < . 1:1(0) ack 73 <ts val 1 ecr 100>
      > P. 73:101(28) ack 1 ...
      abort
      > R. 101:101(0)
    )"));
  }
}

// W7: tiny MSS are clamped, options count, and the smaller MSS wins.
TEST(TcpCases, W7_TheSmallerMssWinsOnPassiveOpen) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 500>
    > S. 0:0(0) ack 1 <mss 1460>
    < . 1:1(0) ack 1
    accept -> accepted
    write 600 -> 600
    > . 1:501(500) ack 1
    < . 1:1(0) ack 501
    > P. 501:601(100) ack 1
    abort
    > R. 601:601(0)
  )"));
}

// W8: a window that shrinks below SND.NXT.
TEST(TcpCases, W8_AShrunkWindowKeepsAcksValidAndBoundsRetransmission) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(
      run_script(world, after_accept("write 5000 -> 5000\n" + full_segments(1, 3, 1460) + R"(
    < . 1:1(0) ack 1461 win 1000
    +200ms > . 1461:2461(1000) ack 1
    < . 1:1(0) ack 2461 win 1000
    > . 2461:3461(1000) ack 1
    < . 1:1(0) ack 4381 win 65535
    > P. 4381:5001(620) ack 1
    abort
    > R. 5001:5001(0)
  )")));
}

// W9: silly windows, avoided on both sides.
TEST(TcpCases, W9_NeitherSideDealsInSillyWindows) {
  // A reader that takes a byte at a time doesn't offer windows of a byte.
  ScriptTcpOptions options = plain_tcp();
  options.socket.receive_buffer = 4'096;
  ScriptTcp reader(options);
  std::string script = R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1 win 4096 <mss 1460>
    < . 1:1(0) ack 1
    accept -> accepted
    < . 1:1461(1460) ack 1
    & < . 1461:2921(1460) ack 1
    > . 1:1(0) ack 2921 win 1176
  )";
  for (int i = 0; i < 100; ++i) script += "read 1 -> 1\n";
  script += "+1s nothing\nclose\n> R. 1:1(0)\n";
  EXPECT_TRUE(run_script(reader, script));
  // A sender doesn't fill windows that open by a byte.
  ScriptTcp sender(plain_tcp());
  EXPECT_TRUE(run_script(sender, after_accept(R"(
    < . 1:1(0) ack 1 win 0
    write 5000 -> 5000
    < . 1:1(0) ack 1 win 1
    < . 1:1(0) ack 1 win 2
    < . 1:1(0) ack 1 win 3
    +100ms nothing
    < . 1:1(0) ack 1 win 1460
    > . 1:1461(1460) ack 1
    abort
    > R. 1461:1461(0)
  )")));
}

// W10: a million segments of a byte to a reader that lags 200,000 behind.
TEST(TcpCases, W10_TinySegmentsDoNotDrainThePool) {
  TwoHostsOptions options;
  options.pool.packets = 1'024;
  options.latency = Delay();
  TwoHosts world(options);
  TestPair pair(world, {.no_delay = true});
  pair.server.reads = false;
  constexpr std::uint64_t kSegments = 1'000'000;
  std::size_t least = world.pool().available();
  for (std::uint64_t i = 1; i <= kSegments; ++i) {
    pair.client.write_up_to(i, world.now());
    world.run_for(Delay());
    least = std::min(least, world.pool().available());
    if (i > 200'000 && i % 4'096 == 0) pair.server.read_piece(world.now());
  }
  EXPECT_GT(least, 512U);
  EXPECT_GE(world.tcp(1).stats().bytes_in, kSegments - 1'000);
  pair.server.reads = true;
  pair.server.read_all(world.now());
  world.run_for(seconds{5});
  EXPECT_TRUE(pair.server.received_stream(kSegments));
  pair.close_both();
}

}  // namespace
}  // namespace pinion::test

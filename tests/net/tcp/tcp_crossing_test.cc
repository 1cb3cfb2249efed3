#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// What segments acknowledge whose text isn't taken, and what forged ones don't change (RFC 9293,
/// 3.10.7.4).

namespace pinion::test {
namespace {

using std::chrono::seconds;

ScriptTcpOptions with_small_buffer() {
  ScriptTcpOptions options = plain_tcp();
  options.socket.receive_buffer = 4'096;
  return options;
}

/// A passive open, after which the peer fills the host's buffer.
std::string after_filling(const std::string& script) {
  return R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1 win 4096 <mss 1460>
    < . 1:1(0) ack 1
    accept -> accepted
    < . 1:1461(1460) ack 1
    & < . 1461:2921(1460) ack 1
    & < P. 2921:4097(1176) ack 1
    > . 1:1(0) ack 4097 win 0
  )" + script;
}

TEST(TcpCrossing, ProbesThatCrossWhileBothWindowsOpenEndInData) {
  ScriptTcp world(with_small_buffer());
  EXPECT_TRUE(run_script(world, after_filling(R"(
    < . 4097:4097(0) ack 1 win 0
    write 10 -> 10
    +1s > . 1:2(1) ack 4097 win 0
    read -> 4096
    > . 1:1(0) ack 4097 win 4096
    < . 4097:4098(1) ack 1 win 0
    +40ms > . 1:1(0) ack 4098
    < . 4097:4097(0) ack 2 win 65535
    > P. 2:11(9) ack 4098
    < . 4098:4098(0) ack 11 win 65535
    +1min nothing
    read -> 1
    abort
    > R. 11:11(0)
  )")));
}

TEST(TcpCrossing, TwoEndsThatReadAgainAtOnceGoOn) {
  TwoHostsOptions options;
  TwoHosts world(options);
  TestPair pair(world);
  pair.client.reads = pair.server.reads = false;
  pair.client.write_up_to(1'000'000, world.now());
  pair.server.write_up_to(1'000'000, world.now());
  const auto probed = [&](std::uint64_t times) {
    return world.tcp(0).stats().window_probes >= times &&
           world.tcp(1).stats().window_probes >= times;
  };
  ASSERT_TRUE(world.run_until([&] { return probed(3); }, seconds{60}));
  // The probes are on the line.
  pair.client.reads = pair.server.reads = true;
  pair.client.read_all(world.now());
  pair.server.read_all(world.now());
  world.run_for(seconds{20});
  EXPECT_TRUE(pair.client.received_stream(1'000'000));
  EXPECT_TRUE(pair.server.received_stream(1'000'000));
  EXPECT_LT(world.tcp(0).stats().segments_out, 5'000U);
  pair.close_both();
}

TEST(TcpCrossing, DataAtAShutWindowStillAcknowledges) {
  ScriptTcp world(with_small_buffer());
  EXPECT_TRUE(run_script(world, after_filling(R"(
    write 100 -> 100
    > P. 1:101(100) ack 4097 win 0
    < P. 4097:4197(100) ack 101 win 50
    > . 101:101(0) ack 4097 win 0
    +1min nothing
    write 100 -> 100
    +200ms > . 101:151(50) ack 4097
    < P. 4097:4197(100) ack 151 win 30000
    > P. 151:201(50) ack 4097 win 0
    dropped out_of_window -> 2
    read -> 4096
    > . 201:201(0) ack 4097 win 4096
    abort
    > R. 201:201(0)
  )")));
}

TEST(TcpCrossing, AResetCountsThoughTheWindowIsShutAndItCarriesData) {
  ScriptTcp world(with_small_buffer());
  EXPECT_TRUE(run_script(world, after_filling(R"(
    < R. 4096:4100(4) ack 1
    < R. 4098:4100(2) ack 1
    dropped reset_out_of_window -> 2
    < R. 4097:4100(3) ack 1
    events -> acceptable readable closed:reset
  )")));
}

TEST(TcpCrossing, AnOldSegmentOffersNoWindowAndIsNoSignOfLife) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < P. 1:101(100) ack 1 win 1000
    +40ms > . 1:1(0) ack 101
    read -> 100
    < . 1:1(0) ack 1 win 0
    > . 1:1(0) ack 101
    < . -70000:-70000(0) ack 1 win 0
    > . 1:1(0) ack 101
    write 10 -> 10
    > P. 1:11(10) ack 101
    abort
    > R. 11:11(0)
  )")));
}

TEST(TcpCrossing, AForgedAcknowledgmentLeavesNoTimestamp) {
  ScriptTcpOptions options = plain_tcp();
  options.config.timestamps = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
    > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
    < . 1:1(0) ack 1 <ts val 1000 ecr 100>
    accept -> accepted
    < . 1:1(0) ack 70000 <ts val 500000000 ecr 100>
    > . 1:1(0) ack 1 <ts val 100 ecr 1000>
    < . 1:1(0) ack -70000 <ts val 500000000 ecr 100>
    > . 1:1(0) ack 1 <ts val 100 ecr 1000>
    < P. 1:11(10) ack 1 <ts val 1001 ecr 100>
    read -> 10
    +40ms > . 1:1(0) ack 11 ...
    abort
    > R. 1:1(0)
  )"));
}

TEST(TcpCrossing, AForgedAcknowledgmentIsNoSignOfLife) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    keepalive 2000 1000 1
    +1s < . 1:1(0) ack 70000
    > . 1:1(0) ack 1
    +1s > . 0:0(0) ack 1
    < . 1:1(0) ack 70000
    > . 1:1(0) ack 1
    +1s > R. 1:1(0)
    events -> closed:keepalive_timeout
  )")));
}

TEST(TcpCrossing, TheWindowOfASynIsNoMeasureOfLaterOnes) {
  ScriptTcpOptions options = plain_tcp();
  options.config.window_scale = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    connect -> in progress
    > S 0:0(0) win 65535 <mss 1460, wscale 0>
    < S. 0:0(0) ack 1 win 1000 <mss 1460, wscale 7>
    > . 1:1(0) ack 1
    write 3000 -> 3000
    > . 1:1001(1000) ack 1
    abort
    > R. 1001:1001(0)
  )"));
}

}  // namespace
}  // namespace pinion::test

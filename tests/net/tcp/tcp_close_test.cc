#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Connections end: the cases C1 to C7.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Whatever made us.
TEST(TcpClose, EveryConnectionThatWeResetIsCounted) {
  const std::pair<const char*, int> kEnds[] = {
      {"abort\n> R. 1:1(0)\n", 1},
      {"< P. 1:2(1) ack 1\nclose\n> R. 1:1(0)\n", 1},
      {"keepalive 1000 1000 1\n+1s > . 0:0(0)\n+1s > R. 1:1(0)\n", 1},
      {"user_timeout 2000\nwrite 1 -> 1\n> P. 1:2(1)\n+1s > P. 1:2(1)\n+1s > R. 2:2(0)\n", 1},
      {"< . 1:1(0) ack 1 win 0\nuser_timeout 1000\nwrite 1 -> 1\n"
       "+1s > P. 1:2(1)\n+1s > R. 1:1(0)\n",
       1},
      {"close\n> F. 1:1(0) ack 1\n< . 1:1(0) ack 2\n+2001ms < P. 1:2(1) ack 2\n> R. 2:2(0)\n", 1},
      {"< R 1:1(0)\n", 0},
      {"shutdown\n> F. 1:1(0) ack 1\n< F. 1:1(0) ack 2\n> . 2:2(0) ack 2\n", 0},
      {"< [b] . 1:1(0) ack 1\n> [b] R 1:1(0)\nabort\n> R. 1:1(0)\n", 1},  // One was no connection.
  };
  for (const auto& [script, resets] : kEnds) {
    ScriptTcp world(plain_tcp());
    EXPECT_TRUE(run_script(
        world, after_accept(script + ("count resets -> " + std::to_string(resets) + "\n"))));
  }
}

// C1: simultaneous close, and a lost first FIN.
TEST(TcpCases, C1_ALostFinGoesOutAgainAlsoFromClosing) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    +1s > F. 1:1(0) ack 1
    < F. 1:1(0) ack 1
    > . 2:2(0) ack 2
    state -> closing
    +2s > F. 1:1(0) ack 2
    < . 2:2(0) ack 2
    events -> closed:orderly
    state -> gone
    count time_waits -> 1
    < F. 1:1(0) ack 2
    > . 2:2(0) ack 2
    +61s nothing
    count time_waits -> 0
  )")));
}

// C2: the ACK of a FIN covers data sent with it.
TEST(TcpCases, C2_TheAckOfAFinCoversTheDataWithIt) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 100 -> 100
    > P. 1:101(100) ack 1
    write 50 -> 50
    close
    > FP. 101:151(50) ack 1
    < . 1:1(0) ack 152
    state -> fin_wait_2
    +59s nothing
    +2s nothing
    events -> closed:close_timeout
    count connections -> 0
  )")));
}

// C3: close with unread data.
TEST(TcpCases, C3_ClosingWithUnreadDataResets) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < P. 1:101(100) ack 1
    close
    > R. 1:1(0) ack 101
    events -> readable closed:aborted
    count packets -> 0
  )")));
}

// C4: 16,384 and more connections to one destination.
TEST(TcpCases, C4_EphemeralPortsComeBack) {
  TwoHostsOptions options;
  options.latency = Delay();
  options.config.max_time_waits = 20'000;
  TwoHosts world(options);
  const auto listener = world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr);
  ASSERT_TRUE(listener);
  for (int i = 0; i < 17'000; ++i) {
    TestSocket client(world.tcp(0));
    TestSocket server(world.tcp(1));
    const auto made = world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
    ASSERT_TRUE(made) << i;
    client.handle = *made;
    world.run_for(Delay());
    server.handle = world.tcp(1).accept(*listener, &server);
    ASSERT_TRUE(server.handle) << i;
    world.tcp(0).close(client.handle, world.now());
    world.run_for(Delay());
    world.tcp(1).close(server.handle, world.now());
    world.run_for(milliseconds{1});
    ASSERT_EQ(client.end, TcpEnd::orderly) << i;
    ASSERT_EQ(server.end, TcpEnd::orderly) << i;
  }
  EXPECT_GT(world.tcp(0).time_waits(), 16'000U);
}

// C4: a later SYN for a 4-tuple in TIME-WAIT re-opens it.
TEST(TcpCases, C4_ALaterSynReopensATupleInTimeWait) {
  for (const bool timestamps : {false, true}) {
    TwoHostsOptions options;
    options.config.timestamps = timestamps;
    TwoHosts world(options);
    const auto listener = world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr);
    ASSERT_TRUE(listener);
    for (int i = 0; i < 3; ++i) {
      TestSocket client(world.tcp(0));
      TestSocket server(world.tcp(1));
      const auto made = world.tcp(0).connect({.remote = world.endpoint(1, 7), .local_port = 5'000},
                                             &client, world.now());
      ASSERT_TRUE(made);
      client.handle = *made;
      world.run_for(milliseconds{50});
      server.handle = world.tcp(1).accept(*listener, &server);
      ASSERT_TRUE(server.handle) << i;
      EXPECT_EQ(world.tcp(1).time_waits(), 0U);
      // Whoever closes first waits.
      world.tcp(1).close(server.handle, world.now());
      world.run_for(milliseconds{50});
      world.tcp(0).close(client.handle, world.now());
      world.run_for(seconds{2});
      EXPECT_EQ(server.end, TcpEnd::orderly);
      EXPECT_EQ(client.end, TcpEnd::orderly);
      EXPECT_EQ(world.tcp(1).time_waits(), 1U);
    }
  }
}

// C5: a full TIME-WAIT table.
TEST(TcpCases, C5_AFullTimeWaitTableFailsNobody) {
  TwoHostsOptions options;
  options.config.max_time_waits = 16;
  TwoHosts world(options);
  for (int i = 0; i < 100; ++i) {
    const auto listener = world.tcp(1).listen(world.endpoint(1, 7), {}, nullptr);
    ASSERT_TRUE(listener);
    TestSocket client(world.tcp(0));
    client.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
    world.run_for(milliseconds{20});
    TestSocket server(world.tcp(1));
    server.handle = world.tcp(1).accept(*listener, &server);
    ASSERT_TRUE(server.handle);
    server.closes_at_end = true;
    world.tcp(0).close(client.handle, world.now());
    world.run_for(milliseconds{50});
    EXPECT_EQ(client.end, TcpEnd::orderly);
    world.tcp(1).close(*listener, world.now());
  }
  EXPECT_EQ(world.tcp(0).time_waits(), 16U);
}

// C6: half-close, both ways.
TEST(TcpCases, C6_AfterAHalfCloseTheOtherDirectionGoesOn) {
  for (const int first : {0, 1}) {
    TwoHosts world;
    TestPair pair(world);
    TestSocket& closer = first == 0 ? pair.client : pair.server;
    TestSocket& other = first == 0 ? pair.server : pair.client;
    world.tcp(first).shutdown_write(closer.handle, world.now());
    world.run_for(milliseconds{50});
    EXPECT_TRUE(other.finished);
    std::byte byte{};
    EXPECT_EQ(world.tcp(first).write(closer.handle, {&byte, 1}, world.now()).outcome,
              TcpOutcome::closed);
    other.write_up_to(500'000, world.now());
    world.run_for(seconds{120});
    other.write_up_to(600'000, world.now());
    world.run_for(seconds{5});
    EXPECT_TRUE(closer.received_stream(600'000));
    world.tcp(1 - first).close(other.handle, world.now());
    world.run_for(milliseconds{50});
    EXPECT_TRUE(closer.finished);
    EXPECT_EQ(closer.end, TcpEnd::orderly);
    EXPECT_EQ(other.end, TcpEnd::orderly);
    EXPECT_EQ(world.tcp(first).connections(), 1U);  // Its handle still names it,
    world.tcp(first).close(closer.handle, world.now());
    world.run_for(milliseconds{1});
    EXPECT_EQ(world.tcp(first).connections(), 0U);  // until it is let go.
    EXPECT_EQ(closer.closed, 1);
  }
}

// C7: the end is told once, and a stale handle reaches nobody.
TEST(TcpCases, C7_TheEndIsToldOnceAndAStaleHandleReachesNobody) {
  TwoHostsOptions options;
  options.config.max_connections = 1;
  TwoHosts world(options);
  TestPair pair(world);
  const TcpHandle stale = pair.client.handle;
  EXPECT_EQ(world.tcp(0).connect({.remote = world.endpoint(1, 7)}, nullptr, world.now()).error(),
            TcpConnectError::no_resources);
  world.tcp(1).abort(pair.server.handle, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(pair.client.closed, 1);
  world.tcp(0).close(stale, world.now());
  world.tcp(0).close(stale, world.now());
  world.tcp(0).abort(stale, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(pair.client.closed, 1);

  TestSocket next(world.tcp(0));
  next.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &next, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(next.connected, 1);
  EXPECT_EQ(next.handle.index, stale.index);
  EXPECT_NE(next.handle, stale);
  std::byte byte{};
  EXPECT_EQ(world.tcp(0).write(stale, {&byte, 1}, world.now()).outcome, TcpOutcome::gone);
  EXPECT_EQ(world.tcp(0).read(stale, {&byte, 1}, world.now()).outcome, TcpOutcome::gone);
  world.tcp(0).abort(stale, world.now());
  world.tcp(0).shutdown_write(stale, world.now());
  world.run_for(milliseconds{50});
  EXPECT_EQ(world.tcp(0).info(next.handle)->state, TcpState::established);
  EXPECT_EQ(next.closed, 0);
}

// What lies behind a hole was never received, as far as the peer knows: it is as what is under way.
TEST(TcpClose, BytesBehindAHoleAreDiscardedAsThoseUnderWay) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < P. 101:201(100) ack 1
    > . 1:1(0) ack 1
    close
    > F. 1:1(0) ack 1
    < . 201:201(0) ack 2
    +200ms < . 1:101(100) ack 2
    > . 2:2(0) ack 201
    count packets -> 0
    < F. 201:201(0) ack 2
    > . 2:2(0) ack 202
    events -> closed:orderly
  )")));
}

TEST(TcpClose, WhatComesAfterCloseIsDiscardedForAWhileThenReset) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < . 1:1(0) ack 2
    < P. 1:101(100) ack 2
    +40ms > . 2:2(0) ack 101
    count packets -> 0
    +3s < P. 101:201(100) ack 2
    > R. 2:2(0) ack 101
    events -> closed:data_after_close
    dropped data_after_close -> 1
  )")));
}

TEST(TcpClose, DataThatCameBeforeResetNothingWithTheirFin) {
  const std::string discarded = R"(
    close
    > F. 1:1(0) ack 1
    < . 1:1(0) ack 2
    < P. 1:101(100) ack 2
    +40ms > . 2:2(0) ack 101
  )";
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(discarded + R"(
    +3s < FP. 1:101(100) ack 2      # The acknowledgement was lost.
    > . 2:2(0) ack 102
    events -> closed:orderly
    count time_waits -> 1
  )")));
  ScriptTcp crossing(plain_tcp());
  EXPECT_TRUE(run_script(crossing, after_accept(R"(
    close
    > F. 1:1(0) ack 1
    < P. 1:101(100) ack 1
    +40ms > . 2:2(0) ack 101
    +960ms > F. 1:1(0) ack 101
    +1500ms < FP. 1:101(100) ack 1
    > . 2:2(0) ack 102
    state -> closing
    < . 102:102(0) ack 2
    events -> closed:orderly
  )")));
  ScriptTcp more(plain_tcp());
  EXPECT_TRUE(run_script(more, after_accept(discarded + R"(
    +3s < FP. 1:102(101) ack 2      # One byte is new.
    > R. 2:2(0) ack 101
    events -> closed:data_after_close
  )")));
}

TEST(TcpClose, WhatComesIsDiscardedAsLongAsThePeerTakesOurs) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(
      run_script(world, after_accept("write 14600 -> 14600\n" + full_segments(1, 9, 1460) + R"(
    > P. 13141:14601(1460) ack 1
    close
    > F. 14601:14601(0) ack 1
    +900ms < . 1:1(0) ack 1461
    +1s < . 1:1(0) ack 2921
    +1600ms < P. 1:101(100) ack 2921
    +40ms > . 14602:14602(0) ack 101
    +960ms < P. 101:201(100) ack 2921
    > R. 14602:14602(0) ack 101
    events -> closed:data_after_close
  )")));
}

TEST(TcpClose, AListenerThatClosesResetsWhoWaits) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1
    < P. 1:11(10) ack 1
    +40ms > . 1:1(0) ack 11
    unlisten
    > R. 1:1(0) ack 11
    count connections -> 0
    accept -> none
    < [b] S 0:0(0)
    > [b] R. 0:0(0) ack 1
  )"));
}

TEST(TcpClose, DataBehindTheFinIsNotTaken) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < FP. 1:101(100) ack 1
    > . 1:1(0) ack 102
    < P. 102:202(100) ack 1
    > . 1:1(0) ack 102
    dropped data_after_fin -> 1
    read -> 100
    read -> finished
    abort
    > R. 1:1(0)
  )")));
}

TEST(TcpClose, DataBehindAFinThatWaitsForItsTurnIsAnsweredToo) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < F. 61:61(0) ack 1
    > . 1:1(0) ack 1
    < P. 101:201(100) ack 1
    > . 1:1(0) ack 1
    < F. 101:101(0) ack 1
    > . 1:1(0) ack 1
    dropped data_after_fin -> 2
    < P. 1:61(60) ack 1
    > . 1:1(0) ack 62
    read -> 60
    read -> finished
    abort
    > R. 1:1(0)
  )")));
}

}  // namespace
}  // namespace pinion::test

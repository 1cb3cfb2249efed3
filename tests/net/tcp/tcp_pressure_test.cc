#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"
#include "wire/byte_order.h"

/// Readers who don't read, peers who take nothing, and what is left for everybody else.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string open_and_accept(const std::string& flow) {
  return "< " + flow + " S 0:0(0) win 65535 <mss 1460>\n> " + flow + " S. 0:0(0) ack 1\n< " + flow +
         " . 1:1(0) ack 1\naccept -> accepted\n";
}

TEST(TcpPressure, ReadersWhoDoNotReadLeavePacketsToTheOthers) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 64;
  ScriptTcp world(options);
  std::string script;
  for (const std::string flow : {"[b]", "[c]", "[d]", "[e]"}) {
    script += open_and_accept(flow);
    for (int i = 0; i < 10; ++i) {
      const auto segment = [&](int number) {
        const int begin = 1 + number * 1'460;
        return "< " + flow + " . " + std::to_string(begin) + ":" + std::to_string(begin + 1'460) +
               "(1460) ack 1\n";
      };
      script += segment(2 * i) + "& " + segment(2 * i + 1) + "> " + flow + " . 1:1(0)\n";
    }
  }
  script += open_and_accept("[f]") + R"(
    < [f] P. 1:1001(1000) ack 1
    read -> 1000
    +40ms > [f] . 1:1(0) ack 1001
    write 1000 -> 1000
    > [f] P. 1:1001(1000) ack 1001
    abort
    > [f] R. 1001:1001(0)
  )";
  EXPECT_TRUE(run_script(world, script));
  EXPECT_GT(world.tcp().stats().dropped(TcpDrop::no_room), 0U);
  EXPECT_GT(world.tcp().stats().bytes_in, 50'000U);
}

TEST(TcpPressure, WhoIsBehindIsOfferedNoMoreUntilItReads) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 64;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1461(1460) ack 1
    & < . 1461:2921(1460) ack 1
    > . 1:1(0) ack 2921 win 62615
    leave 8
    < . 2921:4381(1460) ack 1
    > . 1:1(0) ack 2921 win 62615
    < P. 4381:5841(1460) ack 1
    > . 1:1(0) ack 2921 win 62615
    dropped no_room -> 2
    read -> 2920
    > . 1:1(0) ack 2921 win 65535
    < . 2921:4381(1460) ack 1
    +40ms > . 1:1(0) ack 4381
    leave all
    abort
    > R. 1:1(0)
  )")));
}

TEST(TcpPressure, PeersWhoAcknowledgeNothingGetNoMorePackets) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 64;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    no_delay on
    leave 10
    write 2000 -> 2000
    > . 1:1461(1460) ack 1
    > P. 1461:2001(540) ack 1
    write 10 -> 0
    < . 1:1(0) ack 2001
    events -> writable
    write 10 -> 10
    > P. 2001:2011(10) ack 1
    abort
    > R. 2011:2011(0)
    leave 10
    count packets -> 54
  )")));
}

TEST(TcpPressure, OneWriteLeavesTheReserve) {
  ScriptTcpOptions options = plain_tcp();
  options.pool.packets = 64;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1(0) ack 1 win 0
    write 200000 -> *
    < P. 1:11(10) ack 1 win 0
    +40ms > . 1:1(0) ack 11
    abort
    > R. 1:1(0)
  )")));
}

TEST(TcpPressure, AfterCloseAPeerThatOnlyAnswersIsGivenUp) {
  ScriptTcpOptions options = plain_tcp();
  options.config.orphan_limit = seconds{20};
  ScriptTcp world(options);
  std::string script = "< . 1:1(0) ack 1 win 0\nwrite 10 -> 10\nclose\n";
  for (const char* const time : {"1s", "2s", "4s", "8s"}) {
    script += std::string("+") + time + " > . 1:2(1) ack 1\n< . 1:1(0) ack 1 win 0\n";
  }
  script += "+16s > R. 1:1(0)\nevents -> closed:close_timeout\ncount connections -> 0\n";
  EXPECT_TRUE(run_script(world, after_accept(script)));
  EXPECT_EQ(world.tcp().stats().orphan_timeouts, 1U);
}

/// A close with ten bytes and a FIN on their way, whose peer has three seconds for a segment.
testing::AssertionResult is_given_up_after(const std::string& script) {
  ScriptTcpOptions options = plain_tcp();
  options.config.orphan_limit = seconds{3};
  ScriptTcp world(options);
  const std::string begin = R"(
    write 10 -> 10
    > P. 1:11(10) ack 1
    close
    > F. 11:11(0) ack 1
  )";
  return run_script(
      world, after_accept(begin + script + "> R. 12:12(0)\nevents -> closed:close_timeout\n"));
}

TEST(TcpPressure, AfterCloseAPeerThatTakesAByteAtATimeIsGivenUp) {
  EXPECT_TRUE(is_given_up_after(R"(
    +1s > FP. 1:11(10) ack 1
    < . 1:1(0) ack 2
    +2s )"));
}

TEST(TcpPressure, AfterCloseAPeerThatTakesAByteNowAndThenIsGivenUpToo) {
  EXPECT_TRUE(is_given_up_after(R"(
    +500ms < . 1:1(0) ack 2
    +500ms < . 1:1(0) ack 3
    +500ms < . 1:1(0) ack 4
    +500ms < . 1:1(0) ack 5
    +500ms < . 1:1(0) ack 6
    +500ms < . 1:1(0) ack 7
    +500ms < . 1:1(0) ack 8
    +500ms < . 1:1(0) ack 9
    +700us )"));
}

/// What is left of a connection whose reader takes a piece each five seconds, after a close.
struct SlowReader {
  explicit SlowReader(bool v6)
      : world({.config = {.orphan_limit = seconds{20}}, .v6 = v6}),
        pair(world, {}, {.socket = {.receive_buffer = 4'096}}) {
    pair.server.reads = false;
    pair.client.write_up_to(kSize, world.now());
    world.tcp(0).close(pair.client.handle, world.now());
  }
  void read_for(Delay time) {
    for (const Instant end = world.now() + time; world.now() < end; world.run_for(seconds{5})) {
      static_cast<void>(pair.server.read_piece(world.now()));
    }
  }

  static constexpr std::uint64_t kSize = 60'000;
  TwoHosts world;
  TestPair pair;
};

// RFC 9293, 3.6: what was written before is delivered.
TEST(TcpPressure, AfterCloseAPeerThatTakesASegmentNowAndThenGetsEverything) {
  for (const bool v6 : {false, true}) {
    SlowReader slow(v6);
    slow.read_for(seconds{120});
    EXPECT_TRUE(slow.pair.server.received_stream(SlowReader::kSize)) << slow.pair.server.received;
    EXPECT_TRUE(slow.pair.server.finished);
    slow.world.tcp(1).close(slow.pair.server.handle, slow.world.now());
    slow.world.run_for(seconds{1});
    EXPECT_EQ(slow.pair.client.end, TcpEnd::orderly);
    EXPECT_EQ(slow.pair.server.end, TcpEnd::orderly);
  }
}

TEST(TcpPressure, AfterCloseAPeerThatTakesNoMoreIsGivenUp) {
  for (const bool v6 : {false, true}) {
    SlowReader slow(v6);
    slow.read_for(seconds{45});
    ASSERT_EQ(slow.pair.client.closed, 0);
    const Instant last = slow.world.now() - seconds{5};
    EXPECT_TRUE(slow.world.run_until([&] { return slow.pair.client.closed != 0; }, seconds{90}));
    EXPECT_GE(slow.world.now() - last, seconds{20});
    EXPECT_EQ(slow.pair.client.end, TcpEnd::close_timeout);
    EXPECT_EQ(slow.world.tcp(0).stats().orphan_timeouts, 1U);
    slow.world.run_for(seconds{1});
    slow.pair.server.read_all(slow.world.now());
    slow.world.tcp(1).close(slow.pair.server.handle, slow.world.now());
  }
}

TEST(TcpPressure, AfterCloseALossDoesNotEndWhatGoesOn) {
  ScriptTcpOptions options = plain_tcp();
  options.config.orphan_limit = seconds{6};
  ScriptTcp world(options);
  std::string script = "write 14600 -> 14600\n" + full_segments(1, 9, 1460) + R"(
    > P. 13141:14601(1460) ack 1
    close
    > F. 14601:14601(0) ack 1
  )";
  // Three pieces make a segment.
  for (int acked = 501; acked <= 8'001; acked += 500) {
    script += "+500ms < . 1:1(0) ack " + std::to_string(acked) + "\n";
  }
  script += R"(
    +4s..5s > . 8001:9461(1460) ack 1
    +8s..10s > R. 14602:14602(0) ack 1
    events -> closed:close_timeout
  )";
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

TEST(TcpPressure, AtTheLimitTheOldestOrphanGivesWay) {
  ScriptTcpOptions options = plain_tcp();
  options.config.max_connections = 2;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1:1(0) ack 1 win 0
    write 10 -> 10
    close
    < [b] S 0:0(0) win 65535 <mss 1460>
    > [b] S. 0:0(0) ack 1
    < [b] . 1:1(0) ack 1 win 0
    accept -> accepted
    write 10 -> 10
    close
    < [c] S 0:0(0) win 65535 <mss 1460>
    > [c] S. 0:0(0) ack 1
    < [c] . 1:1(0) ack 1
    > R. 1:1(0)
    dropped no_connection_slot -> 1
    < [c] P. 1:11(10) ack 1
    accept -> accepted
    read -> 10
    +40ms > [c] . 1:1(0) ack 11
    abort
    > [c] R. 1:1(0)
    count connections -> 1
    +960ms > [b] . 1:2(1) ack 1
  )")));
  EXPECT_EQ(world.tcp().stats().orphans_displaced, 1U);
}

TEST(TcpPressure, DuplicatesAreToldOfBesideData) {
  ScriptTcpOptions options = plain_tcp();
  options.config.sack = true;
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, R"(
    < S 0:0(0) win 65535 <mss 1460, sack>
    > S. 0:0(0) ack 1 <mss 1460, sack>
    < . 1:1(0) ack 1
    accept -> accepted
    < P. 1:101(100) ack 1
    +40ms > . 1:1(0) ack 101 <>
    write 10 -> 10
    > P. 1:11(10) ack 101 <>
    write 10 -> 10
    < P. 51:151(100) ack 11
    > P. 11:21(10) ack 151 <sack 51:101>
    < P. 1:51(50) ack 21
    > . 21:21(0) ack 151 <sack 1:51>
    abort
    > R. 21:21(0)
  )"));
}

/// Tells `tcp` that the segment was too big.
void complain(Tcp& tcp, TwoHosts& world, const LineSegment& line, std::size_t mtu) {
  const wire::TcpHeader& header = line.segment.header;
  std::array<std::byte, 8> quoted{};
  wire::store_be16(quoted.data(), header.source_port);
  wire::store_be16(quoted.data() + 2, header.destination_port);
  wire::store_be32(quoted.data() + 4, header.sequence.value());
  tcp.complain({.trouble = IpTrouble::packet_too_big,
                .mtu = mtu,
                .source = world.endpoint(0, 0).address,
                .destination = world.endpoint(1, 0).address,
                .quoted = quoted},
               world.now());
  tcp.end_of_burst(world.now());
}

TEST(TcpPressure, EachConnectionOfAPathTakesItsOwnComplaint) {
  TwoHosts world;
  TestPair first(world);
  TestSocket second(world.tcp(0));
  second.handle = *world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &second, world.now());
  world.run_for(milliseconds{50});
  TestSocket server(world.tcp(1));
  server.handle = world.tcp(1).accept(first.listener, &server);
  ASSERT_TRUE(server.handle);
  world.passes = [](const LineSegment& line) { return line.size < 1'000; };
  world.recording = true;
  first.client.write_up_to(1'300, world.now());
  second.write_up_to(1'300, world.now());
  ASSERT_EQ(world.sent.size(), 2U);
  const LineSegment one = world.sent[0];
  const LineSegment other = world.sent[1];
  complain(world.tcp(0), world, one, 1'000);
  complain(world.tcp(0), world, other, 1'000);
  EXPECT_EQ(world.tcp(0).stats().dropped(TcpDrop::complaint_mtu), 0U);
  world.run_for(milliseconds{60});
  EXPECT_TRUE(first.server.received_stream(1'300));
  EXPECT_TRUE(server.received_stream(1'300));
  complain(world.tcp(0), world, other, 1'000);
  EXPECT_EQ(world.tcp(0).stats().retransmission_timeouts, 0U);
  world.tcp(0).abort(second.handle, world.now());
  first.close_both();
}

/// Two connections over one path, on which nothing larger than a smaller MTU passes from now on;
/// the first has been told.
struct SharedPath {
  explicit SharedPath(bool v6)
      : mtu(v6 ? 1'300 : 1'000), world({.v6 = v6}), first(world), second(world.tcp(0)) {
    second.handle = *world.tcp(0).connect(
        {.remote = world.endpoint(1, 7), .options = {.no_delay = true}}, &second, world.now());
    world.run_for(milliseconds{50});
    server.emplace(world.tcp(1));
    server->handle = world.tcp(1).accept(first.listener, &*server);
    EXPECT_TRUE(bool{server->handle});
    const std::size_t headers = v6 ? 72 : 52;
    world.passes = [=, this](const LineSegment& line) { return line.size + headers <= mtu; };
    world.recording = true;
  }
  /// The first sends what doesn't pass, and hears of it.
  void first_is_told() {
    const std::size_t before = world.sent.size();
    first.client.write_up_to(first.client.written + 1'400, world.now());
    complain(world.tcp(0), world, LineSegment(world.sent.at(before)), mtu);
  }
  TcpInfo info() { return *world.tcp(0).info(second.handle); }
  /// Both streams are whole, and both ends let go.
  void end(std::uint64_t size) {
    EXPECT_TRUE(first.server.received_stream(first.client.written));
    EXPECT_TRUE(server->received_stream(size)) << server->received;
    world.tcp(0).abort(second.handle, world.now());
    first.close_both();
  }

  std::size_t mtu;
  TwoHosts world;
  TestPair first;
  TestSocket second;
  std::optional<TestSocket> server;
};

TEST(TcpPressure, WhatOneConnectionLearnsOfAPathTheOthersKnowBeforeTheySend) {
  for (const bool v6 : {false, true}) {
    SharedPath path(v6);
    const TcpInfo before = path.info();
    path.first_is_told();
    path.second.write_up_to(6'000, path.world.now());
    path.world.run_for(milliseconds{60});
    path.end(6'000);
    EXPECT_EQ(path.world.tcp(0).stats().retransmission_timeouts, 0U);
    EXPECT_EQ(path.world.tcp(0).stats().dropped(TcpDrop::complaint_mtu), 0U);
    EXPECT_EQ(before.segment, 1'448U - (v6 ? 20U : 0U));
  }
}

// RFC 1191, 6.4: nor is it congestion.
TEST(TcpPressure, WhatWasTooBigForAPathIsNotTakenForCongestion) {
  for (const bool v6 : {false, true}) {
    // Two full segments are lost without a sign; what passes behind them brings a duplicate.
    for (const std::uint32_t more : {0U, 100U}) {
      SharedPath path(v6);
      const std::uint32_t size = 2U * path.info().segment + more;
      path.second.write_up_to(size, path.world.now());
      const TcpInfo before = path.info();
      path.first_is_told();
      EXPECT_EQ(path.info().flight, size) << "it has had no word yet";
      EXPECT_TRUE(path.world.run_until([&] { return path.server->received == size; }, seconds{1}));
      EXPECT_GE(path.info().congestion_window, before.congestion_window);
      EXPECT_EQ(path.info().congestion_threshold, before.congestion_threshold);
      EXPECT_EQ(path.world.tcp(0).stats().retransmission_timeouts, 0U);
      path.world.run_for(seconds{1});
      path.end(size);
    }
  }
}

TEST(TcpPressure, WhatWasTooBigForAPathGoesOutAgainWithWhatIsWritten) {
  for (const bool v6 : {false, true}) {
    SharedPath path(v6);
    path.second.write_up_to(3'000, path.world.now());
    const TcpInfo before = path.info();
    path.first_is_told();
    path.second.write_up_to(4'000, path.world.now());
    EXPECT_TRUE(
        path.world.run_until([&] { return path.server->received == 4'000; }, milliseconds{60}));
    EXPECT_GE(path.info().congestion_window, before.congestion_window);
    EXPECT_EQ(path.world.tcp(0).stats().retransmission_timeouts, 0U);
    path.world.run_for(seconds{1});
    path.end(4'000);
  }
}

// What fits the path has been lost for another reason.
TEST(TcpPressure, ALossOfWhatFitsThePathIsCongestion) {
  for (const bool v6 : {false, true}) {
    SharedPath path(v6);
    const auto passes = std::exchange(path.world.passes, [](const LineSegment&) { return false; });
    path.second.write_up_to(500, path.world.now());
    path.world.passes = passes;
    path.first_is_told();
    EXPECT_TRUE(path.world.run_until([&] { return path.server->received == 500; }, seconds{2}));
    EXPECT_EQ(path.world.tcp(0).stats().retransmission_timeouts, 1U);
    EXPECT_LE(path.info().congestion_window, 3U * path.info().segment);
    path.world.run_for(seconds{1});
    path.end(500);
  }
}

TEST(TcpPressure, ADeadlineLongPastIsToldAtOnce) {
  ScriptTcp world(plain_tcp());
  ASSERT_TRUE(run_script(world, after_accept("")));
  world.tcp().set_read_deadline({.index = 0, .generation = 1}, Instant{}, world.now());
  world.tcp().set_write_deadline({.index = 0, .generation = 1},
                                 world.now() - std::chrono::hours{24 * 30}, world.now());
  EXPECT_TRUE(run_script(world, R"(
    +2ms nothing
    events -> read_deadline write_deadline
    abort
    > R. *
  )"));
}

}  // namespace
}  // namespace pinion::test

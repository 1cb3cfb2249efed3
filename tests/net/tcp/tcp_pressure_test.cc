#include <array>
#include <chrono>
#include <string>

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

TEST(TcpPressure, AfterCloseAPeerThatTakesAByteAtATimeIsGivenUp) {
  ScriptTcpOptions options = plain_tcp();
  options.config.orphan_limit = seconds{3};
  ScriptTcp world(options);
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 10 -> 10
    > P. 1:11(10) ack 1
    close
    > F. 11:11(0) ack 1
    +1s > FP. 1:11(10) ack 1
    < . 1:1(0) ack 2
    +2s > R. 12:12(0)
    events -> closed:close_timeout
  )")));
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

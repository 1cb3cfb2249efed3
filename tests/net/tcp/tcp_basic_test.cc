#include <chrono>

#include <gtest/gtest.h>

#include "two_hosts.h"

/// Connections begin, carry bytes and end.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::TcpFlag;

TEST(TcpBasic, ConnectsOverBothFamilies) {
  for (const bool v6 : {false, true}) {
    TwoHosts world({.v6 = v6});
    TestPair pair(world);
    EXPECT_EQ(pair.client.connected, 1);
    const auto info = world.tcp(0).info(pair.client.handle);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->state, TcpState::established);
    EXPECT_EQ(info->remote, world.endpoint(1, 7));
    EXPECT_EQ(info->segment, v6 ? 1500 - 60 - 12 : 1500 - 40 - 12);
    pair.close_both();
    EXPECT_EQ(pair.client.end, TcpEnd::orderly);
    EXPECT_EQ(pair.server.end, TcpEnd::orderly);
  }
}

TEST(TcpBasic, CarriesBytesBothWays) {
  TwoHosts world;
  TestPair pair(world);
  pair.client.write_up_to(1'000'000, world.now());
  pair.server.write_up_to(300'000, world.now());
  world.run_for(seconds{10});
  EXPECT_TRUE(pair.server.received_stream(1'000'000));
  EXPECT_TRUE(pair.client.received_stream(300'000));
  EXPECT_EQ(world.tcp(0).stats().retransmitted_segments, 0U);
  EXPECT_EQ(world.tcp(1).stats().retransmitted_segments, 0U);
  pair.close_both();
}

TEST(TcpBasic, ClosesInOrderAndTellsItOnce) {
  TwoHosts world;
  TestPair pair(world);
  pair.server.closes_at_end = true;
  pair.client.write_up_to(5'000, world.now());
  world.tcp(0).close(pair.client.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_TRUE(pair.server.received_stream(5'000));
  EXPECT_TRUE(pair.server.finished);
  EXPECT_EQ(pair.client.closed, 1);
  EXPECT_EQ(pair.server.closed, 1);
  EXPECT_EQ(pair.client.end, TcpEnd::orderly);
  EXPECT_EQ(pair.server.end, TcpEnd::orderly);
  EXPECT_EQ(world.tcp(0).connections(), 0U);
  EXPECT_EQ(world.tcp(1).connections(), 0U);
  EXPECT_EQ(world.tcp(0).time_waits(), 1U);
  EXPECT_EQ(world.tcp(1).time_waits(), 0U);
  world.run_for(seconds{61});
  EXPECT_EQ(world.tcp(0).time_waits(), 0U);
  EXPECT_EQ(pair.client.closed, 1);
}

TEST(TcpBasic, AbortResetsThePeer) {
  TwoHosts world;
  TestPair pair(world);
  world.tcp(0).abort(pair.client.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(pair.client.end, TcpEnd::aborted);
  EXPECT_EQ(pair.server.end, TcpEnd::reset);
  EXPECT_EQ(world.tcp(1).stats().resets_in, 1U);
  world.tcp(1).close(pair.server.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(world.tcp(1).connections(), 0U);
}

TEST(TcpBasic, KeepsWhatHadArrivedReadableAfterAReset) {
  TwoHosts world;
  TestPair pair(world);
  pair.server.reads = false;
  pair.client.write_up_to(3'000, world.now());
  world.run_for(seconds{1});
  world.tcp(0).abort(pair.client.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(pair.server.end, TcpEnd::reset);
  pair.server.read_all(world.now());
  EXPECT_TRUE(pair.server.received_stream(3'000));
  std::byte byte{};
  EXPECT_EQ(world.tcp(1).read(pair.server.handle, {&byte, 1}, world.now()).outcome,
            TcpOutcome::closed);
  world.tcp(1).close(pair.server.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(world.tcp(1).read(pair.server.handle, {&byte, 1}, world.now()).outcome,
            TcpOutcome::gone);
}

TEST(TcpBasic, IsRefusedAtOnceWhereNobodyListens) {
  TwoHosts world;
  TestSocket client(world.tcp(0));
  const auto connected =
      world.tcp(0).connect({.remote = world.endpoint(1, 9)}, &client, world.now());
  ASSERT_TRUE(connected);
  client.handle = *connected;
  world.run_for(milliseconds{10});
  EXPECT_EQ(client.end, TcpEnd::refused);
  world.tcp(0).close(client.handle, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(world.tcp(0).connections(), 0U);
  EXPECT_EQ(world.tcp(1).stats().dropped(TcpDrop::no_listener), 1U);
}

}  // namespace
}  // namespace pinion::test

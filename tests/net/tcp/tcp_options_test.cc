#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "two_hosts.h"

/// What a user sets of a connection and of a listener, and what is told of them.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::TcpFlag;

/// The traffic classes of the segments that `from` has sent.
std::set<int> classes_from(const TwoHosts& world, int from) {
  std::set<int> classes;
  for (const LineSegment& line : world.sent) {
    if (line.from == from) classes.insert(line.traffic_class);
  }
  return classes;
}

TEST(TcpOptions, SegmentsCarryTheClassThatWasSet) {
  for (const bool v6 : {false, true}) {
    TwoHosts world({.v6 = v6});
    world.recording = true;
    // Those of ECN are not the user's.
    TestPair pair(world, {.traffic_class = 0xb9}, {.socket = {.traffic_class = 0x20}});
    pair.client.write_up_to(3'000, world.now());
    pair.server.write_up_to(3'000, world.now());
    world.run_for(seconds{1});
    EXPECT_EQ(classes_from(world, 0), std::set{0xb8});
    EXPECT_EQ(classes_from(world, 1), std::set{0x20});
    world.sent.clear();
    world.tcp(1).set_traffic_class(pair.server.handle, 0x48);
    pair.server.write_up_to(6'000, world.now());
    world.run_for(seconds{1});
    pair.close_both();
    EXPECT_EQ(classes_from(world, 0), std::set{0xb8});
    EXPECT_EQ(classes_from(world, 1), std::set{0x48});
  }
}

TEST(TcpOptions, WhoWaitsForAcceptHasTheClassOfTheListener) {
  TwoHosts world;
  const auto listener =
      world.tcp(1).listen(world.endpoint(1, 7), {.socket = {.traffic_class = 0x20}}, nullptr);
  ASSERT_TRUE(listener);
  TestSocket client(world.tcp(0));
  const auto made = world.tcp(0).connect({.remote = world.endpoint(1, 7)}, &client, world.now());
  ASSERT_TRUE(made);
  client.handle = *made;
  world.recording = true;
  client.write_up_to(3'000, world.now());
  world.run_for(seconds{1});
  world.tcp(1).close(*listener, world.now());
  world.run_for(seconds{1});
  EXPECT_EQ(client.end, TcpEnd::reset);
  EXPECT_EQ(classes_from(world, 1), std::set{0x20});
  world.tcp(0).close(client.handle, world.now());
}

TEST(TcpOptions, AListenersOptionsChangeForThoseWhoCome) {
  TwoHosts world;
  TestPair pair(world, {}, {.socket = {.traffic_class = 0x20, .receive_buffer = 8'192}});
  world.tcp(1).set_options(
      pair.listener,
      {.socket = {.traffic_class = 0x48, .max_segment = 500, .receive_buffer = 1'000'000},
       .backlog = 0});
  world.recording = true;
  TestSocket second(world.tcp(0));
  TestSocket third(world.tcp(0));
  for (TestSocket* const socket : {&second, &third}) {
    const auto made = world.tcp(0).connect({.remote = world.endpoint(1, 7)}, socket, world.now());
    ASSERT_TRUE(made);
    socket->handle = *made;
    world.run_for(milliseconds{100});
  }
  EXPECT_EQ(classes_from(world, 1), std::set{0x48});
  // What the answers to SYNs promise stays.
  for (const LineSegment& line : world.sent) {
    if (line.from != 1 || !line.has(TcpFlag::syn)) continue;
    EXPECT_EQ(line.segment.options.mss, 1460);
    EXPECT_EQ(line.segment.header.window, 8'192);
  }
  EXPECT_EQ(world.tcp(1).waiting(pair.listener), 1U);
  TestSocket server(world.tcp(1));
  server.handle = world.tcp(1).accept(pair.listener, &server);
  EXPECT_EQ(world.tcp(1).waiting(pair.listener), 0U);
  EXPECT_TRUE(bool{server.handle});
  EXPECT_FALSE(bool{world.tcp(1).accept(pair.listener, nullptr)}) << "a backlog of one holds two";
  for (TestSocket* const socket : {&second, &third}) {
    world.tcp(0).abort(socket->handle, world.now());
  }
  world.tcp(1).close(server.handle, world.now());
  pair.close_both();
  // Of one that has gone there is nothing to set.
  world.tcp(1).close(pair.listener, world.now());
  world.tcp(1).set_options(pair.listener, {});
  EXPECT_EQ(world.tcp(1).waiting(pair.listener), 0U);
}

TEST(TcpOptions, InfoTellsHowAConnectionStands) {
  TwoHosts world;
  TestPair pair(world, {.send_buffer = 16 * 1024}, {.socket = {.receive_buffer = 1'000'000}});
  pair.server.reads = false;
  auto client = world.tcp(0).info(pair.client.handle);
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->timestamps);
  EXPECT_TRUE(client->sack);
  EXPECT_EQ(client->send_scale, 4);
  EXPECT_EQ(client->receive_scale, 3);
  EXPECT_GE(client->srtt_us, 10'000U);
  EXPECT_GE(client->timeout_us, 200'000U);
  EXPECT_TRUE(client->write_room);
  EXPECT_FALSE(client->end_of_stream);
  EXPECT_EQ(client->flight, 0U);
  pair.client.write_up_to(100'000, world.now());
  client = world.tcp(0).info(pair.client.handle);
  ASSERT_TRUE(client);
  EXPECT_FALSE(client->write_room);
  EXPECT_GE(client->flight, 10'000U);
  pair.client.write_goal = pair.client.written;
  // Nothing comes through any more.
  world.passes = [](const LineSegment&) { return false; };
  world.run_for(seconds{2});
  client = world.tcp(0).info(pair.client.handle);
  ASSERT_TRUE(client);
  EXPECT_GE(client->retransmissions, 1);
  world.passes = [](const LineSegment&) { return true; };
  world.run_for(seconds{10});
  world.tcp(0).shutdown_write(pair.client.handle, world.now());
  world.run_for(seconds{1});
  client = world.tcp(0).info(pair.client.handle);
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->write_room);
  EXPECT_EQ(client->retransmissions, 0);
  const auto server = world.tcp(1).info(pair.server.handle);
  ASSERT_TRUE(server);
  EXPECT_TRUE(server->end_of_stream);
  EXPECT_EQ(server->unread, pair.client.written);
  EXPECT_LT(server->receive_window, 1'000'000U);
  pair.server.read_all(world.now());
  pair.close_both();
}

}  // namespace
}  // namespace pinion::test

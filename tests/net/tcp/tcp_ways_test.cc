#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "../script/script.h"
#include "script_options.h"
#include "two_ways.h"
#include "ways_peer.h"

/// Whatever comes, a packet of a known flow has the same outcome as if it had come the long way.

namespace pinion::test {
namespace {

constexpr int kStepsOfAWorld = 250;

template <std::size_t Count>
std::uint32_t one_of(Random& random, const std::array<std::uint32_t, Count>& values) {
  return values[random.below(Count)];
}

ScriptTcpOptions options_of(Random& random) {
  ScriptTcpOptions options;
  options.v6 = random.chance(0.4);
  options.backlog = random.chance(0.2) ? 1 : 8;
  if (random.chance(0.3)) options.mtu = 1'280;
  options.config.max_connections = random.chance(0.2) ? 2 : 16;
  options.config.max_half_open = 4;
  options.config.max_time_waits = 4;
  options.config.max_reordering = random.chance(0.3) ? 1 : 4;
  options.config.timestamps = random.chance(0.6);
  options.config.window_scale = random.chance(0.7);
  options.config.sack = random.chance(0.7);
  options.socket.no_delay = random.chance(0.3);
  options.socket.receive_buffer =
      one_of(random, std::array{4'096U, 16'384U, 65'535U, 262'144U, 1'048'576U});
  options.socket.send_buffer = one_of(random, std::array{4'096U, 65'536U, 262'144U});
  if (random.chance(0.2)) {
    options.socket.keepalive = {.idle = std::chrono::seconds{1},
                                .interval = std::chrono::milliseconds{300}};
  }
  options.pool = {.packets = one_of(random, std::array{64U, 128U, 512U}),
                  .views = one_of(random, std::array{8U, 512U}),
                  .buffer_size = 2'048};
  if (random.chance(0.2)) {
    options.pool = {.packets = 512,
                    .views = 512,
                    .buffer_size = one_of(random, std::array{512U, 16'384U, 65'536U})};
  }
  if (random.chance(0.3)) options.small_pool = {.packets = 8, .views = 0, .buffer_size = 512};
  return options;
}

TEST(TcpWays, OfKnownFlowsAndOfAllPacketsHaveTheSameOutcome) {
  Random random(seed());
  std::size_t taken_as_known = 0;
  for (std::uint64_t world = 0; world < scaled(150); ++world) {
    const ScriptTcpOptions options = options_of(random);
    TwoWays hosts(options, random.chance(0.2));
    WaysPeer peer(hosts, random, options);
    for (int step = 0; step < kStepsOfAWorld; ++step) {
      peer.step();
      ASSERT_EQ(hosts.failure(), "") << "world " << world << ", PINION_SEED=" << seed();
    }
    taken_as_known += hosts.taken_as_known();
  }
  EXPECT_GT(taken_as_known, 0U);
}

/// What lay behind its hole gave way to another's, so that it has none any more.
TEST(TcpWays, WhatFillsAHoleOfWhichNothingIsLeftIsAcknowledgedOnce) {
  for (const bool long_way : {false, true}) {
    ScriptTcpOptions options = plain_tcp();
    options.config.max_reordering = 1;
    ScriptTcp world(options);
    world.set_long_way(long_way);
    std::string script;
    for (const std::string flow : {"[b]", "[c]"}) {
      script += "< " + flow + " S 0:0(0) win 65535 <mss 1460>\n> " + flow + " S. 0:0(0) ack 1\n< " +
                flow + " . 1:1(0) ack 1\naccept -> accepted\n";
    }
    EXPECT_TRUE(run_script(world, script + R"(
      < [b] . 101:201(100) ack 1
      & < [c] . 101:201(100) ack 1
      & < [b] . 1:101(100) ack 1
      > [b] . 1:1(0) ack 101
      > [c] . 1:1(0) ack 1
    )")) << long_way;
  }
}

/// RFC 9293, 3.10.7.4, fifth: SND.WL1.
TEST(TcpWays, AnOlderSegmentThanTheOneThatToldTheWindowDoesNotTellIt) {
  for (const bool long_way : {false, true}) {
    ScriptTcp world(plain_tcp());
    world.set_long_way(long_way);
    ASSERT_TRUE(run_script(world, after_accept(R"(
      < . 101:101(0) ack 1 win 1000
      write 10 -> 10
      > P. 1:11(10) ack 1
      < . 1:1(0) ack 11 win 65535
      < . 1:101(100) ack 11 win 65535
      +40ms > . 11:11(0) ack 101
    )")));
    EXPECT_EQ(world.info().value_or(TcpInfo{}).window, 1'000U) << long_way;
  }
}

/// What is older than TS.Recent means nothing 24 days after that came (RFC 7323, 5.5).
TEST(TcpWays, ATimestampIsAsOldAsTheSegmentThatBroughtIt) {
  for (const bool long_way : {false, true}) {
    ScriptTcpOptions options = plain_tcp();
    options.config.timestamps = true;
    ScriptTcp world(options);
    world.set_long_way(long_way);
    EXPECT_TRUE(run_script(world, R"(
      < S 0:0(0) win 65535 <mss 1460, ts val 1000 ecr 0>
      > S. 0:0(0) ack 1 <mss 1460, ts val 100 ecr 1000>
      < . 1:1(0) ack 1 <ts val 1000 ecr 100>
      accept -> accepted
      +20d < P. 1:11(10) ack 1 <ts val 1002 ecr 100>
      read -> 10
      +40ms > . 1:1(0) ack 11 ...
      +10d < P. 11:21(10) ack 1 <ts val 1001 ecr 100>
      > . 1:1(0) ack 11 ...
      dropped paws -> 1
      +15d < P. 11:21(10) ack 1 <ts val 1001 ecr 100>
      read -> 10
      +40ms > . 1:1(0) ack 21 ...
      abort
      > R. 1:1(0)
    )")) << long_way;
  }
}

}  // namespace
}  // namespace pinion::test

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "../script/script.h"
#include "../script/segment.h"
#include "script_options.h"
#include "script_tcp.h"
#include "two_hosts.h"

/// Segments that don't fit: the cases S1 to S7.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

// S1: a RST in the window but not exact, and outside of it.
TEST(TcpCases, S1_AResetCountsOnlyAtTheExactNumber) {
  ScriptTcp world(plain_tcp());
  std::string script;
  for (int i = 0; i < 10; ++i) script += "< R 100:100(0)\n> . 1:1(0) ack 1\n";
  script += R"(
    < R 100:100(0)                  # Beyond the limit.
    < R 70000:70000(0)
    < R 0:0(0)
    state -> established
    +6s < R 2:2(0)
    > . 1:1(0) ack 1
    < R 1:1(0)
    events -> closed:reset
    dropped reset_out_of_window -> 2
    dropped reset_challenged -> 12
  )";
  EXPECT_TRUE(run_script(world, after_accept(script)));
}

// S2: a SYN in ESTABLISHED.
TEST(TcpCases, S2_ASynInEstablishedIsChallenged) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < S 500:500(0)
    > . 1:1(0) ack 1
    < S 0:0(0)
    > . 1:1(0) ack 1
    < S. 900000:900000(0) ack 1
    > . 1:1(0) ack 1
    state -> established
    abort
    > R. 1:1(0)
  )")));
}

// S3: a FIN ahead of its data.
TEST(TcpCases, S3_AFinAheadOfItsDataIsRemembered) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < F. 101:101(0) ack 1
    > . 1:1(0) ack 1
    read -> again
    < P. 1:101(100) ack 1
    > . 1:1(0) ack 102
    events -> readable
    read -> 100
    read -> finished
    state -> close_wait
    +1s nothing
    close
    > F. 1:1(0) ack 102
    < . 102:102(0) ack 2
    events -> closed:orderly
  )")));
}

// S4: segments of another 4-tuple.
TEST(TcpCases, S4_SegmentsOfAnotherTupleChangeNothing) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < [b] F. 1:1(0) ack 1
    > [b] R 1:1(0)
    < [b] R 1:1(0)
    < [b] P. 1:101(100) ack 1
    > [b] R 1:1(0)
    state -> established
    read -> again
    abort
    > R. 1:1(0)
  )")));
}

// S5: an ACK of what was never sent.
TEST(TcpCases, S5_AnAckOfWhatWasNeverSentIsAnsweredAndDropped) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < P. 1:101(100) ack 5
    > . 1:1(0) ack 1
    read -> again
    dropped ack_too_new -> 1
    < . 1:1(0) ack -70000
    > . 1:1(0) ack 1
    dropped ack_too_old -> 1
    abort
    > R. 1:1(0)
  )")));
}

// S6: segments of a stream, cut anywhere, overlapping in every way and out of order.
TEST(TcpCases, S6_OverlapsOfEveryKindLeaveTheStreamExact) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(40); ++round) {
    ScriptTcpOptions options = plain_tcp();
    options.config.sack = random.chance(0.5);
    ScriptTcp world(options);
    ASSERT_TRUE(run_script(world, R"(
      < S 0:0(0) win 65535 <mss 1460, sack>
      > S. 0:0(0) ack 1 ...
      < . 1:1(0) ack 1 win 65535
      accept -> accepted
      reading on
      < . 0:0(0) ack 1
      > . 1:1(0) ack 1 ...
    )"));
    constexpr std::uint32_t kSize = 20'000;
    constexpr std::uint32_t kPeerIsn = 0xfffff000;
    Segment segment;
    segment.source_port = 80;
    segment.destination_port = 7;
    segment.flags = kAck;
    segment.window = 65'535;
    segment.acknowledgment =
        world.tcp().info({.index = 0, .generation = 1})->first_unacknowledged.value();
    std::uint32_t done = 0;
    while (done < kSize) {
      const auto begin =
          static_cast<std::uint32_t>(random.chance(0.2) ? done : random.below(kSize));
      const auto size = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(1 + random.below(1'460), kSize - begin));
      segment.sequence = kPeerIsn + 1 + begin;
      segment.payload.clear();
      for (std::uint32_t i = 0; i < size; ++i) segment.payload.push_back(pattern_byte(begin + i));
      const auto packet = write_packet(world.peer().address, world.host().address, segment);
      world.inject({&packet, 1});
      while (const auto sent = world.take()) {
        const auto answer = read_packet(sent->bytes);
        ASSERT_TRUE(answer);
        done = std::max(done, answer->segment.acknowledgment - kPeerIsn - 1);
      }
      if (!world.tcp().is_settled()) world.tcp().end_of_burst(world.now());
      const Instant later = world.now() + milliseconds{50};
      while (world.next_deadline() < later) world.advance(world.next_deadline());
      world.advance(later);
    }
    EXPECT_EQ(world.call("read", {}), "again");
    EXPECT_EQ(world.tcp().stats().bytes_in, kSize);
  }
}

// N4: whom a local sender's partial checksums are enough, takes them, and nothing else.
TEST(TcpCases, N4_PartialChecksumsAreTakenOnlyWhereTheyAreTrusted) {
  for (const bool v6 : {false, true}) {
    ScriptTcpOptions options = plain_tcp(v6);
    ScriptTcp wary(options);
    EXPECT_TRUE(run_script(wary, R"(
      < S 0:0(0) win 65535 <mss 1460> partial-checksum
      +1s nothing
      dropped tcp_checksum_partial -> 1
    )"));
    options.config.trust_partial_checksums = true;
    ScriptTcp trusting(options);
    EXPECT_TRUE(run_script(trusting, R"(
      < S 0:0(0) win 65535 <mss 1460> partial-checksum
      > S. 0:0(0) ack 1
      < . 1:1(0) ack 1 partial-checksum
      accept -> accepted
      < P. 1:1001(1000) ack 1 partial-checksum
      < P. 1001:1101(100) ack 1
      > . 1:1(0) ack 1101
      read -> 1100
      < P. 1101:1201(100) ack 1 bad-checksum
      < P. 1101:1201(100) ack 1 partial-checksum bad-checksum
      < S 0:0(0) win 65535 partial-checksum cut 18
      dropped tcp_checksum -> 2
      dropped tcp_checksum_partial -> 3
      abort
      > R. 1:1(0)
    )"));
  }
}

// S7: segments that are none.
TEST(TcpCases, S7_WhatIsNoSegmentIsCountedByReasonAndDropped) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < P. 1:101(100) ack 1 bad-checksum
    < P. 1:101(100) ack 1 offset 4
    < P. 1:101(100) ack 1 offset 15 cut 40
    < P. 1:101(100) ack 1 <raw 08 00>
    < P. 1:101(100) ack 1 <raw 08 01>
    < P. 1:101(100) ack 1 <raw 08 20 01 01>
    < P. 1:101(100) ack 1 cut 19
    +1s nothing
    dropped tcp_checksum -> 1
    dropped tcp_header_length -> 2
    dropped tcp_option_length -> 2
    dropped tcp_option_overrun -> 1
    dropped tcp_truncated -> 1
    read -> again
    count packets -> 0
    abort
    > R. 1:1(0)
  )")));
}

// N5: ICMP's complaints.
TEST(TcpCases, N5_AComplaintCountsOnlyForWhatIsInFlight) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    write 1460 -> 1460
    > P. 1:1461(1460) ack 1
    complain too_big 5000 1000
    complain too_big -5 1000
    +100ms nothing
    dropped complaint_sequence -> 2
    complain too_big 0 1000
    > . 1:961(960) ack 1
    > P. 961:1461(500) ack 1
    complain port 0
    complain host 0
    complain protocol 0
    state -> established
    abort
    > R. 1461:1461(0)
  )")));
  ScriptTcp client(plain_tcp());
  EXPECT_TRUE(run_script(client, R"(
    connect -> in progress
    > S 0:0(0)
    complain host 0
    state -> syn_sent
    complain port 0
    events -> closed:refused
  )"));
}

TEST(TcpCases, N5_WhatRoutersSaidIsTheReasonWhenThePeerIsGivenUp) {
  const std::string told = R"(
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    complain host 0
    events
  )";
  const std::string silence = R"(
    +1s > P. 1:101(100) ack 1
    +2s > P. 1:101(100) ack 1
    +2s > R. 101:101(0)
    events -> closed:unreachable
  )";
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(told + silence)));
  EXPECT_EQ(world.tcp().stats().peer_timeouts, 1U);
  // Not when it has answered since.
  ScriptTcp answers(plain_tcp());
  EXPECT_TRUE(run_script(answers, after_accept(told + R"(
    < . 1:1(0) ack 101
    write 100 -> 100
    > P. 101:201(100) ack 1
    +200ms > P. 101:201(100) ack 1
    +400ms > P. 101:201(100) ack 1
    +800ms > P. 101:201(100) ack 1
    +1600ms > P. 101:201(100) ack 1
    +2s > R. 201:201(0)
    events -> closed:peer_timeout
  )")));
  ScriptTcp client(plain_tcp());
  EXPECT_TRUE(run_script(client, R"(
    connect -> in progress
    > S 0:0(0)
    complain net 0
    < S. 0:0(0) ack 1 win 65535 <mss 1460>
    > . 1:1(0) ack 1
    user_timeout 5000
    write 100 -> 100
    > P. 1:101(100) ack 1
    +200ms > P. 1:101(100) ack 1
    +400ms > P. 1:101(100) ack 1
    +800ms > P. 1:101(100) ack 1
    +1600ms > P. 1:101(100) ack 1
    +2s > R. 101:101(0)
    events -> connected closed:peer_timeout
  )"));
}

/// A stream over a line that loses and reorders.
TEST(TcpSegments, LossAndReorderingLeaveTheStreamExact) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(16); ++round) {
    TwoHostsOptions options;
    options.seed = random.next();
    options.jitter = random.chance(0.5) ? milliseconds{random.below(4)} : Delay();
    options.config.sack = random.chance(0.5);
    options.config.timestamps = random.chance(0.5);
    options.config.window_scale = random.chance(0.5);
    options.v6 = random.chance(0.5);
    const double loss = random.real01() * 0.05;
    TwoHosts world(options);
    TestPair pair(world);
    world.passes = [&](const LineSegment&) { return !random.chance(loss); };
    pair.client.write_up_to(300'000, world.now());
    pair.server.write_up_to(200'000, world.now());
    pair.client.closes_at_end = pair.server.closes_at_end = true;
    EXPECT_TRUE(world.run_until(
        [&] { return pair.client.received == 200'000 && pair.server.received == 300'000; },
        minutes{20}));
    EXPECT_TRUE(pair.server.received_stream(300'000));
    EXPECT_TRUE(pair.client.received_stream(200'000));
    world.tcp(0).close(pair.client.handle, world.now());
    EXPECT_TRUE(
        world.run_until([&] { return pair.client.closed + pair.server.closed == 2; }, minutes{20}));
    EXPECT_EQ(pair.client.closed, 1);
  }
}

/// A segment of anything, near to what would fit.
void forge_near(TwoHosts& world, const LineSegment& like, Random& random) {
  wire::TcpHeader header = like.segment.header;
  const auto near = [&random] {
    return random.chance(0.5) ? static_cast<std::uint32_t>(random.below(5)) - 2U
                              : static_cast<std::uint32_t>(random.next() >> random.between(32, 63));
  };
  header.sequence += near();
  header.acknowledgment += near();
  if (random.chance(0.5)) {
    header.flags = wire::TcpFlags::from_bits(static_cast<std::uint8_t>(random.below(256)));
  }
  if (random.chance(0.3)) header.window = static_cast<std::uint16_t>(random.below(65'536));
  wire::TcpOptions options = like.segment.options;
  if (random.chance(0.2)) options = {};
  if (options.sack.empty() && random.chance(0.2))
    options.mss = static_cast<std::uint16_t>(random.below(65'536));
  if (options.timestamps && random.chance(0.3)) options.timestamps->value += near();
  const std::size_t size = random.chance(0.5) ? 0 : random.below(1'200);
  world.forge(like.from, header, options, stream_bytes(random.next(), size));
}

/// Whatever is forged, nothing breaks, ends are told once, and every packet comes back.
TEST(TcpSegments, ForgedSegmentsBreakNothing) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(60); ++round) {
    TwoHostsOptions options;
    options.seed = random.next();
    options.config.timestamps = random.chance(0.5);
    options.config.linger = milliseconds{100};
    TwoHosts world(options);
    TestPair pair(world);
    world.recording = true;
    pair.client.closes_at_end = pair.server.closes_at_end = random.chance(0.5);
    for (int i = 0; i < 200; ++i) {
      if (i % 10 == 0) pair.client.write_up_to(pair.client.written + 3'000, world.now());
      if (i % 10 == 5) pair.server.write_up_to(pair.server.written + 2'000, world.now());
      if (i == 150) world.tcp(0).shutdown_write(pair.client.handle, world.now());
      if (!world.sent.empty()) {
        const std::size_t last = std::min<std::size_t>(world.sent.size(), 8);
        forge_near(world, world.sent[world.sent.size() - 1 - random.below(last)], random);
      }
      world.run_for(milliseconds{random.below(40)});
    }
    world.tcp(0).close(pair.client.handle, world.now());
    world.tcp(1).close(pair.server.handle, world.now());
    world.run_for(minutes{12});
    EXPECT_EQ(pair.client.closed, 1);
    EXPECT_EQ(pair.server.closed, 1);
    EXPECT_EQ(world.tcp(0).connections(), 0U);
    EXPECT_EQ(world.tcp(1).half_open(), 0U);
  }
}

}  // namespace
}  // namespace pinion::test

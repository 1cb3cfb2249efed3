#include "tcp/time_wait.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::SequenceNumber;

constexpr Instant kStart{std::chrono::nanoseconds{987'654'321'000}};
constexpr std::size_t kNoBudget = ~std::size_t{0};

constexpr TimeWaitState kState{.snd_nxt = SequenceNumber(1'000), .rcv_nxt = SequenceNumber(2'000)};
constexpr TimeWaitState kStamped{.snd_nxt = SequenceNumber(1'000),
                                 .rcv_nxt = SequenceNumber(2'000),
                                 .ts_recent = 0xffff'fff0U,
                                 .timestamps = true};

FourTuple tuple(std::uint16_t port) {
  return test::tuple_v4(1, 2, port, 80);
}

/// A table with one connection in it, and a moment in the middle of its wait.
struct Waiting {
  explicit Waiting(const TimeWaitState& state) : table({}, SipKey{}) {
    table.enter(tuple(1), state, kStart);
  }
  TimeWaitVerdict answer(const TimeWaitSegment& segment) {
    return table.answer(*table.find(tuple(1)), segment, now);
  }

  TimeWaitTable table;
  Instant now = kStart + seconds{30};
};

TimeWaitSegment syn(std::uint32_t sequence, std::optional<std::uint32_t> timestamp = {}) {
  return {.sequence = SequenceNumber(sequence), .length = 1, .syn = true, .timestamp = timestamp};
}
TimeWaitSegment acknowledgement(std::uint32_t sequence, std::uint32_t length = 0) {
  return {.sequence = SequenceNumber(sequence),
          .acknowledgement = SequenceNumber(1'000),
          .length = length,
          .ack = true};
}

TEST(TimeWait, EndsAfterTwiceTheSegmentLifetime) {
  Waiting waiting(kState);
  const Instant due = waiting.table.next_expiry(kStart);
  EXPECT_GE(due, kStart + seconds{60});
  EXPECT_LE(due, kStart + seconds{60} + milliseconds{2});
  EXPECT_EQ(waiting.table.expire(due - milliseconds{1}, kNoBudget), 0U);
  EXPECT_NE(waiting.table.find(tuple(1)), nullptr);
  EXPECT_EQ(waiting.table.expire(due, kNoBudget), 1U);
  EXPECT_EQ(waiting.table.find(tuple(1)), nullptr);
  EXPECT_EQ(waiting.table.next_expiry(due), kNever);
}

TEST(TimeWait, AcknowledgesAFinThatComesAgainAndWaitsAnew) {
  Waiting waiting(kState);
  waiting.table.enter(tuple(2), kState, kStart + seconds{10});
  TimeWaitSegment fin = acknowledgement(1'999, 1);
  fin.fin = true;
  EXPECT_EQ(waiting.answer(fin), TimeWaitVerdict::acknowledge);
  EXPECT_EQ(waiting.table.expire(kStart + seconds{71}, kNoBudget), 1U);
  EXPECT_EQ(waiting.table.find(tuple(2)), nullptr) << "the other one, whose wait is over";
  EXPECT_NE(waiting.table.find(tuple(1)), nullptr);
  EXPECT_GE(waiting.table.next_expiry(waiting.now), waiting.now + seconds{60});
  EXPECT_EQ(waiting.table.expire(waiting.now + seconds{61}, kNoBudget), 1U);
}

// W5: old data are always acknowledged.
TEST(TimeWait, AlwaysAcknowledgesOldDataButDoesNotWaitAnewForIt) {
  Waiting waiting(kState);
  EXPECT_EQ(waiting.answer(acknowledgement(1'500, 100)), TimeWaitVerdict::acknowledge);
  TimeWaitSegment strange_fin = acknowledgement(5'000, 1);
  strange_fin.fin = true;
  EXPECT_EQ(waiting.answer(strange_fin), TimeWaitVerdict::acknowledge);
  EXPECT_EQ(waiting.table.expire(kStart + seconds{61}, kNoBudget), 1U);
}

TEST(TimeWait, IsNotEndedByAReset) {
  Waiting waiting(kState);
  TimeWaitSegment reset = acknowledgement(2'000);
  reset.rst = true;
  EXPECT_EQ(waiting.answer(reset), TimeWaitVerdict::drop);
  EXPECT_NE(waiting.table.find(tuple(1)), nullptr);
}

TEST(TimeWait, IsSilentAboutWhatFitsAndLimitsItsAnswersToTheRest) {
  Waiting waiting(kState);
  EXPECT_EQ(waiting.answer(acknowledgement(2'000)), TimeWaitVerdict::drop);
  EXPECT_EQ(waiting.answer(acknowledgement(1'999)), TimeWaitVerdict::challenge) << "a keepalive";
  TimeWaitSegment never_sent = acknowledgement(2'000);
  never_sent.acknowledgement = SequenceNumber(1'001);
  EXPECT_EQ(waiting.answer(never_sent), TimeWaitVerdict::challenge);
  TimeWaitSegment no_ack = acknowledgement(1'000, 10);
  no_ack.ack = false;
  EXPECT_EQ(waiting.answer(no_ack), TimeWaitVerdict::drop);
}

// C4: a 4-tuple in TIME-WAIT re-opens, by the rules of RFC 6191, 2.
TEST(TimeWait, IsReopenedByAHigherNumberWithoutTimestamps) {
  Waiting waiting(kState);
  EXPECT_EQ(waiting.answer(syn(2'001)), TimeWaitVerdict::reopen);
  EXPECT_EQ(waiting.answer(syn(2'000)), TimeWaitVerdict::challenge);
  EXPECT_EQ(waiting.answer(syn(1'000)), TimeWaitVerdict::challenge);
  EXPECT_EQ(waiting.answer(syn(1'000, 5)), TimeWaitVerdict::reopen) << "timestamps are new";
  TimeWaitSegment syn_ack = syn(3'000);
  syn_ack.ack = true;
  EXPECT_EQ(waiting.answer(syn_ack), TimeWaitVerdict::challenge);
}

TEST(TimeWait, IsReopenedByANewerTimestamp) {
  Waiting waiting(kStamped);
  EXPECT_EQ(waiting.answer(syn(1'000, 0xffff'fff1U)), TimeWaitVerdict::reopen);
  EXPECT_EQ(waiting.answer(syn(1'000, 5)), TimeWaitVerdict::reopen) << "past the wrap";
  EXPECT_EQ(waiting.answer(syn(1'000, 0xffff'fff0U)), TimeWaitVerdict::challenge);
  EXPECT_EQ(waiting.answer(syn(2'001, 0xffff'fff0U)), TimeWaitVerdict::reopen);
  EXPECT_EQ(waiting.answer(syn(2'001, 0xffff'ffe0U)), TimeWaitVerdict::challenge);
  EXPECT_EQ(waiting.answer(syn(2'001)), TimeWaitVerdict::reopen);
  EXPECT_EQ(waiting.answer(syn(1'000)), TimeWaitVerdict::challenge);
}

TEST(TimeWait, ReopensBehindAllNumbersThatWereUsed) {
  const SequenceNumber used(0xffff'fff0U);
  EXPECT_EQ(reopening_number(SequenceNumber(5), used), SequenceNumber(5));
  EXPECT_EQ(reopening_number(SequenceNumber(0xffff'0000U), used), used + 65'536);
  EXPECT_EQ(reopening_number(used, used), used + 65'536);
}

TEST(TimeWait, LetsUsReconnectAfterASecondWithTimestamps) {
  Waiting stamped(kStamped);
  const TimeWaitRecord& record = *stamped.table.find(tuple(1));
  EXPECT_FALSE(stamped.table.may_reconnect(record, kStart + milliseconds{999}));
  EXPECT_TRUE(stamped.table.may_reconnect(record, kStart + milliseconds{1'002}));
  Waiting plain(kState);
  EXPECT_FALSE(plain.table.may_reconnect(*plain.table.find(tuple(1)), kStart + seconds{59}));
}

// C5: a full TIME-WAIT table.
TEST(TimeWait, GivesUpTheOldestWhenItIsFull) {
  TimeWaitTable table({.limit = 10}, SipKey{});
  for (std::uint16_t port = 0; port < 10; ++port) {
    EXPECT_TRUE(table.enter(tuple(port), kState, kStart + seconds{port}));
  }
  for (std::uint16_t port = 10; port < 1'000; ++port) {
    EXPECT_FALSE(table.enter(tuple(port), kState, kStart + seconds{port}));
    ASSERT_EQ(table.size(), 10U);
    ASSERT_EQ(table.find(tuple(port - 10)), nullptr);
    ASSERT_NE(table.find(tuple(port - 9)), nullptr);
  }
}

TEST(TimeWait, GivesUpTheOldestForAnotherLocalAddress) {
  TimeWaitTable table({.limit = 10, .local_addresses = 2}, SipKey{});
  const auto from = [](std::uint32_t local) { return test::tuple_v4(local, 2, 3, 4); };
  EXPECT_TRUE(table.enter(from(1), kState, kStart));
  EXPECT_TRUE(table.enter(from(2), kState, kStart));
  EXPECT_FALSE(table.enter(from(3), kState, kStart));
  EXPECT_EQ(table.find(from(1)), nullptr);
  EXPECT_NE(table.find(from(2)), nullptr);
  EXPECT_NE(table.find(from(3)), nullptr);
}

/// Beside a list in the order of expiry.
TEST(TimeWait, AgreesWithAListWhateverComes) {
  struct Expected {
    FourTuple tuple;
    Instant due;
  };
  Random random(test::seed());
  TimeWaitTable table({.limit = 40}, test::any_key(random));
  std::deque<Expected> model;
  const auto find = [&](const FourTuple& wanted) {
    return std::find_if(model.begin(), model.end(),
                        [&](const Expected& expected) { return expected.tuple == wanted; });
  };
  Instant now = kStart;
  for (std::uint64_t i = 0; i < test::scaled(30'000); ++i) {
    now += std::chrono::microseconds{random.below(3'000'000)};
    table.expire(now, kNoBudget);
    while (!model.empty() && table.find(model.front().tuple) == nullptr) {
      ASSERT_LE(model.front().due, now) << "early";
      model.pop_front();
    }
    ASSERT_TRUE(model.empty() || model.front().due + milliseconds{2} > now) << "late";
    const FourTuple some = tuple(static_cast<std::uint16_t>(random.below(100)));
    const TimeWaitRecord* const record = table.find(some);
    const auto expected = find(some);
    ASSERT_EQ(record != nullptr, expected != model.end());
    if (record == nullptr) {
      ASSERT_EQ(table.enter(some, kState, now), model.size() < 40);
      if (model.size() == 40) model.pop_front();
      model.push_back({some, now + seconds{60}});
    } else if (random.chance(0.5)) {
      ASSERT_EQ(table.tuple_of(*record), some);
      table.remove(*record);
      model.erase(expected);
    } else {
      TimeWaitSegment fin = acknowledgement(1'999, 1);
      fin.fin = true;
      ASSERT_EQ(table.answer(*record, fin, now), TimeWaitVerdict::acknowledge);
      model.erase(expected);
      model.push_back({some, now + seconds{60}});
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

}  // namespace
}  // namespace pinion

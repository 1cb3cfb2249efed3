#include "tcp/syn_cache.h"

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::SequenceNumber;

constexpr Instant kStart{std::chrono::nanoseconds{123'456'789'000}};
constexpr std::size_t kNoBudget = ~std::size_t{0};

void nothing(SynRecord& /*record*/) {}

/// What came of expire(): how many records were sent again, and how many dropped.
struct Expired {
  std::size_t resent = 0;
  std::size_t dropped = 0;
};

Expired expire(SynCache& cache, Instant now, std::size_t budget = kNoBudget) {
  Expired expired;
  cache.expire(
      now, budget, [&](SynRecord& /*record*/) { ++expired.resent; },
      [&](SynRecord& /*record*/) { ++expired.dropped; });
  return expired;
}

TEST(SynCache, KeepsWhatTheSynSaid) {
  Random random(test::seed());
  SynCache cache({}, test::any_key(random));
  for (int i = 0; i < 100; ++i) {
    const FourTuple tuple = test::any_tuple(random);
    ASSERT_EQ(cache.find(tuple), nullptr);
    const SynRecord said{.mss = 1'460,
                         .sequence = SequenceNumber(5),
                         .peer = SequenceNumber(6),
                         .ts_recent = 7,
                         .window_scale = 14,
                         .scales = true,
                         .timestamps = true,
                         .sack = true,
                         .listener = 9};
    ASSERT_NE(cache.insert(tuple, said, kStart), nullptr);
    const SynRecord* const found = cache.find(tuple);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(cache.tuple_of(*found), tuple);
    EXPECT_EQ(found->mss, 1'460);
    EXPECT_EQ(found->sequence, SequenceNumber(5));
    EXPECT_EQ(found->peer, SequenceNumber(6));
    EXPECT_EQ(found->ts_recent, 7U);
    EXPECT_EQ(found->window_scale, 14);
    EXPECT_TRUE(found->scales && found->timestamps && found->sack);
    EXPECT_FALSE(found->answered);
    EXPECT_EQ(found->listener, 9);
    cache.remove(*found);
    EXPECT_EQ(cache.find(tuple), nullptr);
  }
  EXPECT_EQ(cache.size(), 0U);
}

TEST(SynCache, SendsAgainFiveTimesWithBackoffThenDrops) {
  SynCache cache({}, SipKey{});
  const FourTuple tuple = test::tuple_v4(1, 2, 3, 4);
  ASSERT_NE(cache.insert(tuple, {}, kStart), nullptr);
  Instant now = kStart;
  for (const int wait : {1, 2, 4, 8, 16}) {
    const Instant due = cache.next_expiry(now);
    EXPECT_GE(due, now + seconds{wait}) << "never early";
    EXPECT_LE(due, now + seconds{wait} + milliseconds{2});
    EXPECT_EQ(expire(cache, due - milliseconds{1}).resent, 0U);
    const Expired expired = expire(cache, due);
    EXPECT_EQ(expired.resent, 1U);
    EXPECT_EQ(expired.dropped, 0U);
    now = due;
  }
  const Instant due = cache.next_expiry(now);
  EXPECT_GE(due, now + seconds{32});
  EXPECT_EQ(expire(cache, due).dropped, 1U);
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.find(tuple), nullptr);
  EXPECT_EQ(cache.next_expiry(due), kNever);
}

// O2: who answers a full cache is the cookies' matter; what is in it stays.
TEST(SynCache, TakesNoMoreThanItsLimitAndForgetsNobody) {
  SynCache cache({.limit = 100}, SipKey{});
  for (std::uint16_t i = 0; i < 100; ++i) {
    ASSERT_NE(cache.insert(test::tuple_v4(1, 2, 80, i), {}, kStart), nullptr);
  }
  EXPECT_EQ(cache.insert(test::tuple_v4(1, 3, 80, 1), {}, kStart), nullptr);
  for (std::uint16_t i = 0; i < 100; ++i) {
    EXPECT_NE(cache.find(test::tuple_v4(1, 2, 80, i)), nullptr);
  }
  cache.remove(*cache.find(test::tuple_v4(1, 2, 80, 50)));
  EXPECT_NE(cache.insert(test::tuple_v4(1, 3, 80, 1), {}, kStart), nullptr);
}

// O3: SYN, SYN-ACK, RST, time and again.
TEST(SynCache, LeaksNothingWhenHandshakesAreReset) {
  SynCache cache({.limit = 4, .local_addresses = 2}, SipKey{});
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const FourTuple tuple = test::tuple_v4(i, 2, 80, static_cast<std::uint16_t>(i));
    ASSERT_NE(cache.insert(tuple, {}, kStart), nullptr) << i;
    cache.remove(*cache.find(tuple));
  }
  EXPECT_EQ(cache.size(), 0U);
}

TEST(SynCache, SaysNoToMoreLocalAddressesThanExpected) {
  SynCache cache({.limit = 10, .local_addresses = 2}, SipKey{});
  EXPECT_NE(cache.insert(test::tuple_v4(1, 9, 80, 1), {}, kStart), nullptr);
  EXPECT_NE(cache.insert(test::tuple_v4(2, 9, 80, 1), {}, kStart), nullptr);
  EXPECT_EQ(cache.insert(test::tuple_v4(3, 9, 80, 1), {}, kStart), nullptr);
  EXPECT_NE(cache.insert(test::tuple_v4(1, 9, 80, 2), {}, kStart), nullptr);
  cache.remove(*cache.find(test::tuple_v4(2, 9, 80, 1)));
  EXPECT_NE(cache.insert(test::tuple_v4(3, 9, 80, 1), {}, kStart), nullptr);
}

TEST(SynCache, GoesOverNoMoreThanItsBudget) {
  SynCache cache({}, SipKey{});
  for (std::uint16_t i = 0; i < 100; ++i) {
    ASSERT_NE(cache.insert(test::tuple_v4(1, 2, 80, i), {}, kStart), nullptr);
  }
  const Instant later = kStart + seconds{2};
  EXPECT_EQ(expire(cache, later, 30).resent, 30U);
  EXPECT_LE(cache.next_expiry(later), later) << "the others are still due";
  EXPECT_EQ(expire(cache, later).resent, 70U);
  EXPECT_EQ(cache.expire(later, kNoBudget, nothing, nothing), 0U);
}

/// Beside a map from tuples to the time when each is due.
TEST(SynCache, AgreesWithAMapWhateverComes) {
  Random random(test::seed());
  SynCache cache({.limit = 50}, test::any_key(random));
  struct Expected {
    Instant due;
    unsigned sent_again = 0;
  };
  std::unordered_map<std::uint16_t, Expected> model;
  Instant now = kStart;
  const auto tuple_of = [](std::uint16_t port) { return test::tuple_v4(port % 7, 2, 80, port); };
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i) {
    now += std::chrono::microseconds{random.below(400'000)};
    const auto handle = [&](SynRecord& record, bool dropped) {
      const auto found = model.find(record.remote_port);
      ASSERT_NE(found, model.end());
      ASSERT_LE(found->second.due, now) << "early";
      ASSERT_EQ(found->second.sent_again == 5, dropped);
      if (dropped) {
        model.erase(found);
      } else {
        ++found->second.sent_again;
        found->second.due = now + seconds{1U << found->second.sent_again};
      }
    };
    cache.expire(
        now, kNoBudget, [&](SynRecord& record) { handle(record, false); },
        [&](SynRecord& record) { handle(record, true); });
    for (const auto& [port, expected] : model) {
      ASSERT_GT(expected.due + milliseconds{2}, now) << "late";
    }
    const auto port = static_cast<std::uint16_t>(random.below(200));
    SynRecord* const found = cache.find(tuple_of(port));
    ASSERT_EQ(found != nullptr, model.contains(port));
    if (found != nullptr) {
      cache.remove(*found);
      model.erase(port);
    } else if (cache.insert(tuple_of(port), {}, now) != nullptr) {
      model[port] = {.due = now + seconds{1}};
    } else {
      ASSERT_EQ(model.size(), 50U);
    }
    ASSERT_EQ(cache.size(), model.size());
  }
}

}  // namespace
}  // namespace pinion

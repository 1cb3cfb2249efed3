#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include <pinion/timers/timer_table.h>

namespace pinion::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Instant kStart{hours(1'000)};

Instant at(milliseconds after_start) {
  return kStart + after_start;
}

/// Everything that is due at `now`, polled a few at a time.
template <class Table>
std::vector<ExpiredTimer> drain(Table& table, Instant now) {
  std::array<ExpiredTimer, 7> out;
  std::vector<ExpiredTimer> fired;
  do {
    const std::size_t count = table.poll(now, out.size(), out);
    fired.insert(fired.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  } while (table.next_deadline() <= now);
  return fired;
}

std::vector<std::uint64_t> values_of(const std::vector<ExpiredTimer>& fired) {
  std::vector<std::uint64_t> values;
  for (const ExpiredTimer& timer : fired) values.push_back(timer.value);
  return values;
}

template <class Result>
TimerError error_of(const Result& result) {
  EXPECT_FALSE(result.has_value());
  return result.has_value() ? TimerError{255} : result.error();
}

template <class Table>
std::vector<TimerId> schedule_many(Table& table, std::size_t count, Instant deadline) {
  std::vector<TimerId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = table.schedule(deadline, i);
    EXPECT_TRUE(id.has_value());
    ids.push_back(id.value_or(TimerId()));
  }
  return ids;
}

TEST(TimerTable, FiresOnceInTheFirstPollAtTheDeadlineAndHandsTheValueBack) {
  TimerTable table(kStart, 100);
  const TimerId id = *table.schedule(at(milliseconds(10)) + nanoseconds(1), 77);
  std::array<ExpiredTimer, 4> out;
  EXPECT_EQ(table.poll(at(milliseconds(11)) - nanoseconds(1), 4, out), 0U);
  ASSERT_EQ(table.poll(at(milliseconds(11)), 4, out), 1U);
  EXPECT_EQ(out[0].id, id);
  EXPECT_EQ(out[0].value, 77U);
  EXPECT_EQ(out[0].deadline, at(milliseconds(11)));
  EXPECT_EQ(table.poll(at(hours(1)), 4, out), 0U);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(error_of(table.cancel(id)), TimerError::not_found);
}

TEST(TimerTable, EveryValueIsAllowed) {
  TimerTable table(kStart, 100);
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    EXPECT_EQ(table.cancel(*table.schedule(at(hours(1)), value)), value);
  }
}

TEST(TimerTable, BestFitTellsTheTickAtWhichTheTimerFires) {
  TimerTable table(kStart, 100);
  const auto deadline = [&](Instant asked) {
    const auto scheduled = table.schedule_best_fit(asked, 0);
    return scheduled ? scheduled->deadline : Instant{};
  };
  EXPECT_EQ(deadline(at(milliseconds(10))), at(milliseconds(10)));
  EXPECT_EQ(deadline(at(milliseconds(9)) + nanoseconds(1)), at(milliseconds(10)));
  EXPECT_EQ(deadline(at(milliseconds(-5))), at(milliseconds(1))) << "the next tick";
  EXPECT_EQ(deadline(kStart), at(milliseconds(1))) << "the next tick";
  EXPECT_EQ(deadline(kNever), kNever);
  const auto id = table.schedule_best_fit(at(hours(5)), 42);
  EXPECT_EQ(table.cancel(id->id), 42U);
  EXPECT_EQ(table.next_deadline(), at(milliseconds(1)));
  EXPECT_EQ(drain(table, at(hours(1))).size(), 4U);
}

TEST(TimerTable, CancelReturnsTheValueOnce) {
  TimerTable table(kStart, 100);
  const TimerId id = *table.schedule(at(milliseconds(10)), 5);
  EXPECT_EQ(table.cancel(id), 5U);
  EXPECT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  EXPECT_EQ(error_of(table.reschedule(id, at(hours(1)))), TimerError::not_found);
  EXPECT_TRUE(drain(table, at(hours(1))).empty());
  EXPECT_EQ(table.next_deadline(), kNever);
}

TEST(TimerTable, AStaleIdNeverMeansTheTimerThatHasItsSlotNow) {
  TimerTable table(kStart, 1);  // one slot in use at a time
  std::vector<TimerId> stale;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    const auto id = table.schedule(at(milliseconds(10)), i);
    ASSERT_TRUE(id.has_value());
    for (const TimerId old : stale) ASSERT_EQ(error_of(table.cancel(old)), TimerError::not_found);
    EXPECT_EQ(table.live(), 1U);
    ASSERT_EQ(table.cancel(*id), i);
    stale.push_back(*id);
  }
}

TEST(TimerTable, IdsThatWereNeverGivenAreInvalid) {
  TimerTable table(kStart, 1'000);
  const std::vector<TimerId> ids = schedule_many(table, 300, at(milliseconds(10)));
  EXPECT_TRUE(table.cancel(ids[1]).has_value());
  const auto cancel = [&](std::uint64_t bits) { return error_of(table.cancel(TimerId(bits))); };
  constexpr std::uint64_t kGeneration = std::uint64_t{1} << 24;
  EXPECT_EQ(cancel(0), TimerError::invalid_id);
  EXPECT_EQ(cancel(~std::uint64_t{0}), TimerError::invalid_id);
  EXPECT_EQ(cancel(ids[0].bits() - kGeneration), TimerError::invalid_id) << "generation 0";
  EXPECT_EQ(cancel(ids[0].bits() + kGeneration), TimerError::invalid_id) << "a later one";
  EXPECT_EQ(cancel(ids[1].bits() + kGeneration), TimerError::invalid_id) << "the next one";
  EXPECT_EQ(cancel(ids[299].bits() + 1), TimerError::invalid_id) << "a slot not used so far";
  EXPECT_EQ(cancel(ids[0].bits() + 100 * 256), TimerError::invalid_id) << "no such chunk";
  EXPECT_EQ(table.live(), 299U);
}

TEST(TimerTable, IdsOfOtherTablesAreInvalidAlthoughTheirSlotAndGenerationMatch) {
  TimerTable table(kStart, 100);
  TimerTable other(kStart, 100);
  const TimerId ours = *table.schedule(at(milliseconds(10)), 1);
  const TimerId theirs = *other.schedule(at(milliseconds(10)), 2);
  EXPECT_EQ(error_of(table.cancel(theirs)), TimerError::invalid_id);
  EXPECT_EQ(error_of(table.reschedule(theirs, kNever)), TimerError::invalid_id);
  EXPECT_EQ(table.cancel(ours), 1U);
  EXPECT_EQ(other.cancel(theirs), 2U);
}

// The numbers of tables come round after 16,383: never to that of a living one, and to that of a
// dead one as late as that.
TEST(TimerTable, TheNumberOfALivingTableIsNeverGivenAgain) {
  TimerTable living(kStart, 1);
  const TimerId id = *living.schedule(kNever, 1);
  const auto dead = std::make_unique<TimerTable>(kStart, 1)->schedule(kNever, 2);
  std::size_t made = 0;
  for (bool met_the_dead = false; made < 40'000; ++made) {
    const auto table = std::make_unique<TimerTable>(kStart, 1);
    ASSERT_TRUE(table->schedule(kNever, 3).has_value());
    ASSERT_EQ(error_of(table->cancel(id)), TimerError::invalid_id) << made;
    if (table->cancel(*dead).has_value()) met_the_dead = true;
    ASSERT_TRUE(!met_the_dead || made >= 16'000) << made;
  }
  EXPECT_EQ(living.cancel(id), 1U);
}

TEST(TimerTable, PollTellsNoMoreThanAskedAndTheRestStaysDue) {
  TimerTable table(kStart, 1'000);
  const std::vector<TimerId> ids = schedule_many(table, 20, at(milliseconds(10)));
  const TimerId later = *table.schedule(at(milliseconds(11)), 99);
  const Instant now = at(milliseconds(12));
  std::array<ExpiredTimer, 8> out;
  EXPECT_EQ(table.poll(now, 0, out), 0U);
  EXPECT_EQ(table.poll(now, 100, std::span<ExpiredTimer>()), 0U);
  EXPECT_LE(table.next_deadline(), now);
  EXPECT_EQ(table.poll(now, 3, out), 3U);
  EXPECT_EQ(out[3].id, TimerId()) << "untouched";
  EXPECT_EQ(table.poll(now, 100, out), 8U);
  EXPECT_EQ(table.live(), 10U);
  EXPECT_LE(table.next_deadline(), now);
  std::size_t cancelled = 0;
  for (const TimerId id : ids) cancelled += table.cancel(id).has_value() ? 1U : 0U;
  EXPECT_EQ(cancelled, 9U) << "what is due but not told can still be cancelled";
  ASSERT_EQ(table.poll(now, 100, out), 1U);
  EXPECT_EQ(out[0].id, later);
  EXPECT_EQ(table.next_deadline(), kNever);
}

TEST(TimerTable, PollTellsInOrderOfTicks) {
  TimerTable table(kStart, 1'000);
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(table.schedule(at(milliseconds(1 + i * 7919 % 300)), i).has_value());
  }
  Instant last{};
  const std::vector<ExpiredTimer> fired = drain(table, at(hours(1)));
  EXPECT_EQ(fired.size(), 500U);
  for (const ExpiredTimer& timer : fired) {
    EXPECT_GE(timer.deadline, last);
    EXPECT_EQ(timer.deadline, at(milliseconds(1 + timer.value * 7919 % 300)));
    last = timer.deadline;
  }
}

TEST(TimerTable, AClockThatStepsBackChangesNothing) {
  TimerTable table(at(milliseconds(100)), 10);
  ASSERT_TRUE(table.schedule(at(milliseconds(110)), 1).has_value());
  std::array<ExpiredTimer, 4> out;
  EXPECT_EQ(table.poll(at(milliseconds(50)), 4, out), 0U);
  EXPECT_EQ(table.now(), at(milliseconds(100)));
  EXPECT_EQ(table.stats().clock_steps_back, 1U);
  EXPECT_EQ(drain(table, at(milliseconds(110))).size(), 1U);
}

TEST(TimerTable, RescheduledTimersKeepIdAndValueAndFireAtTheNewDeadline) {
  TimerTable table(kStart, 100);
  const TimerId later = *table.schedule(at(milliseconds(10)), 1);
  const TimerId earlier = *table.schedule(at(hours(10)), 2);
  const TimerId never = *table.schedule(at(milliseconds(10)), 3);
  const TimerId from_never = *table.schedule(kNever, 4);
  EXPECT_TRUE(table.reschedule(later, at(hours(2))).has_value());
  EXPECT_TRUE(table.reschedule(earlier, at(milliseconds(5))).has_value());
  EXPECT_TRUE(table.reschedule(never, kNever).has_value());
  EXPECT_TRUE(table.reschedule(from_never, at(milliseconds(7))).has_value());
  EXPECT_EQ(values_of(drain(table, at(hours(1)))), (std::vector<std::uint64_t>{2, 4}));
  EXPECT_TRUE(table.reschedule(later, at(milliseconds(0))).has_value()) << "in the past";
  const std::vector<ExpiredTimer> fired = drain(table, at(hours(1)) + milliseconds(1));
  ASSERT_EQ(values_of(fired), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(fired[0].id, later);
  EXPECT_TRUE(drain(table, at(hours(100'000))).empty());
  EXPECT_EQ(table.cancel(never), 3U);
}

TEST(TimerTable, DeadlinesOfAnyLengthFireInTheirTick) {
  TimerTable table(kStart, 100);
  const Instant last = TimingWheel::instant_of(TimingWheel::tick_before(kNever));
  std::vector<Instant> deadlines = {at(milliseconds(1)),       at(hours(12 * 24)),
                                    at(hours(13 * 24)),        at(hours(400 * 24)),
                                    at(hours(100 * 365 * 24)), last};
  for (const Instant deadline : deadlines) {
    ASSERT_TRUE(table.schedule(deadline, 0).has_value());
    EXPECT_TRUE(drain(table, deadline - milliseconds(1)).empty());
    EXPECT_EQ(drain(table, deadline).size(), 1U);
  }
}

TEST(TimerTable, NeverIsADeadlineWhatNoClockShowsIsAnError) {
  TimerTable table(kStart, 100);
  const TimerId never = *table.schedule(kNever, 9);
  EXPECT_EQ(table.next_deadline(), kNever);
  EXPECT_TRUE(drain(table, kNever - milliseconds(1)).empty());
  EXPECT_EQ(table.cancel(never), 9U);

  TimerTable fresh(kStart, 100);
  const Instant last = TimingWheel::instant_of(TimingWheel::tick_before(kNever));
  for (const Instant deadline : {last + nanoseconds(1), kNever - nanoseconds(1)}) {
    EXPECT_EQ(error_of(fresh.schedule(deadline, 0)), TimerError::overflow);
    EXPECT_EQ(error_of(fresh.schedule_best_fit(deadline, 0)), TimerError::overflow);
  }
  for (const Instant deadline : {Instant::min(), Instant{} - nanoseconds(1)}) {
    EXPECT_EQ(error_of(fresh.schedule(deadline, 0)), TimerError::invalid_deadline);
    EXPECT_EQ(error_of(fresh.schedule_best_fit(deadline, 0)), TimerError::invalid_deadline);
  }
  EXPECT_EQ(fresh.live(), 0U);
  const TimerId id = *fresh.schedule(at(milliseconds(10)), 1);
  EXPECT_EQ(error_of(fresh.reschedule(id, Instant::min())), TimerError::invalid_deadline);
  EXPECT_EQ(error_of(fresh.reschedule(id, last + nanoseconds(1))), TimerError::overflow);
  EXPECT_EQ(fresh.next_deadline(), at(milliseconds(10))) << "unchanged";
}

TEST(TimerTable, TheLimitBoundsLiveTimers) {
  TimerTable table(kStart, 300);
  EXPECT_EQ(table.limit(), 300U);
  const std::vector<TimerId> ids = schedule_many(table, 300, at(milliseconds(10)));
  EXPECT_EQ(error_of(table.schedule(at(hours(1)), 1)), TimerError::capacity);
  EXPECT_EQ(error_of(table.schedule_best_fit(at(hours(1)), 1)), TimerError::capacity);
  EXPECT_TRUE(table.cancel(ids[7]).has_value());
  EXPECT_TRUE(table.schedule(at(milliseconds(10)), 1).has_value());
  EXPECT_EQ(error_of(table.schedule(at(hours(1)), 1)), TimerError::capacity);
  EXPECT_EQ(drain(table, at(milliseconds(10))).size(), 300U);
  EXPECT_TRUE(table.schedule(at(hours(1)), 1).has_value());
  TimerTable none(kStart, 0);
  EXPECT_EQ(error_of(none.schedule(at(hours(1)), 1)), TimerError::capacity);
  EXPECT_EQ(TimerTable(kStart, ~std::size_t{0}).limit(), std::size_t{1} << 24);
}

TEST(TimerTable, ReserveTakesMemoryUpToTheLimit) {
  TimerTable table(kStart, 1'000);
  EXPECT_EQ(table.capacity(), 0U);
  EXPECT_TRUE(table.reserve(0));
  EXPECT_TRUE(table.reserve(300));
  EXPECT_EQ(table.capacity(), 512U);
  EXPECT_TRUE(table.reserve(100)) << "there already";
  EXPECT_EQ(table.capacity(), 512U);
  EXPECT_FALSE(table.reserve(1'001));
  EXPECT_TRUE(table.reserve(1'000));
  EXPECT_EQ(table.capacity(), 1'024U);
  EXPECT_EQ(table.memory_stats().slab.chunks, 4U);
  schedule_many(table, 1'000, at(milliseconds(10)));
  EXPECT_EQ(table.capacity(), 1'024U) << "nothing was added";
  EXPECT_EQ(table.check(), "");
}

TEST(TimerTable, ClearCancelsEverything) {
  TimerTable table(kStart, 10'000);
  std::vector<TimerId> ids = schedule_many(table, 1'000, at(milliseconds(10)));
  const std::vector<TimerId> due = schedule_many(table, 100, at(milliseconds(1)));
  const std::vector<TimerId> never = schedule_many(table, 100, kNever);
  std::array<ExpiredTimer, 4> out;
  EXPECT_EQ(table.poll(at(milliseconds(2)), 4, out), 4U);
  EXPECT_EQ(table.clear(), 1'196U);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.check(), "");
  ids.insert(ids.end(), due.begin(), due.end());
  ids.insert(ids.end(), never.begin(), never.end());
  for (const TimerId id : ids) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  EXPECT_TRUE(drain(table, at(hours(1))).empty());
  EXPECT_EQ(table.next_deadline(), kNever);
  EXPECT_EQ(table.clear(), 0U);
}

TEST(TimerTable, CompactGivesBackWhatIsFreeAndKeepsGenerations) {
  TimerTable table(kStart, 10'000);
  std::set<TimerId> ever;
  std::vector<TimerId> stale;
  for (std::uint64_t round = 0; round < 20; ++round) {
    const std::vector<TimerId> ids = schedule_many(table, 1'024, at(hours(1)));
    ever.insert(ids.begin(), ids.end());
    ASSERT_EQ(ever.size(), (round + 1) * 1'024) << "an id was given twice";
    for (const TimerId id : stale) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
    ASSERT_EQ(table.live(), 1'024U);
    const std::size_t kept = round % 2 == 0 ? 0 : 1;
    for (std::size_t i = kept; i < ids.size(); ++i) ASSERT_EQ(table.cancel(ids[i]), i);
    ASSERT_EQ(table.compact(), (4 - kept) * (256 * 64 + 64));
    ASSERT_EQ(table.check(), "");
    const TimerSlabUse use = table.memory_stats().slab;
    ASSERT_EQ(use.chunks, kept);
    ASSERT_EQ(use.released_chunks, 4 - kept);
    ASSERT_EQ(table.capacity(), kept * 256);
    for (const TimerId id : stale) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
    if (kept == 1) {
      ASSERT_EQ(table.cancel(ids[0]), 0U);
    }
    stale.insert(stale.end(), ids.begin(), ids.end());
    for (const TimerId id : ids) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  }
}

TEST(TimerTable, AfterCompactTheFirstChunksFillFirst) {
  TimerTable table(kStart, 10'000);
  const std::vector<TimerId> ids = schedule_many(table, 1'024, at(hours(1)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % 256 != 0) {
      ASSERT_TRUE(table.cancel(ids[i]).has_value());
    }
  }
  EXPECT_EQ(table.compact(), 0U) << "each chunk has a live timer";
  schedule_many(table, 100, at(hours(1)));
  for (std::size_t i = 256; i < ids.size(); i += 256) ASSERT_TRUE(table.cancel(ids[i]).has_value());
  EXPECT_GT(table.compact(), 0U);
  EXPECT_EQ(table.memory_stats().slab.chunks, 1U);
}

TEST(TimerTable, ASlotWhoseGenerationsAreUsedUpIsRetired) {
  BasicTimerTable<1'000'000, TimerIdSpace{.last_generation = 3}> table(kStart, 1);
  std::set<TimerId> ever;
  for (std::uint64_t i = 0; i < 3 * 256 * 3; ++i) {
    const auto id = table.schedule(at(hours(1)), i);
    ASSERT_TRUE(id.has_value());
    ASSERT_TRUE(ever.insert(*id).second) << "an id was given twice";
    ASSERT_EQ(table.cancel(*id), i);
    ASSERT_EQ(error_of(table.cancel(*id)), TimerError::not_found);
    ASSERT_EQ(table.memory_stats().slab.retired, (i + 1) / 3);
  }
  EXPECT_EQ(table.memory_stats().slab.chunks, 3U) << "others took the place of what was used up";
  EXPECT_EQ(table.capacity(), 0U);
  EXPECT_EQ(table.check(), "");
  for (const TimerId id : ever) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  EXPECT_EQ(table.compact(), 3U * (256 * 64 + 64));
  EXPECT_EQ(table.memory_stats().slab.used_up_chunks, 3U);
  for (const TimerId id : ever) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  EXPECT_TRUE(table.schedule(at(hours(1)), 1).has_value());
  EXPECT_EQ(table.check(), "");
}

TEST(TimerTable, WhenEveryIdHasBeenGivenThereIsNoOtherTimer) {
  constexpr TimerIdSpace kTiny{.last_generation = 2, .most_chunks = 2};
  BasicTimerTable<1'000'000, kTiny> table(kStart, 1'000);
  EXPECT_EQ(table.limit(), 512U);
  std::set<TimerId> ever;
  for (std::uint64_t i = 0; i < 2 * 512; ++i) {
    const auto id = table.schedule(at(hours(1)), i);
    ASSERT_TRUE(id.has_value());
    ever.insert(*id);
    ASSERT_EQ(table.cancel(*id), i);
    if (i % 100 == 0) table.compact();
  }
  EXPECT_EQ(ever.size(), 1'024U);
  EXPECT_EQ(error_of(table.schedule(at(hours(1)), 0)), TimerError::capacity);
  table.compact();
  EXPECT_EQ(error_of(table.schedule(at(hours(1)), 0)), TimerError::capacity);
  EXPECT_FALSE(table.reserve(1));
  for (const TimerId id : ever) ASSERT_EQ(error_of(table.cancel(id)), TimerError::not_found);
  EXPECT_EQ(table.memory_stats().slab.retired, 512U);
}

TEST(TimerTable, MemoryStatsSayWhereTheTimersAre) {
  TimerTable table(kStart, 10'000);
  schedule_many(table, 1, at(milliseconds(1)));
  std::array<ExpiredTimer, 1> out;
  schedule_many(table, 2, at(milliseconds(1)));
  ASSERT_EQ(table.poll(at(milliseconds(1)), 1, out), 1U);
  schedule_many(table, 3, at(milliseconds(40)));
  schedule_many(table, 4, at(milliseconds(3'000)));
  schedule_many(table, 5, at(milliseconds(200'000)));
  schedule_many(table, 6, at(hours(3)));
  schedule_many(table, 7, at(hours(200)));
  schedule_many(table, 8, at(hours(20 * 24)));
  schedule_many(table, 9, kNever);
  const TimerTableMemory memory = table.memory_stats();
  EXPECT_EQ(memory.timers.due, 2U);
  EXPECT_EQ(memory.timers.levels, (std::array<std::size_t, 5>{3, 4, 5, 6, 7}));
  EXPECT_EQ(memory.timers.overflow, 8U);
  EXPECT_EQ(memory.timers.never, 9U);
  EXPECT_EQ(memory.slab.live, 44U);
  EXPECT_EQ(memory.slab.free, 256U - 44U);
  EXPECT_EQ(memory.slab.chunk_bytes, 256U * 64 + 64);
  EXPECT_EQ(memory.bytes, sizeof table + memory.slab.chunk_bytes + memory.slab.index_bytes);
}

TEST(TimerTable, DiesWithLiveTimers) {
  auto table = std::make_unique<TimerTable>(kStart, 10'000);
  schedule_many(*table, 3'000, at(hours(1)));
  table.reset();
}

TEST(TimerTable, AnIdPassesThroughANumber) {
  TimerTable table(kStart, 10);
  const TimerId id = *table.schedule(kNever, 1);
  EXPECT_NE(id, TimerId());
  EXPECT_EQ(TimerId(id.bits()), id);
  EXPECT_EQ(std::hash<TimerId>()(id), std::hash<TimerId>()(TimerId(id.bits())));
}

TEST(TimerTable, ErrorsHaveTheirNames) {
  EXPECT_EQ(to_string(TimerError::invalid_id), "invalid_id");
  EXPECT_EQ(to_string(TimerError::invalid_deadline), "invalid_deadline");
  EXPECT_EQ(to_string(TimerError::capacity), "capacity");
  EXPECT_EQ(to_string(TimerError::overflow), "overflow");
  EXPECT_EQ(to_string(TimerError::not_found), "not_found");
}

}  // namespace
}  // namespace pinion::test

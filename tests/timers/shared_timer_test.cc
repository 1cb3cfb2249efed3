#include <pinion/timers/shared_timer.h>

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "shared_timer_world.h"

/// What SharedTimer promises, one thread at a time.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

class SharedTimerTest : public ::testing::Test {
 protected:
  static constexpr unsigned kShards = 3;

  SharedTimerTest() {
    for (unsigned index = 0; index < kShards; ++index) lcores.emplace_back(timers->shard(index));
    lcores[0].start(now);
  }

  SharedTimer make(unsigned shard = 0) {
    return make_shared_timer(
        *timers, shard, [](void* self) { ++static_cast<SharedTimerTest*>(self)->fired; }, this);
  }

  /// Moves the clock on and turns every lcore that runs.
  void pass(Delay delay) {
    now = now + delay;
    turn();
  }
  void turn() {
    for (FakeLcore& lcore : lcores) {
      if (lcore.running()) lcore.turn(now);
    }
  }

  static SharedTimerState state(const SharedTimer& timer) { return timer.look().state; }

  void expect_accounts(std::uint64_t pending) {
    const SharedTimerStats stats = timers->stats();
    EXPECT_EQ(stats.pending, pending);
    EXPECT_EQ(stats.fired, static_cast<std::uint64_t>(fired));
    EXPECT_EQ(stats.scheduled, stats.fired + stats.cancelled + stats.replaced + stats.pending);
  }

  Instant now{1h};
  std::unique_ptr<SharedTimers> timers = make_shared_timers({.capacity = 8, .shards = kShards});
  std::deque<FakeLcore> lcores;
  int fired = 0;
};

TEST_F(SharedTimerTest, FiresOnceAtTheFirstTurnAtOrPastItsDeadline) {
  SharedTimer timer = make();
  EXPECT_EQ(state(timer), SharedTimerState::cancelled);
  EXPECT_FALSE(timer.schedule(now + 10ms).replaced);
  EXPECT_EQ(state(timer), SharedTimerState::scheduled);
  turn();
  pass(9ms);
  EXPECT_EQ(fired, 0);
  pass(1ms);
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(state(timer), SharedTimerState::fired);
  pass(1h);
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, RoundsADeadlineUpSoThatItIsNeverEarly) {
  SharedTimer timer = make();
  timer.schedule(now + 1ns);
  EXPECT_EQ(timer.look().deadline, now + 1ms);
  turn();
  pass(999'999ns);
  EXPECT_EQ(fired, 0);
  pass(1ns);
  EXPECT_EQ(fired, 1);
}

TEST_F(SharedTimerTest, ADeadlineThatHasPassedFiresAtTheNextTurn) {
  SharedTimer timer = make();
  timer.schedule(now - 5ms);
  EXPECT_EQ(fired, 0);
  turn();
  EXPECT_EQ(fired, 1);
  timer.schedule(Instant::min());
  turn();
  EXPECT_EQ(fired, 2);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, CancelTellsWhetherItPreventedTheCallback) {
  SharedTimer timer = make();
  EXPECT_FALSE(timer.cancel()) << "never scheduled";
  timer.schedule(now + 10ms);
  EXPECT_TRUE(timer.cancel());
  EXPECT_FALSE(timer.cancel()) << "cancelled already";
  EXPECT_EQ(state(timer), SharedTimerState::cancelled);
  pass(1s);
  EXPECT_EQ(fired, 0);
  timer.schedule(now + 10ms);
  turn();
  EXPECT_TRUE(timer.cancel()) << "linked by now";
  timer.schedule(now + 10ms);
  turn();
  pass(10ms);
  EXPECT_FALSE(timer.cancel()) << "fired";
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, AScheduleReplacesTheOneThatIsPending) {
  SharedTimer timer = make();
  const Scheduled first = timer.schedule(now + 10ms);
  turn();
  const Scheduled later = timer.schedule(now + 20ms);
  EXPECT_TRUE(later.replaced);
  EXPECT_EQ(later.generation, first.generation + 1);
  pass(10ms);
  EXPECT_EQ(fired, 0) << "the entry came up at its old place, and was armed again";
  EXPECT_TRUE(timer.schedule(now + 5ms).replaced);
  turn();
  pass(5ms);
  EXPECT_EQ(fired, 1) << "earlier than what the entry was armed for";
  pass(1h);
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(timer.schedule(now + 1ms).replaced) << "the last one has fired";
  EXPECT_EQ(timers->stats().replaced, 2U);
  expect_accounts(1);
}

TEST_F(SharedTimerTest, NeverIsPendingAndDoesNotFire) {
  SharedTimer timer = make();
  for (const Instant never : {kNever, Instant{std::chrono::hours{24 * 366 * 150}}}) {
    timer.schedule(never);
    turn();
    EXPECT_EQ(timer.look().deadline, kNever);
    EXPECT_EQ(lcores[0].wheel().armed_count(), 0U);
    pass(std::chrono::hours{24 * 366});
    EXPECT_EQ(fired, 0);
    expect_accounts(1);
  }
  timer.schedule(now + 1ms);
  turn();
  timer.schedule(kNever);
  pass(1ms);
  EXPECT_EQ(fired, 0);
  EXPECT_TRUE(timer.cancel());
  expect_accounts(0);
}

TEST_F(SharedTimerTest, TheFarthestDeadlineThatFires) {
  SharedTimer timer = make();
  const Instant last{std::chrono::milliseconds{(std::int64_t{1} << 42) - 2}};
  timer.schedule(last);
  EXPECT_EQ(timer.look().deadline, last);
  turn();
  now = last - 1ms;
  turn();
  EXPECT_EQ(fired, 0);
  pass(1ms);
  EXPECT_EQ(fired, 1);
}

TEST_F(SharedTimerTest, GenerationsWrapWithoutTouchingDeadlineOrState) {
  constexpr std::uint32_t kGenerations = 1U << 20;
  SharedTimer timer = make();
  const Instant deadline = now + 7ms;
  std::uint32_t last = timer.look().generation;
  for (std::uint32_t made = 0; made < kGenerations + 3; ++made) {
    const std::uint32_t generation = timer.schedule(deadline).generation;
    ASSERT_EQ(generation, (last + 1) % kGenerations);
    last = generation;
  }
  EXPECT_EQ(timer.look().generation, 3U);
  EXPECT_EQ(timer.look().deadline, deadline);
  EXPECT_EQ(state(timer), SharedTimerState::scheduled);
  turn();
  pass(7ms);
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, SaysWhenItIsFullAndHasRoomAgainAfterTheNextTurn) {
  std::vector<SharedTimer> all;
  for (std::size_t made = 0; made < timers->capacity(); ++made) all.push_back(make());
  all.back().schedule(now + 1s);
  turn();
  const auto refused = timers->make(0, [](void*) {}, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error(), ErrorCode::resource_exhausted);
  all.clear();
  EXPECT_EQ(timers->stats().handles, 0U);
  EXPECT_FALSE(timers->make(0, [](void*) {}, nullptr).has_value()) << "still linked";
  turn();
  EXPECT_EQ(lcores[0].wheel().armed_count(), 0U);
  for (std::size_t made = 0; made < timers->capacity(); ++made) {
    all.push_back(make());
    EXPECT_EQ(state(all.back()), SharedTimerState::cancelled);
  }
  expect_accounts(0);
}

TEST_F(SharedTimerTest, AHandleMovesAndItsEndCancels) {
  SharedTimer timer = make();
  timer.schedule(now + 1ms);
  SharedTimer moved = std::move(timer);
  EXPECT_FALSE(timer);  // NOLINT(bugprone-use-after-move): that is what is tested
  ASSERT_TRUE(moved);
  SharedTimer other = make();
  other.schedule(now + 1ms);
  other = std::move(moved);
  turn();
  pass(1ms);
  EXPECT_EQ(fired, 1) << "the one that was assigned to is gone";
  other.schedule(now + 1ms);
  turn();
  other.reset();
  pass(1ms);
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(timers->stats().cancelled, 2U);
  EXPECT_EQ(timers->stats().stale, 1U);
  expect_accounts(0);
}

/// A callback that does what it likes with its own handle.
struct Selfish {
  explicit Selfish(SharedTimers& timers, Instant at) : now(at) {
    timer = make_shared_timer(
        timers, 0,
        [](void* self) {
          auto& selfish = *static_cast<Selfish*>(self);
          ++selfish.calls;
          EXPECT_TRUE(selfish.timer.calling());
          EXPECT_FALSE(selfish.timer.cancel());
          if (selfish.calls < 3) {
            selfish.timer.schedule(selfish.now + 1ms);
          } else {
            selfish.timer.reset();
          }
        },
        this);
  }
  Instant now;
  SharedTimer timer;
  int calls = 0;
};

TEST_F(SharedTimerTest, ACallbackMayScheduleAndDestroyItsOwnTimer) {
  Selfish selfish(*timers, now);
  selfish.timer.schedule(now);
  turn();
  EXPECT_EQ(selfish.calls, 1);
  EXPECT_FALSE(selfish.timer.calling());
  for (int round = 0; round < 4; ++round) {
    turn();
    now = now + 1ms;
    selfish.now = now;
    turn();
  }
  EXPECT_EQ(selfish.calls, 3);
  EXPECT_EQ(timers->stats().fired, 3U);
  EXPECT_EQ(timers->stats().handles, 0U);
}

/// Is always late: its callback schedules it into the past.
struct Insistent {
  explicit Insistent(SharedTimers& timers)
      : timer(make_shared_timer(
            timers, 0,
            [](void* self) {
              ++static_cast<Insistent*>(self)->calls;
              static_cast<Insistent*>(self)->timer.schedule(Instant::min());
            },
            this)) {}
  SharedTimer timer;
  int calls = 0;
};

TEST_F(SharedTimerTest, WhatIsScheduledIntoThePastInItsCallbackFiresInTheNextTurn) {
  Insistent first(*timers);
  Insistent second(*timers);
  SharedTimer other = make();
  first.timer.schedule(now);
  second.timer.schedule(now + 3ms);
  turn();
  EXPECT_EQ(first.calls, 1);
  other.schedule(now);
  turn();
  EXPECT_EQ(first.calls, 2);
  EXPECT_EQ(fired, 1) << "who insists holds up nobody";
  now = now + 3ms;
  lcores[0].turn(now);
  EXPECT_EQ(second.calls, 1);
  for (int round = 0; round < 10; ++round) {
    const std::size_t polled = lcores[0].turn(now, 1);
    EXPECT_EQ(polled, 1U) << "it doesn't sleep";
  }
  EXPECT_EQ(first.calls + second.calls, 3 + 1 + 10);
  EXPECT_GE(second.calls, 5);
  EXPECT_LE(second.calls, 7);
  lcores[0].turn(now);
  EXPECT_EQ(first.calls + second.calls, 3 + 1 + 12);
  EXPECT_TRUE(first.timer.cancel());
  EXPECT_TRUE(second.timer.cancel());
}

TEST_F(SharedTimerTest, WakesASleepingLcoreOnlyForAnEarlierDeadlineAndOncePerSleep) {
  FakeLcore& lcore = lcores[0];
  SharedTimer timer = make();
  SharedTimer other = make();
  timer.schedule(now + 1s);
  EXPECT_EQ(lcore.wakes(), 0) << "it is awake";
  lcore.shard().announce_sleep();
  EXPECT_EQ(lcore.turn(now), 1U) << "what came before the announcement refuses the sleep";
  EXPECT_EQ(lcore.turn(now), 0U);
  timer.schedule(now + 2s);
  EXPECT_EQ(lcore.wakes(), 0) << "later";
  timer.cancel();
  EXPECT_EQ(lcore.wakes(), 0) << "cancelled";
  timer.schedule(now + 500ms);
  EXPECT_EQ(lcore.wakes(), 1) << "earlier, although the cancel has queued it already";
  timer.schedule(now + 400ms);
  other.schedule(now + 1ms);
  EXPECT_EQ(lcore.wakes(), 1) << "rung already";
  lcore.shard().wake_up();
  EXPECT_EQ(lcore.turn(now), 2U);
  lcore.shard().announce_sleep();
  EXPECT_EQ(lcore.turn(now), 0U);
  other.schedule(now);
  EXPECT_EQ(lcore.wakes(), 2);
}

TEST_F(SharedTimerTest, PollKeepsToItsBudgetAndSaysThatThereIsMore) {
  std::vector<SharedTimer> some;
  for (int made = 0; made < 5; ++made) some.push_back(make());
  for (SharedTimer& timer : some) timer.schedule(now);
  EXPECT_EQ(lcores[0].turn(now, 2), 2U);
  EXPECT_EQ(fired, 2);
  EXPECT_EQ(lcores[0].turn(now, 2), 2U);
  EXPECT_EQ(lcores[0].turn(now, 2), 1U);
  EXPECT_EQ(lcores[0].turn(now, 2), 0U);
  EXPECT_EQ(fired, 5);
}

TEST_F(SharedTimerTest, CountsTheEntriesThatItFindsCancelled) {
  SharedTimer timer = make();
  timer.schedule(now + 1s);
  turn();
  timer.cancel();
  EXPECT_EQ(lcores[0].wheel().armed_count(), 1U);
  turn();
  EXPECT_EQ(lcores[0].wheel().armed_count(), 0U) << "unlinked at the next turn";
  EXPECT_EQ(timers->stats().stale, 1U);
}

TEST_F(SharedTimerTest, OthersAdoptWhatADrainLeavesInTurn) {
  std::vector<SharedTimer> some;
  for (int made = 0; made < 6; ++made) some.push_back(make());
  for (SharedTimer& timer : some) timer.schedule(now + 100ms);
  turn();
  lcores[1].start(now);
  lcores[2].start(now);
  lcores[0].stop();
  for (SharedTimer& timer : some) EXPECT_EQ(state(timer), SharedTimerState::migrating);
  expect_accounts(6);
  turn();
  for (SharedTimer& timer : some) EXPECT_EQ(state(timer), SharedTimerState::scheduled);
  EXPECT_EQ(lcores[1].wheel().armed_count(), 3U);
  EXPECT_EQ(lcores[2].wheel().armed_count(), 3U);
  pass(99ms);
  EXPECT_EQ(fired, 0) << "the original deadline";
  pass(1ms);
  EXPECT_EQ(fired, 6);
  const SharedTimerStats stats = timers->stats();
  EXPECT_EQ(stats.migrated, 6U);
  EXPECT_EQ(stats.adopted, 6U);
  EXPECT_EQ(stats.adopted_late, 0U);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, WhatIsLateWhenAdoptedFiresAtOnceAndIsCounted) {
  SharedTimer late = make();
  SharedTimer far = make();
  late.schedule(now + 10ms);
  far.schedule(now + 1h);
  turn();
  lcores[0].stop();
  pass(20ms);
  lcores[1].start(now);
  turn();
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(timers->stats().adopted, 2U);
  EXPECT_EQ(timers->stats().adopted_late, 1U);
  expect_accounts(1);
}

TEST_F(SharedTimerTest, WaitsForAShardWhenNoneRuns) {
  SharedTimer timer = make();
  timer.schedule(now + 1ms);
  turn();
  lcores[0].stop();
  pass(1h);
  expect_accounts(1);
  lcores[0].start(now);  // the same again
  turn();
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, MigratingTimersAreCancelledAndReplacedAsEver) {
  SharedTimer cancelled = make();
  SharedTimer replaced = make();
  SharedTimer ended = make();
  for (SharedTimer* timer : {&cancelled, &replaced, &ended}) timer->schedule(now + 10ms);
  turn();
  lcores[0].stop();
  EXPECT_TRUE(cancelled.cancel());
  EXPECT_TRUE(replaced.schedule(now + 5ms).replaced);
  ended.reset();
  lcores[1].start(now);
  turn();
  pass(4ms);
  EXPECT_EQ(fired, 0);
  pass(1ms);
  EXPECT_EQ(fired, 1);
  pass(1h);
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(timers->stats().adopted, 0U);
  EXPECT_EQ(timers->stats().migrated, 3U);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, AnIdleTimerOfAClosedShardIsTakenOverWhenItIsScheduled) {
  SharedTimer timer = make();
  lcores[1].start(now);
  lcores[0].stop();
  lcores[1].shard().announce_sleep();
  EXPECT_EQ(lcores[1].turn(now), 0U);
  timer.schedule(now + 1ms);
  EXPECT_EQ(lcores[1].wakes(), 1);
  lcores[1].shard().wake_up();
  turn();
  pass(1ms);
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST_F(SharedTimerTest, MadeForAShardThatHasNeverRun) {
  SharedTimer timer = make(2);
  timer.schedule(now + 1ms);
  turn();
  pass(1ms);
  EXPECT_EQ(fired, 1) << "by the one that runs";
}

TEST_F(SharedTimerTest, BlocksOfAClosedShardAreFreeAgainOnceAnotherHasTurned) {
  std::vector<SharedTimer> all;
  for (std::size_t made = 0; made < timers->capacity(); ++made) all.push_back(make());
  for (SharedTimer& timer : all) timer.schedule(now + 1s);
  turn();
  lcores[1].start(now);
  lcores[0].stop();
  all.clear();
  turn();
  for (std::size_t made = 0; made < timers->capacity(); ++made) all.push_back(make());
  expect_accounts(0);
}

TEST_F(SharedTimerTest, AWheelMayDieBeforeItsShardIsDrained) {
  SharedTimer timer = make(1);
  auto wheel = std::make_unique<TimingWheel>(now);
  timers->shard(1).attach(*wheel);
  timer.schedule(now + 1ms);
  timers->shard(1).poll(now, kNoBudget);
  EXPECT_EQ(wheel->armed_count(), 1U);
  wheel.reset();
  timers->shard(1).drain();
  turn();
  pass(1ms);
  EXPECT_EQ(fired, 1);
  expect_accounts(0);
}

TEST(SharedTimers, RefusesOptionsOutOfRange) {
  EXPECT_FALSE(SharedTimers::create({.capacity = 0, .shards = 1}).has_value());
  EXPECT_FALSE(SharedTimers::create({.capacity = 1, .shards = 0}).has_value());
  EXPECT_FALSE(SharedTimers::create({.capacity = SIZE_MAX, .shards = 1}).has_value());
  EXPECT_FALSE(SharedTimers::create({.capacity = 1, .shards = 1025}).has_value());
}

TEST(SharedTimersDeathTest, RefusesMisuse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto timers = make_shared_timers({.capacity = 1, .shards = 1});
        SharedTimer timer = make_shared_timer(*timers, 0, [](void*) {}, nullptr);
        timers.reset();
      },
      "every_handle_is_gone");
  EXPECT_DEATH(
      {
        auto timers = make_shared_timers({.capacity = 1, .shards = 1});
        TimingWheel wheel{Instant{}};
        timers->shard(0).attach(wheel);
        timers.reset();
      },
      "drained");
  EXPECT_DEATH(
      {
        auto timers = make_shared_timers({.capacity = 1, .shards = 1});
        static_cast<void>(timers->shard(0).poll(Instant{}, 1));
      },
      "running");
  EXPECT_DEATH(
      {
        auto timers = make_shared_timers({.capacity = 1, .shards = 1});
        TimingWheel wheel{Instant{}};
        timers->shard(0).attach(wheel);
        SharedTimer timer = make_shared_timer(
            *timers, 0, [](void* shard) { static_cast<SharedTimerShard*>(shard)->drain(); },
            &timers->shard(0));
        timer.schedule(Instant{});
        static_cast<void>(timers->shard(0).poll(Instant{}, 1));
      },
      "calling_");
}

TEST(SharedTimersDeathTest, AnExceptionThatLeavesACallbackEndsTheProcessWithAMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto timers = make_shared_timers({.capacity = 1, .shards = 1});
        TimingWheel wheel{Instant{}};
        timers->shard(0).attach(wheel);
        SharedTimer timer = make_shared_timer(*timers, 0, [](void*) { throw 1; }, nullptr);
        timer.schedule(Instant{});
        static_cast<void>(timers->shard(0).poll(Instant{}, 1));
      },
      "a shared timer's callback");
}

TEST_F(SharedTimerTest, ACancelOfASecondScheduleSaysNothingOfTheCallbackOfTheFirst) {
  struct Periodic {
    SharedTimer timer;
    Instant next;
    int calls = 0;
    bool cancelled = false;
    bool called_meanwhile = false;
  } periodic;
  periodic.timer = make_shared_timer(
      *timers, 0,
      [](void* self) {
        auto& its = *static_cast<Periodic*>(self);
        ++its.calls;
        its.timer.schedule(its.next);
        its.cancelled = its.timer.cancel();
        its.called_meanwhile = its.timer.calling();
      },
      &periodic);
  periodic.next = now + 10ms;
  periodic.timer.schedule(now + 5ms);
  pass(5ms);
  EXPECT_TRUE(periodic.cancelled);
  EXPECT_TRUE(periodic.called_meanwhile);
  EXPECT_FALSE(periodic.timer.calling());
  pass(1h);
  EXPECT_EQ(periodic.calls, 1);
}

TEST_F(SharedTimerTest, AMakeThatFindsNoBlockWakesWhoeverHasSomeToGiveBack) {
  {
    std::vector<SharedTimer> all;
    for (std::size_t i = 0; i < timers->capacity(); ++i) all.push_back(make());
  }
  lcores[0].shard().announce_sleep();
  const auto refused = timers->make(0, [](void*) {}, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::resource_exhausted);
  EXPECT_EQ(lcores[0].wakes(), 1);
  lcores[0].shard().wake_up();
  turn();
  EXPECT_TRUE(timers->make(0, [](void*) {}, nullptr));
}

/// What a cancel leaves in the inbox of a shard that has closed wakes an heir: a drain may have
/// left more behind it.
TEST_F(SharedTimerTest, WhateverIsPutIntoTheInboxOfAClosedShardWakesAnother) {
  SharedTimer timer = make();
  timer.schedule(now + 1h);
  turn();
  lcores[1].start(now);
  lcores[0].stop();
  turn();
  SharedTimer idle = make(0);  // Its shard is closed.
  lcores[1].shard().announce_sleep();
  idle.reset();
  EXPECT_EQ(lcores[1].wakes(), 1);
  lcores[1].shard().wake_up();
}

}  // namespace
}  // namespace pinion::test

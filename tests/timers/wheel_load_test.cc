#include <algorithm>
#include <deque>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"
#include "start_ticks.h"

/// Large populations: how much one advance() does, counted in entries, and what is left afterwards.

namespace pinion::test {
namespace {

constexpr std::size_t kMillion = 1'000'000;

/// The most entries that one advance() of a step touches while `ticks` pass, one by one.
std::uint64_t most_touched(WheelCore& wheel, Tick ticks) {
  std::uint64_t most = 0;
  for (Tick tick = 0; tick < ticks; ++tick) {
    const std::uint64_t before = wheel.stats().moved;
    const std::size_t fired = wheel.advance(wheel.now() + 1);
    most = std::max(most, wheel.stats().moved - before + fired);
  }
  return most;
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
TEST(TimingWheelTM9, AMillionTimersOverAMinuteInStepsOfATickAreBoundedWorkEach) {
  Random choices(seed());
  WheelCore wheel(choices.next() >> 20);
  std::deque<Probe> probes = make_probes(wheel, kMillion);
  for (Probe& probe : probes) wheel.arm(probe, wheel.now() + 1 + choices.below(60'000));
  // Per tick 17 fire. A slot of level 1 holds 1,067 and comes up at once; one of level 2 holds
  // 68,267 and is spread over 64 ticks: at most 1/50 of the last one, 1,365, in each.
  constexpr std::uint64_t kBound = kMillion / 300;
  EXPECT_LT(most_touched(wheel, 60'001), kBound);
  EXPECT_EQ(wheel.armed_count(), 0U);
  EXPECT_GT(wheel.stats().early_moved, kMillion / 2);
  EXPECT_LT(wheel.stats().moved, 3 * kMillion);
  EXPECT_EQ(wheel.stats().worst_lateness, 0U);
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// The same with a population that renews itself, as a server's does.
TEST(TimingWheelTM9, WorkIsBoundedInASteadyStateToo) {
  struct Renewed : TimerEntry {
    Renewed(WheelCore& its_wheel, Random& its_choices)
        : TimerEntry(&Renewed::on_fire), wheel(its_wheel), choices(its_choices) {}
    static void on_fire(TimerEntry& entry) {
      auto& renewed = static_cast<Renewed&>(entry);
      renewed.wheel.arm(entry, renewed.wheel.now() + 1 + renewed.choices.below(60'000));
    }
    WheelCore& wheel;
    Random& choices;
  };
  Random choices(seed());
  WheelCore wheel(choices.next() >> 20);
  constexpr std::size_t kLive = 100'000;
  std::deque<Renewed> entries;
  for (std::size_t made = 0; made < kLive; ++made) {
    wheel.arm(entries.emplace_back(wheel, choices), wheel.now() + 1 + choices.below(60'000));
  }
  EXPECT_LT(most_touched(wheel, 30'000), kLive / 200);
  EXPECT_EQ(wheel.check(), "");
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// A herd on one tick, a budget, and a few timers on the ticks around it: each call is bounded in
/// callbacks and in moved entries, nothing fires out of order, and the loop gets its turn between.
TEST(TimingWheelTM9, AMillionOnOneTickFireWithinABudgetAndInOrder) {
  WheelCore wheel(12'345);
  const Tick herd_tick = 12'345 + 70'000;
  struct Member : TimerEntry {
    explicit Member(Tick& its_last) : TimerEntry(&Member::on_fire), last(its_last) {}
    static void on_fire(TimerEntry& entry) {
      Tick& last = static_cast<Member&>(entry).last;
      EXPECT_LE(last, entry.deadline());
      last = entry.deadline();
    }
    Tick& last;
  };
  Tick last = 0;
  std::deque<Member> herd;
  for (std::size_t made = 0; made < kMillion; ++made) {
    wheel.arm(herd.emplace_back(last), herd_tick + (made % 1000 == 0 ? made / 1000 % 7 : 0));
  }
  constexpr std::size_t kBudget = 1000;
  const std::uint64_t bound = WheelCore::kMovesPerBudget * kBudget;
  std::size_t fired = 0;
  std::size_t calls = 0;
  for (Tick now = 12'345; fired < kMillion; ++calls) {
    if (wheel.next_expiry() > now) ++now;  // otherwise the loop comes back at once
    const std::uint64_t before = wheel.stats().moved;
    const std::size_t these = wheel.advance(now, kBudget);
    ASSERT_LE(these, kBudget);
    ASSERT_LE(wheel.stats().moved - before, bound) << "at " << now;
    fired += these;
    ASSERT_LE(wheel.now(), now);
    ASSERT_LT(calls, 100'000U);
  }
  EXPECT_GE(wheel.stats().budget_hits, kMillion / kBudget - 10);
  EXPECT_EQ(wheel.armed_count(), 0U);
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// The same with the budget of a slow loop and entries that are cancelled, extended and armed while
/// a cascade is half done; check() sees the open event.
TEST(TimingWheelTM9, ACascadeThatTheBudgetCutsInTwoLosesNothing) {
  Random choices(seed());
  for (const Tick start : {Tick{0}, Tick{64 * 64 * 64 - 1}, (Tick{1} << 36) + 63}) {
    WheelCore wheel(start);
    const Tick boundary = (start / 4096 + 3) * 4096;
    std::deque<Probe> probes = make_probes(wheel, 30'000);
    for (Probe& probe : probes) {
      probe.wanted = boundary + choices.below(3) * 32;
      wheel.arm(probe, probe.wanted);
    }
    const Tick target = boundary + 200;
    std::size_t fired = 0;
    for (int calls = 0; wheel.now() < target; ++calls) {
      ASSERT_LT(calls, 5000);
      fired += wheel.advance(target, 100);
      ASSERT_EQ(calls % 8 == 0 ? wheel.check() : "", "");
      for (int touched = 0; touched < 5; ++touched) {
        Probe& probe = probes[choices.below(probes.size())];
        if (!probe.armed()) continue;
        switch (choices.below(3)) {
          case 0:
            probe.wanted = target + 1 + choices.below(5000);
            wheel.extend(probe, probe.wanted);
            break;
          case 1:
            probe.wanted = wheel.now() + 1 + choices.below(100);
            wheel.arm(probe, probe.wanted);
            break;
          default:
            wheel.cancel(probe);
            probe.wanted = 0;
        }
      }
    }
    fired += wheel.advance(target + 6000);
    std::size_t expected = 0;
    for (const Probe& probe : probes) {
      ASSERT_EQ(probe.fired, probe.wanted != 0 ? 1U : 0U);
      ASSERT_GE(probe.fired_at, probe.wanted);
      expected += probe.fired;
    }
    ASSERT_EQ(fired, expected);
    ASSERT_EQ(wheel.check(), "");
  }
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// All of a large overflow population enters at the same watermark: a bit per advance.
TEST(TimingWheelTM9, TheScanOfTheOverflowListsIsSpread) {
  constexpr Tick kBegin = WheelCore::kSpan / 2;
  constexpr std::size_t kLive = 100'000;
  WheelCore wheel(0);
  std::deque<Probe> probes = make_probes(wheel, kLive);
  for (std::size_t index = 0; index < kLive; ++index) {
    wheel.arm(probes[index], WheelCore::kSpan + 1 + index);
  }
  wheel.advance(kBegin - 1);
  EXPECT_EQ(wheel.stats().moved, 0U);
  EXPECT_LT(most_touched(wheel, 4000), kLive / 1000);
  EXPECT_EQ(wheel.stats().moved, kLive) << "through long before it is forced";
  EXPECT_EQ(wheel.check(), "");
  EXPECT_EQ(wheel.advance(WheelCore::kSpan + kLive), kLive);
}

// TM10: timers armed and cancelled by the million leave nothing behind.
TEST(TimingWheelTM10, TenMillionArmedAndCancelledLeaveNothingBehind) {
  constexpr std::size_t kPerTick = 1000;
  constexpr std::size_t kLive = 50 * kPerTick;
  WheelCore wheel(777);
  std::deque<Probe> probes = make_probes(wheel, kLive);
  std::size_t next = 0;
  for (int tick = 0; tick < 10'000; ++tick) {
    for (std::size_t count = 0; count < kPerTick; ++count, next = (next + 1) % kLive) {
      wheel.cancel(probes[next]);
      wheel.arm(probes[next], wheel.now() + 60'000);
    }
    wheel.advance(wheel.now() + 1);
  }
  for (Probe& probe : probes) wheel.cancel(probe);
  EXPECT_EQ(wheel.armed_count(), 0U);
  EXPECT_EQ(wheel.next_expiry(), kNeverTick);
  EXPECT_EQ(wheel.check(), "");
  const std::uint64_t events = wheel.stats().events;
  for (int tick = 0; tick < 100'000; ++tick) wheel.advance(wheel.now() + 1);
  EXPECT_EQ(wheel.stats().events, events) << "no wake-up follows";
  EXPECT_EQ(wheel.stats().fired, 0U);
}

// TM10: timers armed and cancelled by the million leave nothing behind.
/// From every start: what was cancelled in any slot leaves nothing behind.
TEST(TimingWheelTM10, WhatIsArmedAndCancelledLeavesNothingBehindFromEveryStart) {
  Random random(seed());
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - (Tick{1} << 42)) continue;
    WheelCore wheel(start);
    std::deque<Probe> probes = make_probes(wheel, 200);
    for (int step = 0; step < 2000; ++step) {
      Probe& probe = probes[random.below(probes.size())];
      wheel.cancel(probe);
      wheel.arm(probe, wheel.now() + 60'000 + any_magnitude(random, 35));
      wheel.advance(wheel.now() + random.below(20));
    }
    for (Probe& probe : probes) wheel.cancel(probe);
    ASSERT_EQ(wheel.next_expiry(), kNeverTick);
    ASSERT_EQ(wheel.check(), "");
    const std::uint64_t events = wheel.stats().events;
    wheel.advance(wheel.now() + (Tick{1} << 36));
    ASSERT_EQ(wheel.stats().events, events);
  }
}

/// Each call of arm() counts once: as armed or as re-armed.
TEST(TimingWheel, CountsWhatIsArmedAgainAsSuch) {
  WheelCore wheel(5);
  std::deque<Probe> probes = make_probes(wheel, 3);
  for (Probe& probe : probes) wheel.arm(probe, 10);
  wheel.arm(probes[0], 12);
  wheel.arm(probes[0], 11);
  wheel.arm(probes[1], kNeverTick);
  wheel.cancel(probes[1]);
  wheel.extend(probes[1], 20);
  EXPECT_EQ(wheel.advance(15), 2U);
  const WheelStats stats = wheel.stats();
  EXPECT_EQ(stats.armed, 4U);
  EXPECT_EQ(stats.rearmed, 3U);
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(stats.fired, 2U);
  EXPECT_EQ(stats.armed, stats.fired + stats.cancelled + wheel.armed_count());
}

}  // namespace
}  // namespace pinion::test

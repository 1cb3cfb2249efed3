#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"
#include "start_ticks.h"

/// How time passes: boundaries, pauses, steps back, sleeping loops. In ticks.

namespace pinion::test {
namespace {

constexpr Tick kDay = 86'400'000;  // of 1 ms

// TM2: time near 2^30, 2^36 and 2^63 ticks, with a far timer beside short ones.
TEST(TimingWheelTM2, ShortTimersFireInTheirTickAcrossABoundaryBesideAFarOne) {
  Random choices(seed());
  for (const Tick boundary : {Tick{1} << 30, Tick{1} << 36, Tick{1} << 63}) {
    const Tick start = boundary - 1000;
    WheelCore wheel(start);
    Probe far(wheel);
    wheel.arm(far, start + 400 * kDay);
    std::deque<Probe> probes = make_probes(wheel, 5000);
    for (Probe& probe : probes) {
      probe.wanted = start + 1 + choices.below(2000);
      wheel.arm(probe, probe.wanted);
    }
    // A level-1 slot holds 160 on average, and 13 are due in each of its ticks.
    constexpr std::uint64_t kMostPerStep = 500;
    for (Tick now = start + 1; now <= start + 2000; ++now) {
      const std::uint64_t before = wheel.stats().moved;
      const std::size_t fired = wheel.advance(now);
      ASSERT_LT(wheel.stats().moved - before + fired, kMostPerStep) << "at " << now - boundary;
    }
    for (const Probe& probe : probes) ASSERT_EQ(probe.fired_at, probe.wanted);
    EXPECT_FALSE(far.fired);
    wheel.advance(start + 400 * kDay);
    EXPECT_EQ(far.fired, 1U);
    EXPECT_EQ(wheel.check(), "");
  }
}

/// Sleeps until next_expiry(), rounded up to a multiple of `unit` as a loop does that sleeps in a
/// coarser one.
void wake_up(WheelCore& wheel, Tick unit) {
  const Tick wake = wheel.next_expiry();
  EXPECT_GT(wake, wheel.now());
  const Tick rounded = wake > kNeverTick - unit ? wake : (wake + unit - 1) / unit * unit;
  wheel.advance(rounded);
}

/// Sleeps until nothing is armed; returns how often it woke.
std::uint64_t sleep_through(WheelCore& wheel, Tick unit) {
  std::uint64_t wakes = 0;
  while (wheel.armed_count() != 0) {
    wake_up(wheel, unit);
    ++wakes;
  }
  return wakes;
}

// TM5: next_expiry() is never late, and few wake-ups suffice for whoever sleeps until it.
TEST(TimingWheelTM5, ALoopThatSleepsUntilNextExpiryIsNeverLateAndWakesAFewTimesPerTimer) {
  Random choices(seed());
  for (const Tick start : start_ticks(seed())) {
    for (unsigned bits = 1; bits <= 44; ++bits) {
      WheelCore wheel(start);
      Probe probe(wheel);
      probe.wanted = saturated(start, any_magnitude(choices, bits));
      if (probe.wanted <= start) continue;  // at the end of time
      wheel.arm(probe, probe.wanted);
      const std::uint64_t wakes = sleep_through(wheel, 1);
      ASSERT_LE(wakes, 5U) << probe.wanted - start;
      ASSERT_EQ(probe.fired_at, probe.wanted) << "start " << start;
      ASSERT_EQ(wheel.stats().events, wakes);
      ASSERT_EQ(wheel.next_expiry(), kNeverTick);
    }
  }
}

// TM5: next_expiry() is never late, and few wake-ups suffice for whoever sleeps until it.
TEST(TimingWheelTM5, WakesOfAPopulationAreItsWheelEvents) {
  Random choices(seed());
  for (const Tick unit : {Tick{1}, Tick{10}, Tick{1000}}) {
    WheelCore wheel(choices.next() >> 20);
    const Tick start = wheel.now();
    std::deque<Probe> probes = make_probes(wheel, 2000);
    std::uint64_t extended = 0;
    for (Probe& probe : probes) {
      probe.wanted = start + any_magnitude(choices, 40);
      wheel.arm(probe, probe.wanted);
      for (; choices.below(2) == 0; ++extended) {
        probe.wanted += any_magnitude(choices, 30);
        wheel.extend(probe, probe.wanted);
      }
    }
    const std::uint64_t wakes = sleep_through(wheel, unit);
    EXPECT_LE(wakes, 5 * (probes.size() + extended));
    EXPECT_EQ(wheel.stats().events, wakes);
    for (const Probe& probe : probes) {
      ASSERT_EQ(probe.fired, 1U);
      ASSERT_GE(probe.fired_at, probe.wanted);
      ASSERT_LT(probe.fired_at - probe.wanted, unit) << "rounding up is all the lateness there is";
    }
    EXPECT_LT(wheel.stats().worst_lateness, unit);
  }
}

// TM5: next_expiry() is never late, and few wake-ups suffice for whoever sleeps until it.
/// Extended before each wake-up, when it has moved down so many levels: each extension makes it
/// begin at the top again, for at most so many wake-ups as a new timer.
TEST(TimingWheelTM5, AnExtensionOnTheWayMakesAtMostFiveWakesMore) {
  Random random(seed());
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - (Tick{1} << 42)) continue;
    for (int round = 0; round < 50; ++round) {
      WheelCore wheel(start);
      Probe probe(wheel);
      probe.wanted = start + any_magnitude(random, 36);
      wheel.arm(probe, probe.wanted);
      std::uint64_t wakes = 0;
      std::uint64_t extensions = 0;
      while (probe.armed()) {
        if (extensions < 6 && random.below(3) == 0) {
          probe.wanted += any_magnitude(random, 34);
          wheel.extend(probe, probe.wanted);
          ++extensions;
        }
        wake_up(wheel, 1);
        ++wakes;
      }
      ASSERT_LE(wakes, 5 * (1 + extensions));
      ASSERT_EQ(probe.fired_at, probe.wanted);
    }
  }
}

// TM5: next_expiry() is never late, and few wake-ups suffice for whoever sleeps until it.
/// Cancelled and moved nearer at any moment, too: each may leave a wake-up in an overflow list.
TEST(TimingWheelTM5, WakesStayBoundedWhateverIsDone) {
  Random random(seed());
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - (Tick{1} << 45)) continue;
    WheelCore wheel(start);
    std::deque<Probe> probes = make_probes(wheel, 50);
    std::uint64_t wakes = 0;
    std::uint64_t placements = 0;
    for (int step = 0; step < 2000; ++step) {
      Probe& probe = probes[random.below(probes.size())];
      switch (random.below(4)) {
        case 0:
          wheel.cancel(probe);
          break;
        case 1:
          wheel.extend(probe, wheel.now() + any_magnitude(random, 36));
          ++placements;
          break;
        case 2:
          wheel.arm(probe, wheel.now() + any_magnitude(random, 36));
          ++placements;
          break;
        default:
          if (wheel.next_expiry() == kNeverTick) break;
          wake_up(wheel, 1);
          ++wakes;
      }
    }
    wakes += sleep_through(wheel, 1);
    EXPECT_LE(wakes, 6 * placements);
    EXPECT_EQ(wheel.stats().worst_lateness, 0U);
  }
}

// TM5: next_expiry() is never late, and few wake-ups suffice for whoever sleeps until it.
TEST(TimingWheelTM5, ASpinningLoopHasTheEventsOfASleepingOne) {
  WheelCore wheel(1000);
  Probe probe(wheel);
  wheel.arm(probe, 11'000);
  std::uint64_t due = 0;
  for (Tick now = 1001; now <= 11'000; ++now) {
    if (wheel.next_expiry() <= now) ++due;
    wheel.advance(now);
  }
  EXPECT_EQ(probe.fired_at, 11'000U);
  EXPECT_EQ(wheel.stats().events, due);
  EXPECT_LE(due, 5U);
}

// TM7: an entry that arms itself with no delay fires once per advance().
TEST(TimingWheelTM7, ACallbackThatRearmsItselfWithNothingRunsOncePerAdvance) {
  struct Eager : TimerEntry {
    explicit Eager(WheelCore& its_wheel) : TimerEntry(&Eager::on_fire), wheel(its_wheel) {}
    static void on_fire(TimerEntry& entry) {
      auto& eager = static_cast<Eager&>(entry);
      ++eager.calls;
      eager.wheel.arm(eager, eager.calls % 2 == 0 ? eager.wheel.now() : 0);
    }
    WheelCore& wheel;
    std::size_t calls = 0;
  };
  for (const Tick start : start_ticks(seed())) {
    WheelCore wheel(start);
    Eager eager(wheel);
    wheel.arm(eager, 0);
    std::size_t calls = 0;
    for (const Tick step : {1U, 1U, 5U, 63U, 64U, 65U, 4096U, 1'000'000U}) {
      if (wheel.now() >= kNeverTick - 1 - step) break;
      ASSERT_EQ(wheel.advance(wheel.now() + step), 1U);
      ASSERT_EQ(eager.calls, ++calls);
      ASSERT_EQ(wheel.advance(wheel.now()), 0U) << "the same instant again";
    }
  }
}

// TM8: a clock that steps back changes nothing; one that leaps fires everything once.
TEST(TimingWheelTM8, AClockThatStepsBackIsCountedAndIgnored) {
  WheelCore wheel(1000);
  Probe probe(wheel);
  wheel.arm(probe, 1003);
  wheel.advance(1002);
  EXPECT_EQ(wheel.advance(997), 0U);
  EXPECT_EQ(wheel.now(), 1002U);
  EXPECT_EQ(wheel.next_expiry(), 1003U);
  EXPECT_EQ(wheel.stats().clock_steps_back, 1U);
  EXPECT_EQ(wheel.check(), "");
  wheel.advance(1003);
  EXPECT_EQ(probe.fired_at, 1003U);
}

/// Fires everything in one call; the work is proportional to the timers.
void pause_once(Tick start, Tick longest, Tick pause, std::uint64_t most_moves,
                std::size_t count = 20'000) {
  Random choices(seed());
  WheelCore wheel(start);
  std::deque<Probe> probes = make_probes(wheel, count);
  std::size_t due = 0;
  for (Probe& probe : probes) {
    probe.wanted = saturated(
        start, choices.below(2) == 0 ? 1 + choices.below(longest) : any_magnitude(choices, 30));
    if (probe.wanted <= saturated(start, pause)) ++due;
    wheel.arm(probe, probe.wanted);
  }
  EXPECT_EQ(wheel.advance(saturated(start, pause)), due);
  for (const Probe& probe : probes) {
    ASSERT_EQ(probe.fired, probe.wanted <= saturated(start, pause) ? 1U : 0U);
  }
  EXPECT_LE(wheel.stats().moved, most_moves * probes.size());
  EXPECT_EQ(wheel.check(), "");
}

// TM8: a clock that steps back changes nothing; one that leaps fires everything once.
TEST(TimingWheelTM8, ADayAndFourHundredDaysInOneCallFireEverythingOnce) {
  for (const Tick start :
       {Tick{0}, (Tick{1} << 30) - 1000, Tick{1} << 42, (Tick{1} << 63) - 1000}) {
    pause_once(start, kDay, kDay, 6);
    pause_once(start, 400 * kDay, kDay, 6);
    pause_once(start, 400 * kDay, 400 * kDay, 20);
  }
}

// TM8: a clock that steps back changes nothing; one that leaps fires everything once.
TEST(TimingWheelTM8, SoTheyDoFromEveryStart) {
  for (const Tick start : start_ticks(seed())) {
    if (start == kNeverTick - 1) continue;  // no tick comes after it
    pause_once(start, kDay, kDay, 6, 100);
    pause_once(start, 400 * kDay, 400 * kDay, 12, 100);
  }
}

// TM8: a clock that steps back changes nothing; one that leaps fires everything once.
/// In ticks of 1 us nearly all of them live in the overflow lists. Scanning one list whole whenever
/// an entry can enter would be quadratic.
TEST(TimingWheelTM8, WorkOfAPauseStaysProportionalWhenMostLiveInOverflow) {
  pause_once(12345, 400'000 * kDay, 400'000 * kDay, 40);
  pause_once(12345, 1000 * kDay, 1000 * kDay, 40);
}

// TM14: a stall of hours with every level and the overflow occupied.
TEST(TimingWheelTM14, AfterAStallOfHoursEverythingFiresAtThePollAfterItsDeadline) {
  Random choices(seed());
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - (Tick{1} << 40)) continue;
    for (const Tick every : {Tick{64}, Tick{4096}, Tick{0}}) {
      WheelCore wheel(start);
      std::deque<Probe> probes = make_probes(wheel, 300);
      for (Probe& probe : probes) {
        probe.wanted = start + any_magnitude(choices, 33);
        wheel.arm(probe, probe.wanted);
      }
      Tick before = start;
      wheel.advance(before += 5 * 3'600'000 + choices.below(1000));  // the stall
      ASSERT_LE(wheel.stats().moved, 6 * probes.size());
      ASSERT_LE(wheel.stats().worst_lateness, before - start);
      ASSERT_GT(wheel.next_expiry(), wheel.now()) << "nothing is left behind";
      for (int poll = 0; poll < 200; ++poll) {
        const Tick step = every != 0 ? every : any_magnitude(choices, 34);
        const Tick now = before + step;
        wheel.advance(now);
        for (const Probe& probe : probes) {
          if (probe.wanted > now) {
            ASSERT_EQ(probe.fired, 0U);
          } else if (probe.wanted > before) {
            ASSERT_EQ(probe.fired_at, now);
          } else {
            ASSERT_EQ(probe.fired, 1U);
          }
        }
        before = now;
      }
      ASSERT_EQ(wheel.check(), "");
    }
  }
}

/// One entry far in the overflow lists that is cancelled leaves no wake-up behind, and one that is
/// moved nearer fires in time.
TEST(TimingWheel, AnOverflowEntryMayBeCancelledAndMovedNearer) {
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - (Tick{1} << 45)) continue;
    WheelCore wheel(start);
    Probe probe(wheel);
    wheel.arm(probe, start + (Tick{1} << 44));
    EXPECT_NE(wheel.next_expiry(), kNeverTick);
    EXPECT_TRUE(wheel.cancel(probe));
    EXPECT_EQ(wheel.next_expiry(), kNeverTick);
    wheel.arm(probe, start + (Tick{1} << 44));
    wheel.advance(start + (Tick{1} << 43));
    wheel.extend(probe, start + (Tick{1} << 43) + 5);
    EXPECT_EQ(wheel.advance(start + (Tick{1} << 43) + 4), 0U);
    EXPECT_EQ(wheel.advance(start + (Tick{1} << 43) + 5), 1U);
    EXPECT_EQ(wheel.next_expiry(), kNeverTick);
    EXPECT_EQ(wheel.check(), "");
  }
}

TEST(TimingWheel, DeadlinesExactlyAtEachLevelsEdgesFireInTheirTick) {
  for (const Tick start : start_ticks(seed())) {
    for (unsigned level = 1; level <= 6; ++level) {
      for (const int off : {-1, 0, 1, 63, 64, 65}) {
        const Tick distance = (Tick{1} << (6 * level)) + static_cast<Tick>(off);
        if (distance > kNeverTick - 1 - start) continue;
        WheelCore wheel(start);
        Probe probe(wheel);
        wheel.arm(probe, start + distance);
        ASSERT_EQ(wheel.check(), "");
        ASSERT_EQ(wheel.advance(start + distance - 1), 0U) << start << " + " << distance;
        ASSERT_EQ(wheel.advance(start + distance), 1U) << start << " + " << distance;
      }
    }
  }
}

TEST(TimingWheel, TimeEndsWithoutWrapping) {
  WheelCore wheel(kNeverTick - 100);
  std::deque<Probe> probes = make_probes(wheel, 3);
  wheel.arm(probes[0], kNeverTick - 1);
  wheel.arm(probes[1], kNeverTick);
  wheel.arm(probes[2], kNeverTick - 64);
  EXPECT_EQ(wheel.advance(kNeverTick), 2U) << "the last tick before never";
  EXPECT_EQ(wheel.now(), kNeverTick - 1);
  EXPECT_TRUE(probes[1].armed());
  EXPECT_EQ(wheel.next_expiry(), kNeverTick);
  wheel.arm(probes[0], 5);
  EXPECT_EQ(wheel.advance(kNeverTick), 0U) << "there is no later tick to fire at";
  EXPECT_EQ(wheel.check(), "");
}

}  // namespace
}  // namespace pinion::test

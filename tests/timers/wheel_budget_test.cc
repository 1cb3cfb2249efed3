#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"
#include "start_ticks.h"

/// What a budget bounds: the callbacks and the moved entries of one advance(), whatever it steps
/// over.

namespace pinion::test {
namespace {

constexpr std::size_t kBudget = 64;
constexpr Tick kSteps[] = {1, 2, 64, 65, 100, 1000, 4096, 20'000, 100'000};

/// Advances in steps of `step`, at once again while something is due, until nothing is armed or
/// `most_calls` were made. Each call moves no more entries than it may.
void advance_within_bound(WheelCore& wheel, Tick step, int most_calls) {
  static_assert(WheelCore::kLeastMoves > kBudget * WheelCore::kMovesPerBudget);
  Tick now = wheel.now();
  for (int calls = 0; wheel.armed_count() != 0 && calls < most_calls; ++calls) {
    if (wheel.next_expiry() > now) now = saturated(now, step);
    const std::uint64_t before = wheel.stats().moved;
    const std::size_t fired = wheel.advance(now, kBudget);
    ASSERT_LE(fired, kBudget);
    ASSERT_LE(wheel.stats().moved - before, WheelCore::kLeastMoves)
        << "step " << step << " at " << now;
    if (fired < kBudget && wheel.now() < now) {
      ASSERT_LE(wheel.next_expiry(), now);
    }
  }
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// A minute of timers, in ticks of 1 us and of 1 ms: at 1 us a slot of level 4 holds more than a
/// quarter of them, and a loop that polls every 100 us steps over a window of level 2 each time.
TEST(TimingWheelTM9, ABudgetBoundsTheMovesOfEachCallWhateverItStepsOver) {
  constexpr std::size_t kLive = 60'000;
  Random random(seed());
  const std::vector<Tick> starts = start_ticks();
  for (const Tick minute : {Tick{60'000'000}, Tick{60'000}}) {
    for (const Tick step : kSteps) {
      // Just before a slot of each level comes up, or anywhere.
      const Tick start =
          step % 2 == 0 ? (Tick{77} << 24) - 10 * step : starts[random.below(starts.size() - 3)];
      WheelCore wheel(start);
      std::deque<Probe> probes = make_probes(wheel, kLive);
      for (Probe& probe : probes) wheel.arm(probe, start + 1 + random.below(minute));
      ASSERT_NO_FATAL_FAILURE(advance_within_bound(wheel, step, 3'000));
      ASSERT_EQ(wheel.check(), "");
    }
  }
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// A herd in one slot of each level, and one in the overflow lists, after which the level's early
/// cascade expects a slot as large.
TEST(TimingWheelTM9, ABudgetBoundsTheMovesThatAHerdNeeds) {
  constexpr std::size_t kHerd = 16'000;
  Random random(seed());
  for (unsigned level = 1; level <= 6; ++level) {
    const Tick span = Tick{1} << (6 * level);
    for (const Tick step : kSteps) {
      if (span / step > 1'000'000) continue;
      WheelCore wheel(random.next() >> 10);
      const Tick herd_slot = (wheel.now() / span + 2) * span;
      std::deque<Probe> herd = make_probes(wheel, 2 * kHerd);
      for (std::size_t index = 0; index < herd.size(); ++index) {
        wheel.arm(herd[index], herd_slot + index / kHerd * span + random.below(span));
      }
      // To where the work ahead of the slot begins.
      wheel.advance(herd_slot - std::min(span / WheelCore::kSlots, WheelCore::kSpan / 2) -
                    2 * step);
      ASSERT_NO_FATAL_FAILURE(advance_within_bound(wheel, step, 5'000));
      ASSERT_EQ(wheel.check(), "");
    }
  }
}

// TM9: a million timers: bounded work per call, in order, with a budget too.
/// What was extended is placed again when its slot comes up: these moves count, too.
TEST(TimingWheelTM9, ABudgetBoundsTheMovesOfWhatWasExtended) {
  constexpr std::size_t kLive = 20'000;
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - 5'000'000) continue;
    WheelCore wheel(start);
    std::deque<Probe> probes = make_probes(wheel, kLive);
    for (Probe& probe : probes) {
      wheel.arm(probe, start + 40);
      wheel.extend(probe, start + 5'000);
    }
    ASSERT_NO_FATAL_FAILURE(advance_within_bound(wheel, 50, 100'000));
    ASSERT_EQ(wheel.armed_count(), 0U);
    for (const Probe& probe : probes) ASSERT_GE(probe.fired_at, start + 5'000);
  }
}

}  // namespace
}  // namespace pinion::test

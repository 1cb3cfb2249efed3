#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"
#include "start_ticks.h"

/// What callbacks do to entries and wheels, what happens between two advances that a budget
/// separates, and who owns what.

namespace pinion::test {
namespace {

enum class Deed { cancel, extend, rearm_earlier, destroy };
enum class Victim { self, earlier_sibling, later_sibling, other_slot, wheel };

/// How the three of one tick come to fire: after how many ticks, and how many in one advance().
/// They are armed into the slot that fires, or come to it through cascades or the overflow lists.
struct Way {
  Tick distance;
  std::size_t budget;
};

/// Three timers of one tick and one of another slot. Whichever is called second does the deed, to
/// itself, to the one called before it, or to the one that is still to come.
struct Scene {
  struct Actor : TimerEntry {
    Actor(Scene& its_scene, std::size_t its_index)
        : TimerEntry(&Actor::on_fire), scene(its_scene), index(its_index) {}
    static void on_fire(TimerEntry& entry) {
      auto& actor = static_cast<Actor&>(entry);
      Scene& scene = actor.scene;
      ++scene.calls[actor.index];
      scene.order.push_back(actor.index);
      if (scene.order.size() == 2) scene.act();  // the actor may be gone
    }
    Scene& scene;
    std::size_t index;
  };

  Scene(Tick start, Way way, Deed its_deed, Victim its_victim)
      : deed(its_deed), victim(its_victim) {
    wheel.emplace(start);
    for (std::size_t index = 0; index < actors.size(); ++index) {
      actors[index] = std::make_unique<Actor>(*this, index);
    }
    for (std::size_t index = 0; index < 3; ++index)
      wheel->arm(*actors[index], start + way.distance);
    wheel->arm(*actors[3], start + way.distance + 490);
  }

  std::vector<std::size_t> targets() const {
    switch (victim) {
      case Victim::self:
        return {order[1]};
      case Victim::earlier_sibling:
        return {order[0]};
      case Victim::later_sibling:
        return {3 - order[0] - order[1]};
      case Victim::other_slot:
        return {3};
      case Victim::wheel:
        break;
    }
    return {0, 1, 2, 3};
  }

  void act() {
    hit = targets();
    if (victim == Victim::wheel && deed == Deed::destroy) {
      wheel.reset();
      for (const auto& actor : actors) EXPECT_FALSE(actor->armed());
      return;
    }
    for (const std::size_t target : hit) act_on(target);
    calls_before = calls;
    EXPECT_EQ(wheel->check(), "");
  }

  void act_on(std::size_t target) {
    Actor& actor = *actors[target];
    const bool was_armed = actor.armed();
    switch (deed) {
      case Deed::cancel:
        EXPECT_EQ(wheel->cancel(actor), was_armed);
        break;
      case Deed::extend:
        wheel->extend(actor, wheel->now() + 1000);
        break;
      case Deed::rearm_earlier:
        wheel->arm(actor, wheel->now() + 1);
        break;
      case Deed::destroy:
        actors[target].reset();
        break;
    }
  }

  Deed deed;
  Victim victim;
  std::optional<WheelCore> wheel;
  std::array<std::unique_ptr<Actor>, 4> actors;
  std::vector<std::size_t> order;  ///< Of the calls.
  std::vector<std::size_t> hit;    ///< What the deed was done to.
  std::array<int, 4> calls{};
  std::array<int, 4> calls_before{};
};

/// Calls advance() until nothing more is due at `target`.
void advance_fully(std::optional<WheelCore>& wheel, Tick target, std::size_t budget) {
  do {
    wheel->advance(target, budget);
  } while (wheel && wheel->next_expiry() <= target);
}

void play(Tick start, Way way, Deed deed, Victim victim) {
  Scene scene(start, way, deed, victim);
  advance_fully(scene.wheel, start + way.distance, way.budget);
  ASSERT_GE(scene.order.size(), 2U);
  if (!scene.wheel) {
    ASSERT_EQ(scene.order.size(), 2U) << "the wheel is gone";
    return;
  }
  ASSERT_EQ(scene.wheel->check(), "");
  for (const std::size_t target : scene.hit) {
    ASSERT_EQ(scene.calls[target], scene.calls_before[target])
        << "ran in the same advance after all";
  }
  advance_fully(scene.wheel, start + way.distance + 2000, way.budget);
  const bool runs_again = deed == Deed::extend || deed == Deed::rearm_earlier;
  for (std::size_t index = 0; index < 4; ++index) {
    const bool was_hit = std::find(scene.hit.begin(), scene.hit.end(), index) != scene.hit.end();
    const int expected = was_hit ? scene.calls_before[index] + (runs_again ? 1 : 0) : 1;
    ASSERT_EQ(scene.calls[index], expected) << index;
  }
  ASSERT_EQ(scene.wheel->armed_count(), 0U);
}

// TM6: cancel, extend, arm earlier and destroy any entry from inside a callback.
TEST(TimingWheelTM6, EachDeedOnEachVictimFromInsideACallback) {
  constexpr Way kWays[] = {{10, kNoBudget},
                           {10, 1},
                           {500, kNoBudget},
                           {300'000, 1},
                           {(Tick{1} << 30) + 777, kNoBudget},
                           {(Tick{1} << 33) + 777, 1}};
  for (const Tick start : start_ticks(seed())) {
    for (const Way way : kWays) {
      if (start > kNeverTick - 5000 - way.distance) continue;
      for (const Deed deed : {Deed::cancel, Deed::extend, Deed::rearm_earlier, Deed::destroy}) {
        for (const Victim victim : {Victim::self, Victim::earlier_sibling, Victim::later_sibling,
                                    Victim::other_slot, Victim::wheel}) {
          ASSERT_NO_FATAL_FAILURE(play(start, way, deed, victim))
              << "start " << start << ", distance " << way.distance << ", deed "
              << static_cast<int>(deed) << ", victim " << static_cast<int>(victim);
        }
      }
    }
  }
}

// TM6: cancel, extend, arm earlier and destroy any entry from inside a callback.
/// The first of a tick cancels all the others, which are on the firing list by then.
TEST(TimingWheelTM6, ACancelledSiblingDoesNotRun) {
  struct Selfish : TimerEntry {
    Selfish(WheelCore& its_wheel, std::deque<Selfish>& its_siblings, int& its_calls)
        : TimerEntry(&Selfish::on_fire),
          wheel(its_wheel),
          siblings(its_siblings),
          calls(its_calls) {}
    static void on_fire(TimerEntry& entry) {
      auto& selfish = static_cast<Selfish&>(entry);
      ++selfish.calls;
      for (Selfish& sibling : selfish.siblings) {
        EXPECT_EQ(selfish.wheel.cancel(sibling), &sibling != &selfish);
      }
    }
    WheelCore& wheel;
    std::deque<Selfish>& siblings;
    int& calls;
  };
  WheelCore wheel(77);
  int calls = 0;
  std::deque<Selfish> siblings;
  for (int made = 0; made < 20; ++made) siblings.emplace_back(wheel, siblings, calls);
  for (Selfish& sibling : siblings) wheel.arm(sibling, 99);
  EXPECT_EQ(wheel.advance(99), 1U);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(wheel.next_expiry(), kNeverTick);
}

void arm_on_the_stack(WheelCore& wheel, Tick deadline) {
  Probe probe(wheel);
  wheel.arm(probe, deadline);
}

// TM13: entries on the stack unlink themselves.
TEST(TimingWheelTM13, EntriesOnTheStackUnlinkThemselves) {
  Random choices(seed());
  WheelCore wheel(choices.next() >> 8);
  Probe witness(wheel);
  for (int round = 0; round < 1'000'000; ++round) {
    arm_on_the_stack(wheel, wheel.now() + any_magnitude(choices, 40));
    if (round % 1000 == 0) {
      wheel.arm(witness, wheel.now() + 1);
      ASSERT_EQ(wheel.advance(wheel.now() + any_magnitude(choices, 12)), 1U);
      ASSERT_EQ(wheel.check(), "");
    }
  }
  EXPECT_EQ(wheel.armed_count(), 0U);
  EXPECT_EQ(wheel.next_expiry(), kNeverTick);
}

// TM15: what a budget left in a tick may be cancelled, extended and destroyed.
/// A tick with six timers, of which the budget lets two fire: what is done to the other four before
/// the next call counts.
TEST(TimingWheelTM15, WhatABudgetLeftMayBeCancelledExtendedAndDestroyed) {
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - 5000) continue;
    WheelCore wheel(start);
    std::vector<std::unique_ptr<Probe>> probes;
    for (int made = 0; made < 6; ++made) {
      probes.push_back(std::make_unique<Probe>(wheel));
      wheel.arm(*probes.back(), start + 70);
    }
    Probe later(wheel);
    wheel.arm(later, start + 75);
    ASSERT_EQ(wheel.advance(start + 80, 2), 2U);
    ASSERT_EQ(wheel.now(), start + 70) << "time waits for what is left";
    ASSERT_LE(wheel.next_expiry(), start + 80);
    ASSERT_EQ(wheel.stats().budget_hits, 1U);
    std::vector<std::unique_ptr<Probe>*> left;
    for (auto& probe : probes) {
      if (probe->armed()) left.push_back(&probe);
    }
    ASSERT_EQ(left.size(), 4U);
    ASSERT_TRUE(wheel.cancel(**left[0]));
    wheel.extend(**left[1], start + 100);
    left[2]->reset();
    ASSERT_EQ(wheel.check(), "");
    ASSERT_EQ(wheel.advance(start + 80, 1), 1U);
    ASSERT_EQ((*left[3])->fired, 1U);
    ASSERT_EQ(later.fired, 0U);
    ASSERT_EQ(wheel.advance(start + 80), 1U);
    ASSERT_EQ(later.fired, 1U);
    ASSERT_EQ(wheel.now(), start + 80);
    ASSERT_EQ((*left[0])->fired, 0U);
    ASSERT_EQ(wheel.advance(start + 99), 0U);
    ASSERT_EQ(wheel.advance(start + 100), 1U);
    ASSERT_EQ((*left[1])->fired_at, start + 100);
    ASSERT_EQ(wheel.next_expiry(), kNeverTick);
  }
}

// TM15: what a budget left in a tick may be cancelled, extended and destroyed.
TEST(TimingWheelTM15, EverythingLeftMayGo) {
  WheelCore wheel(0);
  std::deque<Probe> probes = make_probes(wheel, 4);
  for (Probe& probe : probes) wheel.arm(probe, 9);
  EXPECT_EQ(wheel.advance(20, 1), 1U);
  for (Probe& probe : probes) wheel.cancel(probe);
  EXPECT_EQ(wheel.next_expiry(), kNeverTick);
  EXPECT_EQ(wheel.check(), "");
  EXPECT_EQ(wheel.advance(20), 0U);
  EXPECT_EQ(wheel.now(), 20U);
}

// TM15: what a budget left in a tick may be cancelled, extended and destroyed.
/// A whole tick of the rest may be in any state when the budget ends, wherever it came from: half
/// of a slot cascaded, or half of it fired.
TEST(TimingWheelTM15, WhatABudgetLeftOfACascadeMayGo) {
  Random random(seed());
  for (const Tick start : start_ticks(seed())) {
    if (start > kNeverTick - 100'000) continue;
    WheelCore wheel(start);
    std::deque<Probe> probes = make_probes(wheel, 100);
    const Tick due = (start / 4096 + 2) * 4096;
    for (Probe& probe : probes) wheel.arm(probe, due);
    std::size_t fired = 0;
    for (int calls = 0; wheel.next_expiry() <= due + 10; ++calls) {
      ASSERT_LT(calls, 100);
      fired += wheel.advance(due + 10, 7);
      Probe& one = probes[random.below(probes.size())];
      Probe& other = probes[random.below(probes.size())];
      if (one.armed()) wheel.cancel(one);
      if (other.armed()) wheel.extend(other, due + 1000 + random.below(1000));
      ASSERT_EQ(wheel.check(), "");
    }
    fired += wheel.advance(due + 3000);
    std::size_t seen = 0;
    for (const Probe& probe : probes) {
      ASSERT_LE(probe.fired, 1U);
      seen += probe.fired;
    }
    ASSERT_EQ(fired, seen);
    ASSERT_EQ(wheel.armed_count(), 0U);
  }
}

// TM15: what a budget left in a tick may be cancelled, extended and destroyed.
TEST(TimingWheelTM15, ABudgetOfNothingFiresNothingAndLosesNothing) {
  WheelCore wheel(0);
  std::deque<Probe> probes = make_probes(wheel, 3);
  for (Tick tick = 0; tick < 3; ++tick) wheel.arm(probes[tick], 100 + tick);
  EXPECT_EQ(wheel.advance(99, 0), 0U);
  EXPECT_EQ(wheel.now(), 99U) << "nothing was due";
  EXPECT_EQ(wheel.stats().budget_hits, 0U);
  EXPECT_EQ(wheel.advance(200, 0), 0U);
  EXPECT_EQ(wheel.now(), 100U);
  EXPECT_EQ(wheel.next_expiry(), 100U);
  EXPECT_EQ(wheel.advance(50, 0), 0U) << "a step back meanwhile";
  EXPECT_EQ(wheel.advance(200, 3), 3U);
  EXPECT_EQ(wheel.now(), 200U) << "a budget that just suffices";
  EXPECT_EQ(wheel.stats().budget_hits, 2U);
  EXPECT_EQ(wheel.stats().worst_lateness, 100U);
}

// TM17: an entry of another wheel is refused.
TEST(TimingWheelDeathTM17, AnEntryOfAnotherWheelIsRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  WheelCore one(0);
  WheelCore other(0);
  Probe probe(one);
  one.arm(probe, 100);
  EXPECT_DEATH(other.cancel(probe), "assertion failed");
  EXPECT_DEATH(other.extend(probe, 200), "assertion failed");
  EXPECT_DEATH(other.extend(probe, 50), "assertion failed");
  EXPECT_DEATH(other.arm(probe, 200), "assertion failed");
  EXPECT_DEATH(other.arm(probe, kNeverTick), "assertion failed");
  EXPECT_EQ(one.check(), "");
  EXPECT_EQ(other.check(), "");
  EXPECT_TRUE(one.cancel(probe));
  EXPECT_FALSE(other.cancel(probe)) << "armed nowhere: any wheel may be asked";
  other.arm(probe, 5);
  EXPECT_EQ(other.advance(5), 1U);
}

TEST(TimingWheelDeathTest, AdvanceFromACallbackIsRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  struct Nested : TimerEntry {
    explicit Nested(WheelCore& its_wheel)
        : TimerEntry([](TimerEntry& entry) {
            WheelCore& inside = static_cast<Nested&>(entry).wheel;
            inside.advance(inside.now());
          }),
          wheel(its_wheel) {}
    WheelCore& wheel;
  };
  WheelCore wheel(0);
  Nested nested(wheel);
  wheel.arm(nested, 1);
  EXPECT_DEATH(wheel.advance(1), "assertion failed");
}

TEST(TimingWheelDeathTest, AnExceptionThatLeavesACallbackEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  WheelCore wheel(0);
  TimerEntry throwing([](TimerEntry&) { throw std::runtime_error("from inside"); });
  wheel.arm(throwing, 1);
  const auto advance = [&] {
    try {
      wheel.advance(1);
    } catch (const std::runtime_error&) {
    }
  };
  EXPECT_DEATH(advance(), "an exception left a timer callback;.*\n.*\n*.*from inside");
}

TEST(TimingWheel, DisarmsItsEntriesWhenItDies) {
  std::deque<Probe> probes;
  {
    WheelCore wheel(0);
    probes = make_probes(wheel, 6);
    const Tick deadlines[] = {1, 70, 5000, 1U << 20, Tick{1} << 40, kNeverTick};
    for (std::size_t index = 0; index < 6; ++index) wheel.arm(probes[index], deadlines[index]);
  }
  for (Probe& probe : probes) EXPECT_FALSE(probe.armed());
}

TEST(TimingWheel, ExtendArmsAnEntryThatIsNotArmed) {
  WheelCore wheel(10);
  Probe probe(wheel);
  wheel.extend(probe, 20);
  EXPECT_TRUE(probe.armed());
  EXPECT_EQ(wheel.advance(20), 1U);
  wheel.extend(probe, 3);
  EXPECT_EQ(probe.deadline(), 21U) << "in the past: the next tick";
  EXPECT_EQ(wheel.advance(21), 1U);
}

/// One entry per level, extended to every other distance and back, then cancelled.
TEST(TimingWheel, MovesBetweenAllLevelsAndOverflow) {
  const Tick distances[] = {5, 200, 10'000, 1U << 19, 1U << 25, Tick{1} << 33, kNeverTick};
  for (const Tick from : distances) {
    for (const Tick to : distances) {
      WheelCore wheel(4000);
      Probe probe(wheel);
      wheel.arm(probe, from == kNeverTick ? from : 4000 + from);
      wheel.extend(probe, to == kNeverTick ? to : 4000 + to);
      ASSERT_EQ(wheel.check(), "");
      if (to == kNeverTick) {
        wheel.advance(4000 + (Tick{1} << 34));
        ASSERT_TRUE(probe.armed());
        ASSERT_EQ(wheel.next_expiry(), kNeverTick);
        continue;
      }
      ASSERT_EQ(wheel.advance(4000 + to - 1), 0U);
      ASSERT_EQ(wheel.advance(4000 + to), 1U);
    }
  }
}

}  // namespace
}  // namespace pinion::test

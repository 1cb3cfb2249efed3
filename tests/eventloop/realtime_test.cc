#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/metronome.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>

#include "loop_fixture.h"

/// Timers and idling against the real clock. The bounds are generous: a busy machine must pass.

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr Delay kGenerous = 2s;

Instant real_now() {
  return MonotonicTime().now();
}

class RealTime : public ::testing::TestWithParam<std::tuple<IdlePolicy, ClockChoice>> {
 protected:
  static IdlePolicy policy() { return std::get<IdlePolicy>(GetParam()); }
  static LoopOptions options() {
    LoopOptions result;
    result.idle = policy();
    return result;
  }
  std::unique_ptr<TimeSource> make_time() {
    if (std::get<ClockChoice>(GetParam()) == ClockChoice::monotonic) {
      return std::make_unique<MonotonicTime>();
    }
    metronome = std::move(*Metronome::start({}, 1));
    return std::make_unique<MetronomeTime>(*metronome, 0);
  }

  std::unique_ptr<Metronome> metronome;
  std::unique_ptr<TimeSource> time = make_time();
  std::unique_ptr<Loop> loop = test::make_loop(*time, options());
};

INSTANTIATE_TEST_SUITE_P(
    Idle, RealTime,
    ::testing::Combine(::testing::Values(IdlePolicy::spin, IdlePolicy::adaptive, IdlePolicy::park),
                       ::testing::Values(ClockChoice::monotonic, ClockChoice::metronome)),
    [](const auto& test) {
      const bool plain = std::get<1>(test.param) == ClockChoice::monotonic;
      return std::string(to_string(std::get<0>(test.param))) + (plain ? "" : "_metronome");
    });

Task<> measure_sleep(Delay delay, std::optional<Delay>& slept) {
  const Instant begin = real_now();
  co_await sleep_for(delay);
  slept = saturating_sub(real_now(), begin);
}

// L1: a sleep ends in time in a loop that never parks.
TEST_P(RealTime, L1_ASleepEndsInTimeWhateverTheLoopDoesWhenIdle) {
  std::optional<Delay> slept;
  loop->spawn(measure_sleep(50ms, slept));
  ASSERT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
  EXPECT_GE(*slept, Delay{50ms});
}

// L1: a sleep ends in time in a loop that never parks.
TEST_P(RealTime, L1_ASleepEndsInTimeUnderTrafficThatNeverStops) {
  struct Endless : Message {
    explicit Endless(Loop& owner) : Message(&on_message), loop(owner) {}
    static void on_message(Message& message) noexcept {
      Endless& self = static_cast<Endless&>(message);
      ++self.count;
      if (!self.enough) self.loop.post(self);
    }
    Loop& loop;
    std::uint64_t count = 0;
    bool enough = false;
  } endless(*loop);
  loop->post(endless);
  std::optional<Delay> slept;
  loop->spawn(measure_sleep(50ms, slept));
  EXPECT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
  EXPECT_GE(slept.value_or(0s), Delay{50ms});
  EXPECT_EQ(loop->stats().parks, 0U);
  endless.enough = true;
  loop->turn();
}

void burn(Delay duration) {
  const Instant end = saturating_add(real_now(), duration);
  while (real_now() < end) {
  }
}

// L2: what is armed after long work is not due already.
TEST_P(RealTime, L2_WhatIsArmedAfterLongWorkIsNotDueAlready) {
  struct Burning : TimerEntry {
    Burning(Loop& owner, TimerEntry& other) : TimerEntry(&on_timer), loop(owner), to_arm(other) {}
    static void on_timer(TimerEntry& entry) {
      Burning& self = static_cast<Burning&>(entry);
      static_cast<void>(self.loop.fresh_now());  // A reading from before the work.
      burn(300ms);
      self.armed_at = real_now();
      self.loop.arm_after(self.to_arm, 100ms);
    }
    Loop& loop;
    TimerEntry& to_arm;
    Instant armed_at{};
  };
  struct Noting : TimerEntry {
    Noting() : TimerEntry(&on_timer) {}
    static void on_timer(TimerEntry& entry) { static_cast<Noting&>(entry).fired_at = real_now(); }
    std::optional<Instant> fired_at;
  };
  Noting noting;
  Burning burning(*loop, noting);
  loop->arm_after(burning, 1ms);
  ASSERT_TRUE(loop->run_until([&] { return noting.fired_at.has_value(); }, kGenerous));
  EXPECT_GE(saturating_sub(*noting.fired_at, burning.armed_at), Delay{100ms});

  // The same inside a task.
  std::optional<Delay> slept;
  const auto body = [](std::optional<Delay>& out) -> Task<> {
    burn(300ms);
    const Instant begin = real_now();
    co_await sleep_for(100ms);
    out = saturating_sub(real_now(), begin);
  };
  loop->spawn(body(slept));
  ASSERT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
  EXPECT_GE(*slept, Delay{100ms});
  EXPECT_GE(loop->stats().overlong_turns, 2U);
  EXPECT_GE(loop->stats().worst_turn, Delay{300ms});
}

struct Checked : TimerEntry {
  Checked() : TimerEntry(&on_timer) {}
  static void on_timer(TimerEntry& entry) {
    Checked& self = static_cast<Checked&>(entry);
    ++self.fired;
    if (real_now() < self.due) ++self.early;
    ++*self.total;
  }
  Instant due{};
  int fired = 0;
  int early = 0;
  std::uint64_t* total = nullptr;
};

// L3: random timers over real time: none fires before its deadline.
TEST_P(RealTime, L3_RandomTimersNeverFireBeforeTheirDeadline) {
  const std::uint64_t count = test::scaled(100'000);
  Random random(test::seed());
  std::uint64_t fired = 0;
  std::vector<Checked> timers(count);
  for (Checked& timer : timers) {
    timer.total = &fired;
    timer.due = saturating_add(real_now(), std::chrono::nanoseconds{random.below(1'000'000'000)});
    loop->wheel().arm(timer, timer.due);
  }
  ASSERT_TRUE(loop->run_until([&] { return fired == count; }, 30s));
  for (const Checked& timer : timers) {
    ASSERT_EQ(timer.fired, 1);
    ASSERT_EQ(timer.early, 0);
  }
  EXPECT_EQ(loop->wheel().check(), "");
}

// L4: a task that yields for ever holds up no timer.
TEST_P(RealTime, L4_ATimerIsNotHeldUpByATaskThatComputesAndYields) {
  std::optional<Delay> slept;
  const auto computing = [](std::optional<Delay>& other) -> Task<> {
    for (Wake wake{}; !other && wake == Wake::elapsed; wake = co_await yield()) burn(500us);
  };
  const TaskHandle task = loop->spawn(computing(slept), "computing");
  loop->spawn(measure_sleep(10ms, slept));
  ASSERT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
  EXPECT_GE(*slept, Delay{10ms});
  EXPECT_LT(*slept, Delay{500ms});
  ASSERT_TRUE(loop->run_until([&] { return task.done(); }, kGenerous));
}

Task<> sleep_often(std::uint64_t seed, int rounds, int& done) {
  Random random(seed);
  for (int i = 0; i < rounds; ++i) {
    // A tenth of them is zero or past.
    const auto delay = std::chrono::nanoseconds{random.between(-200'000, 2'000'000)};
    if (i % 2 == 0) {
      co_await sleep_for(delay);
    } else {
      co_await sleep_until(saturating_add(Loop::current().now(), delay));
    }
  }
  ++done;
}

// L9: short sleeps, zero and past deadlines included: none hangs.
TEST_P(RealTime, L9_NoneOfManyShortSleepsHangs) {
  constexpr int kTasks = 1000;
  constexpr int kRounds = 100;
  int done = 0;
  for (int i = 0; i < kTasks; ++i) {
    loop->spawn(sleep_often(test::seed() + static_cast<unsigned>(i), kRounds, done));
  }
  EXPECT_TRUE(loop->run_until([&] { return done == kTasks; }, 30s));
}

TEST_P(RealTime, TimeIsAccountedForAsBusyIdleOrParked) {
  std::optional<Delay> slept;
  const auto body = [](std::optional<Delay>& out) -> Task<> {
    burn(50ms);
    co_await sleep_for(100ms);
    out = Delay{};
  };
  const Instant begin = real_now();
  loop->spawn(body(slept), "burning");
  ASSERT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
  const Delay elapsed = saturating_sub(real_now(), begin);
  const LoopStats& stats = loop->stats();
  const std::uint64_t accounted = stats.busy_ns + stats.idle_ns + stats.parked_ns;
  EXPECT_LE(accounted, static_cast<std::uint64_t>(elapsed.count()));
  EXPECT_GE(accounted, static_cast<std::uint64_t>(elapsed.count()) * 9 / 10);
  EXPECT_GE(stats.busy_ns, 50'000'000U);
  const std::uint64_t waited = policy() == IdlePolicy::spin ? stats.idle_ns : stats.parked_ns;
  EXPECT_GE(waited, 50'000'000U);
  EXPECT_EQ(stats.parks == 0, policy() == IdlePolicy::spin);
  EXPECT_STREQ(stats.worst_turn_last.kind, "task");
  EXPECT_STREQ(stats.worst_turn_last.name, "burning");
  EXPECT_GE(stats.timer_lateness.count(), 1U);
}

// L23: far timers wake nobody.
TEST(RealTimeIdle, L23_FarTimersWakeNobody) {
  MonotonicTime time;
  LoopOptions options;
  options.idle = IdlePolicy::park;
  const auto loop = test::make_loop(time, options);
  std::uint64_t fired = 0;
  std::deque<Checked> timers(3000);
  for (Checked& timer : timers) {
    timer.total = &fired;
    loop->arm_after(timer, 24h * 20);
  }
  loop->run_until([] { return false; }, 300ms);
  const LoopStats& stats = loop->stats();
  EXPECT_EQ(stats.failed_parks, 0U);
  EXPECT_LE(stats.parks, 3U);  // One, and what the bound of this run needs.
  EXPECT_GE(stats.parked_ns, 250'000'000U);
  EXPECT_LE(loop->ring().stats().enters, 5U);
}

}  // namespace
}  // namespace pinion

#include <pinion/timers/periodic_timer.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/test/seed.h>

#include "start_ticks.h"

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr Instant at(Delay since_epoch) {
  return saturating_add(Instant{}, since_epoch);
}

template <std::int64_t kTickNs>
struct Recorder : BasicPeriodicTimer<BasicTimingWheel<kTickNs>> {
  using Base = BasicPeriodicTimer<BasicTimingWheel<kTickNs>>;
  Recorder() : Base(&Recorder::on_period) {}
  static void on_period(Base& timer) {
    auto& self = static_cast<Recorder&>(timer);
    self.served.push_back(self.due());
    self.skipped += self.missed();
  }
  std::vector<Instant> served;
  std::int64_t skipped = 0;
};

template <class Tick>
class PeriodicTimerTM16 : public testing::Test {};

template <std::int64_t kTickNs>
struct TickSize {
  static constexpr std::int64_t kNs = kTickNs;
};
using TickSizes = testing::Types<TickSize<1'000>, TickSize<100'000>, TickSize<1'000'000>,
                                 TickSize<7'000'003>, TickSize<1'000'000'000>>;
TYPED_TEST_SUITE(PeriodicTimerTM16, TickSizes);

// TM16: periodic timers keep their grid, and skip or replay what they missed.
TYPED_TEST(PeriodicTimerTM16, DriftsByNothingOverAMillionPeriods) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  const Instant begin = at(12'345'678'901ns);
  const std::chrono::nanoseconds period{kTick * 3 / 2 + 1};  // never a whole number of ticks
  BasicTimingWheel<kTick> wheel(begin);
  struct Counter : BasicPeriodicTimer<BasicTimingWheel<kTick>> {
    Counter()
        : BasicPeriodicTimer<BasicTimingWheel<kTick>>(
              [](auto& timer) { ++static_cast<Counter&>(timer).count; }) {}
    std::int64_t count = 0;
  } timer;
  timer.start(wheel, begin, period, Missed::skip);
  constexpr std::int64_t kPeriods = 1'000'000;
  while (timer.count < kPeriods) {
    const std::int64_t before = timer.count;
    const Instant now = wheel.next_expiry();
    wheel.advance(now);
    if (timer.count == before) continue;  // a cascade only
    ASSERT_EQ(timer.count, before + 1);
    ASSERT_EQ(timer.due(), begin + period * timer.count);
    ASSERT_GE(now, timer.due());
    ASSERT_LT(now - timer.due(), std::chrono::nanoseconds(kTick));
  }
  EXPECT_EQ(timer.due(), begin + period * kPeriods);
  EXPECT_EQ(timer.next(), begin + period * (kPeriods + 1));
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
/// From every start that an instant can name, with both policies.
TYPED_TEST(PeriodicTimerTM16, KeepsTheGridFromEveryStart) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  using Wheel = BasicTimingWheel<kTick>;
  const std::chrono::nanoseconds period{kTick * 7 / 3 + 1};
  for (const Tick start : test::start_ticks(test::seed())) {
    const Instant begin = Wheel::instant_of(start);
    if (begin > kNever - 10'000 * period) continue;
    for (const Missed policy : {Missed::skip, Missed::replay}) {
      Wheel wheel(begin);
      Recorder<kTick> timer;
      timer.start(wheel, begin, period, policy);
      for (int wakes = 0; timer.served.size() < 200; ++wakes) {
        ASSERT_LT(wakes, 3000);
        wheel.advance(wheel.next_expiry() + (wakes % 9 == 0 ? 5 * period : 0ns));
      }
      const auto periods = static_cast<std::int64_t>(timer.served.size()) + timer.skipped;
      ASSERT_EQ(timer.served.back(), begin + period * periods);
    }
  }
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
TYPED_TEST(PeriodicTimerTM16, SkipsMissedPeriodsAndKeepsTheGrid) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  const std::chrono::nanoseconds period{kTick * 10};
  BasicTimingWheel<kTick> wheel(Instant{});
  Recorder<kTick> timer;
  timer.start(wheel, Instant{}, period, Missed::skip);
  wheel.advance(Instant{period * 7 + period / 2});
  EXPECT_EQ(timer.served, std::vector<Instant>{Instant{period * 7}});
  EXPECT_EQ(timer.skipped, 6);
  wheel.advance(Instant{period * 8 - 1ns});
  EXPECT_EQ(timer.served.size(), 1U);
  wheel.advance(Instant{period * 8});
  EXPECT_EQ(timer.served.back(), Instant{period * 8});
  EXPECT_EQ(timer.missed(), 0);
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
TYPED_TEST(PeriodicTimerTM16, ReplaysMissedPeriodsOneByOne) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  const std::chrono::nanoseconds period{kTick * 10};
  BasicTimingWheel<kTick> wheel(Instant{});
  Recorder<kTick> timer;
  timer.start(wheel, Instant{}, period, Missed::replay);
  wheel.advance(Instant{period * 7 + period / 2});
  ASSERT_EQ(timer.served.size(), 7U);
  for (int period_number = 1; period_number <= 7; ++period_number) {
    EXPECT_EQ(timer.served[static_cast<std::size_t>(period_number - 1)],
              Instant{period * period_number});
  }
  EXPECT_EQ(timer.skipped, 0);
  EXPECT_EQ(timer.next(), Instant{period * 8});
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
TEST(PeriodicTimerTM16, ReplaysABoundedNumberPerAdvanceAndAllInTheEnd) {
  TimingWheel wheel(Instant{});
  Recorder<1'000'000> timer;
  timer.start(wheel, Instant{}, 10ms, Missed::replay);
  Instant now = at(10s);
  wheel.advance(now);
  EXPECT_EQ(timer.served.size(), static_cast<std::size_t>(timer.replays_at_once()));
  while (timer.next() <= now) {
    const Instant wake = wheel.next_expiry();
    ASSERT_LE(wake, now + 1ms) << "what is left must not wait";
    now = std::max(now, wake);
    wheel.advance(now);
  }
  EXPECT_EQ(timer.served.size(), 1000U + static_cast<std::size_t>((now - at(10s)) / 10ms));
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
/// A period shorter than the tick: several are due in each.
TEST(PeriodicTimerTM16, ReplaysPeriodsShorterThanATick) {
  TimingWheel wheel(Instant{});
  Recorder<1'000'000> timer;
  timer.start(wheel, Instant{}, 300us, Missed::replay);
  for (int tick = 1; tick <= 30; ++tick) wheel.advance(at(std::chrono::milliseconds(tick)));
  EXPECT_EQ(timer.served.size(), 100U);
  EXPECT_EQ(timer.served.back(), at(30ms));
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
/// However many periods a tick has, a loop that spins serves each within the tick in which it is
/// due, and catches up after a stall.
TEST(PeriodicTimerTM16, ReplayKeepsUpWithAnyNumberOfPeriodsPerTick) {
  for (const std::int64_t per_tick : {63, 64, 65, 100, 1000}) {
    BasicTimingWheel<1'000'000'000> wheel(Instant{});
    Recorder<1'000'000'000> timer;
    const auto period = 1'000'000'000ns / per_tick;
    timer.start(wheel, Instant{}, period, Missed::replay);
    Instant now{};
    const auto spin_until = [&](Instant end) {
      for (; now < end; now += 100ms) wheel.advance(now);
      wheel.advance(now = end);
    };
    for (int second = 1; second <= 50; ++second) {
      spin_until(at(std::chrono::seconds(second)));
      ASSERT_EQ(timer.served.size(), static_cast<std::size_t>(1s * second / period)) << per_tick;
    }
    now = at(60s);  // ten ticks missed at once
    spin_until(at(75s));
    EXPECT_EQ(timer.served.size(), static_cast<std::size_t>(75s / period)) << per_tick;
  }
}

// TM16: periodic timers keep their grid, and skip or replay what they missed.
/// The budget of a wheel may end between the replays of several ticks.
TEST(PeriodicTimerTM16, ReplaysAllUnderABudget) {
  TimingWheel wheel(at(77'777us));
  Recorder<1'000'000> one;
  Recorder<1'000'000> other;
  one.start(wheel, at(77'777us), 10ms, Missed::replay);
  other.start(wheel, at(77'777us), 10ms, Missed::replay);
  const Instant end = at(5s);
  for (int calls = 0; one.next() <= end || other.next() <= end; ++calls) {
    ASSERT_LT(calls, 1000);
    EXPECT_LE(wheel.advance(std::max(end, wheel.next_expiry()), 1), 1U);
  }
  for (const Recorder<1'000'000>* timer : {&one, &other}) {
    ASSERT_GE(timer->served.size(), 492U);
    for (std::size_t index = 0; index < timer->served.size(); ++index) {
      ASSERT_EQ(timer->served[index], at(77'777us + 10ms * static_cast<int>(index + 1)));
    }
  }
}

TEST(PeriodicTimer, BeginsAnewWithNothingMissed) {
  TimingWheel wheel(Instant{});
  Recorder<1'000'000> timer;
  timer.start(wheel, Instant{}, 10ms, Missed::skip);
  wheel.advance(at(75ms));
  EXPECT_EQ(timer.missed(), 6);
  timer.start(wheel, at(75ms), 10ms, Missed::replay);
  EXPECT_EQ(timer.missed(), 0);
  EXPECT_EQ(timer.due(), kNever);
  wheel.advance(at(85ms));
  EXPECT_EQ(timer.missed(), 0);
  EXPECT_EQ(timer.skipped, 6);
}

TEST(PeriodicTimer, StopsAndStartsAnew) {
  TimingWheel wheel(Instant{});
  Recorder<1'000'000> timer;
  EXPECT_FALSE(timer.started());
  EXPECT_FALSE(timer.stop());
  timer.start(wheel, Instant{}, 10ms, Missed::skip);
  EXPECT_TRUE(timer.started());
  timer.start(wheel, at(3ms), 20ms, Missed::skip);
  wheel.advance(at(22ms));
  EXPECT_TRUE(timer.served.empty());
  wheel.advance(at(23ms));
  EXPECT_EQ(timer.served.size(), 1U);
  EXPECT_TRUE(timer.stop());
  EXPECT_EQ(timer.next(), kNever);
  wheel.advance(at(10s));
  EXPECT_EQ(timer.served.size(), 1U);
  EXPECT_EQ(wheel.armed_count(), 0U);
}

TEST(PeriodicTimer, NeverFiresWithAPeriodThatNeverEnds) {
  TimingWheel wheel(Instant{});
  Recorder<1'000'000> timer;
  timer.start(wheel, at(1ms), kNoTimeout, Missed::skip);
  EXPECT_EQ(wheel.next_expiry(), kNever);
  wheel.advance(at(std::chrono::hours(24 * 400)));
  EXPECT_TRUE(timer.served.empty());
}

/// What callbacks may do to the timer that calls them, in both policies.
enum class Deed { stop, restart, destroy, destroy_wheel };

struct Unruly : PeriodicTimer {
  Unruly(Deed what, std::optional<TimingWheel>& its_wheel, std::unique_ptr<Unruly>& its_owner)
      : PeriodicTimer(&Unruly::on_period), deed(what), wheel(its_wheel), owner(its_owner) {}
  static void on_period(PeriodicTimer& timer) {
    auto& self = static_cast<Unruly&>(timer);
    ++calls;
    switch (self.deed) {
      case Deed::stop:
        EXPECT_TRUE(self.stop());
        return;
      case Deed::restart:
        return self.start(*self.wheel, self.wheel->now(), 1h, Missed::replay);
      case Deed::destroy:
        return self.owner.reset();
      case Deed::destroy_wheel:
        self.wheel.reset();
        EXPECT_FALSE(self.started());
        return;
    }
  }
  Deed deed;
  std::optional<TimingWheel>& wheel;
  std::unique_ptr<Unruly>& owner;
  static inline int calls = 0;
};

TEST(PeriodicTimer, MayBeStoppedRestartedAndDestroyedByItsCallback) {
  for (const Missed policy : {Missed::skip, Missed::replay}) {
    for (const Deed deed : {Deed::stop, Deed::restart, Deed::destroy, Deed::destroy_wheel}) {
      std::optional<TimingWheel> wheel(Instant{});
      std::unique_ptr<Unruly> timer;
      timer = std::make_unique<Unruly>(deed, wheel, timer);
      Unruly::calls = 0;
      timer->start(*wheel, Instant{}, 10ms, policy);
      wheel->advance(at(105ms));
      EXPECT_EQ(Unruly::calls, 1);
      EXPECT_EQ(timer == nullptr, deed == Deed::destroy);
      EXPECT_EQ(timer != nullptr && timer->started(), deed == Deed::restart);
      EXPECT_EQ(wheel ? wheel->armed_count() : 0U, deed == Deed::restart ? 1U : 0U);
    }
  }
}

}  // namespace
}  // namespace pinion

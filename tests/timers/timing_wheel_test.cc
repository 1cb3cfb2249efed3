#include <pinion/timers/timing_wheel.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>

/// The wheel in instants: rounding, saturation, which "now" is meant.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr Instant at(Delay since_epoch) {
  return saturating_add(Instant{}, since_epoch);
}
constexpr Instant at_ns(std::int64_t count) {
  return Instant{nanoseconds{count}};
}

/// Notes the instant that the loop gave to advance() when it fired.
struct Waiter : TimerEntry {
  explicit Waiter(const Instant& its_now) : TimerEntry(&Waiter::on_fire), now(its_now) {}
  static void on_fire(TimerEntry& entry) {
    auto& waiter = static_cast<Waiter&>(entry);
    waiter.fired_at = waiter.now;
    ++waiter.fired;
  }
  const Instant& now;
  Instant wanted{};
  Instant fired_at{};
  int fired = 0;
};

template <std::int64_t kTickNs>
struct TickSize {
  static constexpr std::int64_t kNs = kTickNs;
};
/// 1 us, 100 us, 1 ms, 1 s, and two that don't divide a second.
using TickSizes = testing::Types<TickSize<1'000>, TickSize<100'000>, TickSize<1'000'000>,
                                 TickSize<1'000'000'000>, TickSize<7'000'003>, TickSize<1'001>>;

template <class Size>
class TimingWheelTM18 : public testing::Test {};
TYPED_TEST_SUITE(TimingWheelTM18, TickSizes);

// TM18: tick sizes from 1 us to 1 s, and one that does not divide a second.
TYPED_TEST(TimingWheelTM18, DeadlinesRoundUpAndTheClockDown) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  using Wheel = BasicTimingWheel<kTick>;
  EXPECT_EQ(Wheel::tick_before(at_ns(0)), 0U);
  EXPECT_EQ(Wheel::tick_before(at_ns(kTick - 1)), 0U);
  EXPECT_EQ(Wheel::tick_before(at_ns(kTick)), 1U);
  EXPECT_EQ(Wheel::tick_after(at_ns(0)), 0U);
  EXPECT_EQ(Wheel::tick_after(at_ns(1)), 1U);
  EXPECT_EQ(Wheel::tick_after(at_ns(kTick)), 1U);
  EXPECT_EQ(Wheel::tick_after(at_ns(kTick + 1)), 2U);
  EXPECT_EQ(Wheel::instant_of(3), at_ns(3 * kTick));
}

// TM18: tick sizes from 1 us to 1 s, and one that does not divide a second.
TYPED_TEST(TimingWheelTM18, TheEndsOfTimeSaturate) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  using Wheel = BasicTimingWheel<kTick>;
  EXPECT_EQ(Wheel::tick_after(kNever), kNeverTick);
  EXPECT_EQ(Wheel::instant_of(kNeverTick), kNever);
  EXPECT_EQ(Wheel::tick_before(Instant::min()), 0U);
  EXPECT_EQ(Wheel::tick_after(Instant::min()), 0U);
  EXPECT_EQ(Wheel::tick_after(at_ns(-1)), 0U);
  const Instant last = kNever - 1ns;
  const std::int64_t ticks = std::numeric_limits<std::int64_t>::max() / kTick;
  EXPECT_EQ(Wheel::tick_before(last), static_cast<Tick>((last.time_since_epoch().count()) / kTick));
  EXPECT_GE(Wheel::tick_after(last), static_cast<Tick>(ticks));
  EXPECT_LE(Wheel::tick_after(last), static_cast<Tick>(ticks) + 1);
  EXPECT_EQ(Wheel::instant_of(static_cast<Tick>(ticks) + 1), kNever);
}

// TM18: tick sizes from 1 us to 1 s, and one that does not divide a second.
TYPED_TEST(TimingWheelTM18, AnInstantBeforeTheEpochIsTickZero) {
  using Wheel = BasicTimingWheel<TypeParam::kNs>;
  Instant now = at(-10s);
  Wheel wheel(now);
  Waiter waiter(now);
  wheel.arm(waiter, at(-5s));
  EXPECT_EQ(wheel.advance(now), 0U);
  now = at_ns(TypeParam::kNs);
  EXPECT_EQ(wheel.advance(now), 1U);
}

template <class Size>
class TimingWheelTM3 : public testing::Test {};
TYPED_TEST_SUITE(TimingWheelTM3, TickSizes);

// TM3: no timer fires before its nanosecond, budgets and phases within a tick included.
/// Random nanosecond phases of start, deadlines and polls, with budgets that stop within a tick.
TYPED_TEST(TimingWheelTM3, NothingFiresBeforeItsNanosecondWithABudgetAtWork) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  Random choices(seed());
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(choices.below(static_cast<std::uint64_t>(bound)));
  };
  for (int round = 0; round < 20; ++round) {
    Instant now = at_ns(below(std::int64_t{1} << (20 + round * 2)));
    BasicTimingWheel<kTick> wheel(now);
    std::deque<Waiter> waiters;
    for (int made = 0; made < 300; ++made) {
      Waiter& waiter = waiters.emplace_back(now);
      // Many share a tick.
      waiter.wanted = now + nanoseconds{below(4) * 30 * kTick + below(kTick * 3)};
      wheel.arm(waiter, waiter.wanted);
    }
    for (int polls = 0; wheel.armed_count() != 0; ++polls) {
      ASSERT_LT(polls, 100'000);
      now += nanoseconds{below(kTick)};
      wheel.advance(now, choices.below(2) == 0 ? kNoBudget : choices.below(3));
    }
    for (const Waiter& waiter : waiters) {
      ASSERT_EQ(waiter.fired, 1);
      ASSERT_GE(waiter.fired_at, waiter.wanted);
    }
    ASSERT_EQ(wheel.check(), "");
  }
}

// TM3: no timer fires before its nanosecond, budgets and phases within a tick included.
TYPED_TEST(TimingWheelTM3, WithoutABudgetTheFirstPollInTheNextTickFires) {
  constexpr std::int64_t kTick = TypeParam::kNs;
  Random choices(seed());
  for (int round = 0; round < 1000; ++round) {
    const auto phase = static_cast<std::int64_t>(choices.below(kTick));
    const auto delay = static_cast<std::int64_t>(1 + choices.below(100 * kTick));
    Instant now = at_ns(1'000'000 * kTick + phase);
    BasicTimingWheel<kTick> wheel(now);
    Waiter waiter(now);
    waiter.wanted = now + nanoseconds{delay};
    wheel.arm_after(waiter, now, nanoseconds{delay});
    const Instant expiry = wheel.next_expiry();
    ASSERT_LE(expiry, waiter.wanted + nanoseconds{kTick - 1});
    now = waiter.wanted - 1ns;
    wheel.advance(now);
    ASSERT_EQ(waiter.fired, 0) << "a nanosecond early";
    now = waiter.wanted + nanoseconds{kTick - 1};
    wheel.advance(now);
    ASSERT_EQ(waiter.fired, 1);
  }
}

// TM4: a delay that is armed after long work counts from then.
/// 50 ms of work in a callback, then 10 ms: by the wheel's own now() they would be over already.
TEST(TimingWheelTM4, ADelayCountsFromTheNowThatTheCallerGives) {
  ManualTime clock(at(5s));
  TimingWheel wheel(clock.now());
  struct Worker : TimerEntry {
    Worker(ManualTime& its_clock, TimingWheel& its_wheel)
        : TimerEntry(&Worker::on_fire), clock(its_clock), wheel(its_wheel) {}
    static void on_fire(TimerEntry& entry) {
      auto& worker = static_cast<Worker&>(entry);
      if (worker.runs++ != 0) {
        worker.second_run = worker.clock.now();
        return;
      }
      worker.clock.advance(50ms);
      worker.armed_at = worker.clock.now();
      worker.wheel.arm_after(worker, worker.clock.now(), 10ms);
    }
    ManualTime& clock;
    TimingWheel& wheel;
    int runs = 0;
    Instant armed_at{};
    Instant second_run{};
  } worker(clock, wheel);
  wheel.arm_after(worker, clock.now(), 1ms);
  while (worker.runs < 2) {
    clock.advance(100us);
    wheel.advance(clock.now());
  }
  EXPECT_GE(worker.second_run - worker.armed_at, 10ms);
  EXPECT_LE(worker.second_run - worker.armed_at, 12ms);
}

// TM11: endless delays saturate, and ticks are 64 bits wide.
TEST(TimingWheelTM11, AnEndlessDelaySaturatesAndNeverFires) {
  for (const Instant start : {at(0ns), at(400h), kNever - 1h, kNever - 1ns}) {
    Instant now = start;
    TimingWheel wheel(start);
    std::deque<Waiter> waiters;
    for (int made = 0; made < 4; ++made) waiters.emplace_back(now);
    wheel.arm_after(waiters[0], start, kNoTimeout);
    wheel.arm_after(waiters[1], start, std::chrono::hours::max());
    wheel.arm(waiters[2], kNever);
    wheel.arm_after(waiters[3], start, 10ms);
    wheel.extend(waiters[3], kNever);
    EXPECT_EQ(wheel.deadline(waiters[0]), kNever);
    EXPECT_EQ(wheel.advance(kNever), 0U) << "not even at the end of time";
    EXPECT_EQ(wheel.next_expiry(), kNever);
    EXPECT_EQ(wheel.armed_count(), 4U);
    EXPECT_EQ(wheel.check(), "");
    EXPECT_TRUE(wheel.cancel(waiters[0]));
  }
}

// TM11: endless delays saturate, and ticks are 64 bits wide.
/// In each way that a caller may write the sum.
TEST(TimingWheelTM11, AnEndlessExtensionSaturatesAndNeverFires) {
  for (const Instant start : {at(1ns), at(400h), kNever - 1h}) {
    TimingWheel wheel(start);
    std::deque<Waiter> waiters;
    for (int made = 0; made < 4; ++made) {
      wheel.arm_after(waiters.emplace_back(start), start, 10ms);
    }
    wheel.extend_after(waiters[0], start, kNoTimeout);
    wheel.extend_after(waiters[1], start, std::chrono::hours::max());
    wheel.extend(waiters[2], start + kNoTimeout);
    wheel.extend(waiters[3], start + Delay(std::chrono::hours::max()));
    for (const Waiter& waiter : waiters) EXPECT_EQ(wheel.deadline(waiter), kNever);
    EXPECT_EQ(wheel.advance(kNever), 0U);
    EXPECT_EQ(wheel.armed_count(), 4U);
  }
}

// TM11: endless delays saturate, and ticks are 64 bits wide.
TEST(TimingWheelTM11, TicksAreNotTruncatedTo32Bits) {
  Instant now = at(0ns);
  BasicTimingWheel<1'000> wheel(now);
  Waiter waiter(now);
  const Instant deadline = at_ns((std::int64_t{1} << 32) * 1'000 * 5 + 7'000);
  wheel.arm(waiter, deadline);
  for (const Instant early : {at_ns(7'000), deadline - 1us}) {
    now = early;
    EXPECT_EQ(wheel.advance(now), 0U);
  }
  now = deadline;
  EXPECT_EQ(wheel.advance(now), 1U);
}

// TM11: endless delays saturate, and ticks are 64 bits wide.
TEST(TimingWheelTM11, ALengthOfTimeBeforeNowFiresAtTheNextTick) {
  Instant now = at(10s);
  TimingWheel wheel(now);
  Waiter waiter(now);
  wheel.arm_after(waiter, now, -5s);
  EXPECT_EQ(wheel.advance(now), 0U);
  EXPECT_EQ(wheel.next_expiry(), at(10s + 1ms));
  now += 1ms;
  EXPECT_EQ(wheel.advance(now), 1U);
}

TEST(TimingWheel, ExtendsInInstants) {
  Instant now = at(0ns);
  TimingWheel wheel(now);
  Waiter waiter(now);
  wheel.arm_after(waiter, now, 30s);
  for (int turn = 1; turn <= 100; ++turn) {
    now = at(std::chrono::seconds(turn));
    EXPECT_EQ(wheel.advance(now), 0U);
    if (turn % 2 == 0) {
      wheel.extend(waiter, now + 30s);
    } else {
      wheel.extend_after(waiter, now, 30s);
    }
  }
  EXPECT_EQ(wheel.stats().extended, 100U);
  EXPECT_EQ(wheel.deadline(waiter), at(130s));
  now = at(130s);
  EXPECT_EQ(wheel.advance(now), 1U);
  EXPECT_EQ(wheel.now(), now);
}

}  // namespace
}  // namespace pinion::test

#include <chrono>
#include <deque>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>
#include <pinion/timers/timing_wheel.h>

/// Against CLOCK_MONOTONIC: however late a busy machine makes it, nothing is early.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

struct Waiter : TimerEntry {
  Waiter() : TimerEntry(&Waiter::on_fire) {}
  static void on_fire(TimerEntry& entry) {
    auto& waiter = static_cast<Waiter&>(entry);
    waiter.fired_at = MonotonicTime().now();
    ++waiter.fired;
  }
  Instant wanted{};
  Instant fired_at{};
  int fired = 0;
};

template <std::int64_t kTickNs>
void run_in_real_time(TimeSource& time) {
  Random choices(seed());
  BasicTimingWheel<kTickNs> wheel(time.now());
  MonotonicTime clock;
  std::deque<Waiter> waiters;
  for (int made = 0; made < 1000; ++made) {
    Waiter& waiter = waiters.emplace_back();
    const auto delay = std::chrono::nanoseconds{choices.below(200'000'000)};
    waiter.wanted = clock.now() + delay;
    wheel.arm(waiter, waiter.wanted);
  }
  const Instant end = clock.now() + 10s;
  while (wheel.armed_count() != 0) {
    wheel.advance(time.now(), 3);
    ASSERT_LT(clock.now(), end);
  }
  for (const Waiter& waiter : waiters) {
    ASSERT_EQ(waiter.fired, 1);
    ASSERT_GE(waiter.fired_at, waiter.wanted);
  }
}

// TM3: no timer fires before its nanosecond, budgets and phases within a tick included.
TEST(TimingWheelTM3, NothingFiresEarlyByTheKernelsClock) {
  MonotonicTime time;
  run_in_real_time<1'000'000>(time);
  run_in_real_time<1'000>(time);
  run_in_real_time<7'000'003>(time);
}

// TM3: no timer fires before its nanosecond, budgets and phases within a tick included.
TEST(TimingWheelTM3, NothingFiresEarlyWhenTheCounterIsTheClock) {
  Result<TscTime> time = TscTime::create();
  if (!time) GTEST_SKIP() << time.error().what;
  run_in_real_time<1'000>(*time);
}

// TM4: a delay that is armed after long work counts from then.
TEST(TimingWheelTM4, TenMillisecondsAfterFiftyOfWorkAreTen) {
  MonotonicTime clock;
  TimingWheel wheel(clock.now());
  struct Worker : TimerEntry {
    explicit Worker(TimingWheel& its_wheel) : TimerEntry(&Worker::on_fire), wheel(its_wheel) {}
    static void on_fire(TimerEntry& entry) {
      auto& worker = static_cast<Worker&>(entry);
      MonotonicTime now;
      if (worker.runs++ != 0) {
        worker.second_run = now.now();
        return;
      }
      const Instant until = now.now() + 50ms;
      while (now.now() < until) {
      }
      worker.armed_at = now.now();
      worker.wheel.arm_after(worker, worker.armed_at, 10ms);
    }
    TimingWheel& wheel;
    int runs = 0;
    Instant armed_at{};
    Instant second_run{};
  } worker(wheel);
  wheel.arm_after(worker, clock.now(), 1ms);
  while (worker.runs < 2) wheel.advance(clock.now());
  EXPECT_GE(worker.second_run - worker.armed_at, 10ms);
}

}  // namespace
}  // namespace pinion::test

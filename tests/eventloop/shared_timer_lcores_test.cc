#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <pinion/eventloop/runtime.h>
#include <pinion/eventloop/shared_timer_poller.h>
#include <pinion/lib/random.h>
#include <pinion/test/running_lcores.h>
#include <pinion/test/seed.h>
#include <pinion/timers/shared_timers.h>
#include <pinion/timers/time_source.h>

/// Shared timers of lcores that come and go while threads schedule and cancel.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kLcores = 3;

std::unique_ptr<SharedTimers> make_timers(std::size_t capacity) {
  auto timers = SharedTimers::create({.capacity = capacity, .shards = kLcores});
  if (!timers) std::abort();
  return std::move(*timers);
}

/// Each lcore serves a shard. The first lcore's loop goes to `first`.
Runtime::Setup serve(SharedTimers& timers, Loop** first = nullptr) {
  return [&timers, first](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<SharedTimerPoller>(lcore.loop(), timers.shard(lcore.index())));
    if (lcore.index() == 0 && first != nullptr) *first = &lcore.loop();
    return {};
  };
}

/// Notes how often it fired, and that it was never before its deadline.
struct Timer {
  Timer(SharedTimers& timers, unsigned shard) {
    auto made = timers.make(shard, &Timer::on_fire, this);
    if (!made) std::abort();
    handle = std::move(*made);
  }
  static void on_fire(void* self) {
    Timer& timer = *static_cast<Timer*>(self);
    EXPECT_GE(MonotonicTime::read(), timer.not_before);
    timer.fired.fetch_add(1);
  }
  void schedule(Instant deadline) {
    not_before = deadline;
    handle.schedule(deadline);
  }

  SharedTimer handle;
  Instant not_before = Instant::min();  // Where only one thread schedules, and each in turn.
  std::atomic<std::uint64_t> fired{0};
};

std::vector<std::unique_ptr<Timer>> make_many(SharedTimers& timers, std::size_t count) {
  std::vector<std::unique_ptr<Timer>> many;
  for (std::size_t i = 0; i < count; ++i) {
    many.push_back(std::make_unique<Timer>(timers, static_cast<unsigned>(i) % kLcores));
  }
  return many;
}

std::uint64_t fired(const std::vector<std::unique_ptr<Timer>>& many) {
  std::uint64_t sum = 0;
  for (const auto& timer : many) sum += timer->fired;
  return sum;
}

/// Whether so many have fired within a minute.
bool all_fire(const std::vector<std::unique_ptr<Timer>>& many, std::uint64_t count) {
  const Instant bound = MonotonicTime::read() + 60s;
  while (fired(many) < count) {
    if (MonotonicTime::read() > bound) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(SharedTimerLcores, TimersOfADrainedLcoreFireOnAnotherOnceAndNotEarly) {
  const auto timers = make_timers(300);
  const auto many = make_many(*timers, 300);
  RunningLcores lcores(lcores_on_one_cpu(kLcores), serve(*timers));
  const Instant deadline = MonotonicTime::read() + 100ms;
  for (const auto& timer : many) timer->schedule(deadline);
  ASSERT_TRUE(lcores.drain(1));
  ASSERT_TRUE(lcores.drain(2));
  EXPECT_TRUE(all_fire(many, 300));
  for (const auto& timer : many) EXPECT_EQ(timer->fired, 1U);
  EXPECT_GE(timers->stats().migrated, 200U);
  EXPECT_EQ(timers->stats().pending, 0U);
}

TEST(SharedTimerLcores, TimersOfALcoreThatIsGoneAreServedByTheOthersAndByItWhenItIsBack) {
  const auto timers = make_timers(300);
  const auto many = make_many(*timers, 300);
  RunningLcores lcores(lcores_on_one_cpu(kLcores), serve(*timers));
  ASSERT_TRUE(lcores.drain(1));
  for (const auto& timer : many) timer->schedule(MonotonicTime::read() + 1ms);
  EXPECT_TRUE(all_fire(many, 300));
  ASSERT_EQ(lcores.add().value_or(0), 1U);
  for (const auto& timer : many) timer->schedule(MonotonicTime::read() + 1ms);
  EXPECT_TRUE(all_fire(many, 600));
}

TEST(SharedTimerLcores, TimersOfALcoreWhoseLoopHasEndedByItselfFireOnAnother) {
  const auto timers = make_timers(300);
  const auto many = make_many(*timers, 300);
  Loop* first = nullptr;
  RunningLcores lcores(lcores_on_one_cpu(kLcores), serve(*timers, &first));
  first->stop();  // The first: whoever looks for a shard that runs must pass it by.
  while (timers->shard(0).running()) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(lcores.drain(1));
  for (const auto& timer : many) timer->schedule(MonotonicTime::read() + 1ms);
  EXPECT_TRUE(all_fire(many, 300));
}

TEST(SharedTimerLcores, EveryScheduleEndsOnceHoweverLcoresComeAndGo) {
  constexpr std::size_t kTimers = 512;
  const std::uint64_t seed = test::seed();
  Random random(seed);
  const auto timers = make_timers(kTimers);
  const auto many = make_many(*timers, kTimers);
  std::uint64_t drains = 0;
  {
    RunningLcores lcores(lcores_on_one_cpu(kLcores), serve(*timers));
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        Random own(seed + 1 + thread);
        while (!over) {
          SharedTimer& timer = many[own.below(kTimers)]->handle;
          if (own.below(4) == 0) {
            timer.cancel();
          } else {
            timer.schedule(MonotonicTime::read() + std::chrono::microseconds(own.below(20'000)));
          }
          if (own.below(64) == 0) std::this_thread::yield();
        }
      });
    }
    std::vector<unsigned> gone;
    for (std::uint64_t step = test::scaled(200); step > 0; --step) {
      const auto index = static_cast<unsigned>(1 + random.below(kLcores - 1));  // 0 stays.
      if (std::find(gone.begin(), gone.end(), index) == gone.end()) {
        ASSERT_TRUE(lcores.drain(index)) << "seed " << seed;
        gone.push_back(index);
        ++drains;
      } else {
        const Result<unsigned> back = lcores.add();
        ASSERT_TRUE(back) << "seed " << seed;
        std::erase(gone, *back);
      }
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
    // What is left fires.
    const Instant bound = MonotonicTime::read() + 60s;
    while (timers->stats().pending > 0 && MonotonicTime::read() < bound) {
      std::this_thread::sleep_for(1ms);
    }
  }
  const SharedTimerStats stats = timers->stats();
  EXPECT_GT(drains, 0U);
  EXPECT_EQ(stats.pending, 0U) << "seed " << seed;
  EXPECT_EQ(stats.scheduled, stats.fired + stats.cancelled + stats.replaced) << "seed " << seed;
  EXPECT_EQ(stats.fired, fired(many)) << "seed " << seed;
  EXPECT_GE(stats.migrated, stats.adopted) << "seed " << seed;
}

}  // namespace
}  // namespace pinion::test

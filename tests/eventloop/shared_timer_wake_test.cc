#include <gtest/gtest.h>

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
#include <pinion/test/seed.h>
#include <pinion/timers/shared_timers.h>
#include <pinion/timers/time_source.h>

#include "loop_fixture.h"

/// Shared timers of loops that really sleep. A lost wake-up shows as a run that takes until its
/// bound.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr Delay kBound = 60s;

std::unique_ptr<SharedTimers> make_timers(unsigned shards) {
  auto timers = SharedTimers::create({.capacity = 1000, .shards = shards});
  if (!timers) std::abort();
  return std::move(*timers);
}

/// A timer that notes when it fired.
struct Noted {
  Noted(SharedTimers& timers, unsigned shard) {
    auto made = timers.make(shard, &Noted::on_fire, this);
    if (!made) std::abort();
    timer = std::move(*made);
  }
  static void on_fire(void* self) {
    auto& noted = *static_cast<Noted*>(self);
    noted.fired_at.store(MonotonicTime::read().time_since_epoch().count());
    noted.fired.fetch_add(1);
  }
  bool wait_for(int count) const {
    const Instant bound = MonotonicTime::read() + kBound;
    while (fired.load() < count) {
      if (MonotonicTime::read() > bound) return false;
      std::this_thread::sleep_for(50us);
    }
    return true;
  }

  SharedTimer timer;
  std::atomic<int> fired{0};
  std::atomic<std::int64_t> fired_at{0};
};

LoopOptions parking() {
  LoopOptions options;
  options.idle = IdlePolicy::park;
  return options;
}

TEST(SharedTimerWake, AnEarlierScheduleWakesALoopThatSleepsAndNeverFiresEarly) {
  const std::unique_ptr<SharedTimers> timers = make_timers(1);
  MonotonicTime time;
  const std::unique_ptr<Loop> loop = make_loop(time, parking());
  Noted far(*timers, 0);
  Noted near(*timers, 0);
  far.timer.schedule(time.now() + 1h);
  std::thread runs([&] {
    SharedTimerPoller poller(*loop, timers->shard(0));
    EXPECT_EQ(loop->run(), Ending::stopped);
  });
  Random choices(seed());
  for (int round = 1; round <= static_cast<int>(scaled(200)); ++round) {
    // Long enough to sleep, as a rule.
    if (choices.chance(0.5)) std::this_thread::sleep_for(300us);
    const Instant deadline = MonotonicTime::read() + std::chrono::microseconds{choices.below(2000)};
    if (choices.chance(0.3)) far.timer.schedule(deadline + 2h);
    if (choices.chance(0.3)) near.timer.schedule(deadline + 1h);
    if (choices.chance(0.3)) near.timer.cancel();
    near.timer.schedule(deadline);
    ASSERT_TRUE(near.wait_for(round)) << "a lost wake-up";
    EXPECT_GE(near.fired_at.load(), deadline.time_since_epoch().count()) << "early";
  }
  EXPECT_EQ(far.fired.load(), 0);
  loop->stop();
  runs.join();
  EXPECT_GT(loop->stats().parks, 0U);
}

TEST(SharedTimerWake, ACancelDoesNotWakeALoopThatSleeps) {
  const std::unique_ptr<SharedTimers> timers = make_timers(1);
  MonotonicTime time;
  const std::unique_ptr<Loop> loop = make_loop(time, parking());
  Noted far(*timers, 0);
  std::thread runs([&] {
    SharedTimerPoller poller(*loop, timers->shard(0));
    EXPECT_EQ(loop->run(), Ending::stopped);
  });
  for (int round = 0; round < 20; ++round) {
    far.timer.schedule(time.now() + 1h);
    std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(far.timer.cancel());
    std::this_thread::sleep_for(1ms);
  }
  loop->stop();
  runs.join();
  // One for each schedule at most, and one for stop().
  EXPECT_LE(loop->stats().doorbells, 21U);
}

// Lcores of a runtime end one by one; what they leave fires on those that are left.
TEST(SharedTimerWake, TimersOutliveTheLcoreThatTheyWereMadeFor) {
  constexpr unsigned kLcores = 2;
  const std::unique_ptr<SharedTimers> timers = make_timers(kLcores);
  Noted timer(*timers, 0);
  const unsigned cpu = first_cpus(1)->front();
  auto runtime = Runtime::create({.cpus = std::vector<unsigned>(kLcores, cpu),
                                  .loop = parking(),
                                  .handle_signals = false,
                                  .allow_shared_cpus = true});
  ASSERT_TRUE(runtime.has_value());
  struct EndsWhenFired : Drainable {
    explicit EndsWhenFired(const Noted& its) : timer(its) {}
    void on_drain() override {}
    void on_drain_expired() override {}
    [[nodiscard]] bool drained() const override { return timer.fired.load() > 0; }
    const Noted& timer;
  };
  EndsWhenFired other(timer);
  Instant deadline{};  // Lcore 0's until the run is over.
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    auto poller = std::make_unique<SharedTimerPoller>(lcore.loop(), timers->shard(lcore.index()));
    if (lcore.index() == 0) {
      deadline = MonotonicTime::read() + 1s;
      timer.timer.schedule(deadline);
      lcore.loop().turn();
      EXPECT_EQ(timer.timer.look().state, SharedTimerState::scheduled);
      // Its part ends early: the poller goes before the loop.
      poller->drain();
      (*runtime)->request_drain();
    } else {
      lcore.loop().add_drainable(other);
    }
    lcore.keep(std::move(poller));
    return {};
  });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(timer.fired.load(), 1);
  EXPECT_GE(timer.fired_at.load(), deadline.time_since_epoch().count());
  EXPECT_EQ(timers->stats().migrated, 1U);
  EXPECT_EQ(timers->stats().adopted, 1U);
}

}  // namespace
}  // namespace pinion::test

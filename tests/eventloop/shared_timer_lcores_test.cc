#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <pinion/eventloop/runtime.h>
#include <pinion/eventloop/shared_timer_poller.h>
#include <pinion/lib/random.h>
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

/// Lcores on one CPU that serve a shard each. The runtime runs on a thread of its own.
class Lcores {
 public:
  explicit Lcores(SharedTimers& timers) : timers_(timers) {
    RuntimeOptions options;
    options.cpus.assign(kLcores, cpu_);
    options.allow_shared_cpus = true;
    options.handle_signals = false;
    options.loop.idle = IdlePolicy::park;
    auto created = Runtime::create(std::move(options));
    if (!created) std::abort();
    runtime_ = std::move(*created);
    thread_ = std::thread([this] {
      const auto report = runtime_->run([this](Lcore& lcore) -> Result<> {
        loops_.at(lcore.index()) = &lcore.loop();
        lcore.keep(std::make_unique<SharedTimerPoller>(lcore.loop(), timers_.shard(lcore.index())));
        return {};
      });
      EXPECT_TRUE(report);
    });
    // What comes before run() is answered by it: then all are set up.
    EXPECT_FALSE(drain(kLcores));
  }
  ~Lcores() {
    runtime_->request_stop();
    thread_.join();
  }
  Lcores(const Lcores&) = delete;
  Lcores& operator=(const Lcores&) = delete;

  Loop& loop(unsigned index) { return *loops_.at(index).load(); }

  bool drain(unsigned index) {
    std::optional<bool> told;
    runtime_->drain_lcore(index, [&](Result<Ending> ending) { tell(told, ending.has_value()); });
    return wait(told);
  }
  /// Which one serves again.
  std::optional<unsigned> add() {
    std::optional<bool> told;
    std::optional<unsigned> index;
    runtime_->add_lcore(cpu_, [&](Result<unsigned> added) {
      if (added) index = *added;
      tell(told, added.has_value());
    });
    wait(told);
    return index;
  }

 private:
  void tell(std::optional<bool>& told, bool good) {
    const std::scoped_lock lock(mutex_);
    told = good;
    changed_.notify_all();
  }
  bool wait(const std::optional<bool>& told) {
    std::unique_lock lock(mutex_);
    const bool answered = changed_.wait_for(lock, 60s, [&] { return told.has_value(); });
    EXPECT_TRUE(answered);
    if (!answered) std::abort();  // The answer would go to a frame that is gone.
    return *told;
  }

  SharedTimers& timers_;
  const unsigned cpu_ = first_cpus(1)->front();
  std::array<std::atomic<Loop*>, kLcores> loops_{};
  std::unique_ptr<Runtime> runtime_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

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
  Lcores lcores(*timers);
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
  Lcores lcores(*timers);
  ASSERT_TRUE(lcores.drain(1));
  for (const auto& timer : many) timer->schedule(MonotonicTime::read() + 1ms);
  EXPECT_TRUE(all_fire(many, 300));
  ASSERT_EQ(lcores.add(), 1U);
  for (const auto& timer : many) timer->schedule(MonotonicTime::read() + 1ms);
  EXPECT_TRUE(all_fire(many, 600));
}

TEST(SharedTimerLcores, TimersOfALcoreWhoseLoopHasEndedByItselfFireOnAnother) {
  const auto timers = make_timers(300);
  const auto many = make_many(*timers, 300);
  Lcores lcores(*timers);
  lcores.loop(0).stop();  // The first: whoever looks for a shard that runs must pass it by.
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
    Lcores lcores(*timers);
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
        const std::optional<unsigned> back = lcores.add();
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

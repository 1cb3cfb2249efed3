#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "shared_timer_world.h"

/// Eight threads that schedule, cancel, make and destroy shared timers, half of which turn, sleep,
/// drain and come back as lcores do. Every schedule must end exactly once, and none may be slept
/// through. The clock is a number that they share.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kLcores = 4;
constexpr unsigned kClients = 4;
constexpr unsigned kThreads = kLcores + kClients;
constexpr std::size_t kTimers = 64;
constexpr std::size_t kOwnTimers = 8;  ///< Beside those, of each thread, which it also destroys.
constexpr std::size_t kSlots = kTimers + kThreads * kOwnTimers;
constexpr std::uint64_t kOperationsPerRound = 2'500;  ///< Of each thread.

/// A timer and what has become of its schedules, as their callers were told.
struct Slot {
  class World* world = nullptr;
  SharedTimer timer;
  std::atomic<std::uint64_t> scheduled{0};
  std::atomic<std::uint64_t> replaced{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<std::uint64_t> fired{0};

  std::uint64_t ended() const { return replaced + cancelled + fired; }
};

class World {
 public:
  World() : slots_(kSlots) {
    for (Slot& slot : slots_) {
      slot.world = this;
      make(slot, 0);
    }
  }

  void run(std::uint64_t rounds) {
    rounds_ = rounds;
    std::vector<std::thread> threads;
    for (unsigned index = 0; index < kThreads; ++index) {
      threads.emplace_back([this, index] { index < kLcores ? lcore(index) : client(index); });
    }
    for (std::uint64_t round = 0; round < rounds && ok(); ++round) {
      begin_.arrive_and_wait();
      supervise();
      end_.arrive_and_wait();
      check_quiet();
      if ((round + 1) % 500 == 0) report(round + 1);
    }
    over_ = true;
    begin_.arrive_and_wait();
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] bool ok() const { return !failed_.load(); }
  [[nodiscard]] std::uint64_t drains() const { return drains_; }
  [[nodiscard]] SharedTimerStats stats() const { return timers_->stats(); }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  void fail(const char* what) {
    if (!failed_.exchange(true)) ADD_FAILURE() << what;
  }
  void report(std::uint64_t round) const {
    std::printf("# round %llu of %llu, %llu operations, %llu drains\n",
                static_cast<unsigned long long>(round), static_cast<unsigned long long>(rounds_),
                static_cast<unsigned long long>(operations_.load()),
                static_cast<unsigned long long>(drains_.load()));
    std::fflush(stdout);
  }

  static Instant instant(std::int64_t ms) { return Instant{std::chrono::milliseconds{ms}}; }

  void make(Slot& slot, std::uint64_t shard) {
    slot.timer = make_shared_timer(
        *timers_, static_cast<unsigned>(shard % kLcores),
        [](void* context) {
          Slot& fired = *static_cast<Slot*>(context);
          fired.world->on_fire(fired);
        },
        &slot);
  }

  void on_fire(Slot& slot) {
    slot.fired.fetch_add(1);
    if (slot.fired > slot.scheduled) fail("fired more often than scheduled");
    if (&slot >= &slots_[kTimers]) return;  // its handle may be changing just now
    const SharedTimerLook look = slot.timer.look();
    const bool early = look.deadline > instant(clock_.load());
    if (look.state == SharedTimerState::fired && early) fail("fired early");
  }

  // What every thread does.

  void operate(Random& choices, unsigned thread) {
    const bool own = choices.below(8) == 0;
    Slot& slot = own ? slots_[kTimers + thread * kOwnTimers + choices.below(kOwnTimers)]
                     : slots_[choices.below(kTimers)];
    const std::uint64_t what = choices.below(16);
    if (own && what == 0) {
      cancel(slot);
      slot.timer.reset();
      make(slot, choices.next());
    } else if (what < 6) {
      cancel(slot);
    } else {
      schedule(slot, any_deadline(choices));
    }
    if (choices.below(64) == 0) clock_.fetch_add(1);
    operations_.fetch_add(1, std::memory_order_relaxed);
  }

  void schedule(Slot& slot, Instant deadline) {
    slot.scheduled.fetch_add(1);
    if (slot.timer.schedule(deadline).replaced) slot.replaced.fetch_add(1);
  }
  void cancel(Slot& slot) {
    if (slot.timer.cancel()) slot.cancelled.fetch_add(1);
  }

  Instant any_deadline(Random& choices) {
    const std::int64_t now = clock_.load();
    switch (choices.below(16)) {
      case 0:
        return kNever;
      case 1:
        return instant(now + static_cast<std::int64_t>(choices.below(kHorizon)));
      case 2:
        return instant(now - 3);
      default:
        return instant(now + static_cast<std::int64_t>(choices.below(16)));
    }
  }

  void client(unsigned index) {
    Random choices(seed() + index);
    for (;;) {
      begin_.arrive_and_wait();
      if (over_) return;
      for (std::uint64_t done = 0; done < kOperationsPerRound; ++done) operate(choices, index);
      busy_.fetch_sub(1);
      end_.arrive_and_wait();
    }
  }

  // The lcores.

  struct Sleeper {
    std::atomic<bool> rung{false};
    static void wake(void* self) noexcept { static_cast<Sleeper*>(self)->rung.store(true); }
  };

  void lcore(unsigned index) {
    Random choices(seed() + index);
    SharedTimerShard& shard = timers_->shard(index);
    Sleeper sleeper;
    std::unique_ptr<TimingWheel> wheel;
    const auto start = [&] {
      wheel = std::make_unique<TimingWheel>(instant(clock_.load()));
      shard.attach(*wheel, {.wake = &Sleeper::wake, .context = &sleeper});
    };
    const auto stop = [&] {
      shard.drain();
      wheel.reset();
      drains_.fetch_add(1);
    };
    for (;;) {
      begin_.arrive_and_wait();
      if (over_) break;
      std::uint64_t left = kOperationsPerRound;
      while (left > 0 || !quiet_.load()) {
        for (std::uint64_t some = choices.below(20); left > 0 && some > 0; --some, --left) {
          operate(choices, index);
          if (left == 1) busy_.fetch_sub(1);
        }
        if (wheel == nullptr) {
          // At the end of a round all run, so that what is due fires.
          if (left == 0 || choices.below(8) == 0) start();
          std::this_thread::yield();
        } else if (left > 0 && choices.below(200) == 0) {
          stop();
        } else if (turn(shard, *wheel, choices) == 0 && choices.below(4) == 0) {
          sleep(shard, *wheel, sleeper, left > 0);
        }
      }
      end_.arrive_and_wait();
    }
    if (wheel != nullptr) stop();
  }

  std::size_t turn(SharedTimerShard& shard, TimingWheel& wheel, Random& choices) {
    const Instant now = instant(clock_.load());
    const std::size_t did = shard.poll(now, 1 + choices.below(32));
    return did + wheel.advance(now, 1 + choices.below(32));
  }

  /// As a loop parks: until it is rung, the wheel's next expiry, or it has other work.
  void sleep(SharedTimerShard& shard, TimingWheel& wheel, Sleeper& sleeper, bool other_work) {
    sleeper.rung.store(false);
    shard.announce_sleep();
    if (shard.poll(instant(clock_.load()), 32) == 0) {
      const Instant due = wheel.next_expiry();
      for (int looks = 0; !sleeper.rung.load() && instant(clock_.load()) < due; ++looks) {
        if (quiet_.load() || (other_work && looks == 3)) break;
        std::this_thread::yield();
      }
    }
    shard.wake_up();
  }

  // The supervisor.

  /// Waits for the end of a round. The lcores still turn and sleep, until `quiet_`.
  void supervise() {
    while (busy_.load() > 0) std::this_thread::yield();
    const auto now = [&] { return instant(clock_.load()); };
    wait_until([&](const SharedTimerLook& look) { return look.deadline > now(); },
               "a timer that is due was slept through");
    clock_.fetch_add(kHorizon + 16);
    wait_until([&](const SharedTimerLook& look) { return look.deadline == kNever; },
               "a timer was lost");
    for (Slot& slot : slots_) cancel(slot);
    quiet_ = true;
  }

  template <class Fine>
  void wait_until(Fine fine, const char* otherwise) {
    const auto bound = std::chrono::steady_clock::now() + 60s;
    for (Slot& slot : slots_) {
      for (;;) {
        const SharedTimerLook look = slot.timer.look();
        const bool pending =
            look.state == SharedTimerState::scheduled || look.state == SharedTimerState::migrating;
        if ((!pending || fine(look)) && !slot.timer.calling()) break;
        if (std::chrono::steady_clock::now() > bound) return fail(otherwise);
        std::this_thread::yield();
      }
    }
  }

  void check_quiet() {
    std::uint64_t scheduled = 0;
    for (const Slot& slot : slots_) {
      scheduled += slot.scheduled;
      if (slot.scheduled != slot.ended()) fail("a schedule that didn't end exactly once");
    }
    const SharedTimerStats stats = timers_->stats();
    if (stats.scheduled != scheduled) fail("stats: scheduled");
    if (stats.pending != 0) fail("stats: pending");
    quiet_ = false;
    busy_ = kThreads;
  }

  static constexpr std::int64_t kHorizon = 10'000;

  // A block that its handle has left waits for its shard's next turn, and for a drained one's heir.
  std::unique_ptr<SharedTimers> timers_ =
      make_shared_timers({.capacity = 100'000, .shards = kLcores});
  std::vector<Slot> slots_;
  std::atomic<std::int64_t> clock_{1'000'000};
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> drains_{0};
  std::atomic<unsigned> busy_{kThreads};  ///< Threads that haven't done this round's operations.
  std::atomic<bool> quiet_{false};
  std::atomic<bool> over_{false};
  std::atomic<bool> failed_{false};
  std::uint64_t rounds_ = 0;
  std::barrier<> begin_{kThreads + 1};
  std::barrier<> end_{kThreads + 1};
};

// 50 rounds of 20,000 operations: a campaign runs 5,000.
TEST(SharedTimerThreads, EveryScheduleEndsExactlyOnceAndNoneIsSleptThrough) {
  World world;
  const std::uint64_t rounds = scaled(50);
  world.run(rounds);
  const SharedTimerStats stats = world.stats();
  EXPECT_TRUE(world.ok());
  EXPECT_EQ(world.operations(), rounds * kThreads * kOperationsPerRound);
  EXPECT_EQ(stats.scheduled, stats.fired + stats.cancelled + stats.replaced);
  EXPECT_GE(world.drains(), 2 * rounds) << "hardly tested";
  EXPECT_GT(stats.fired, 0U);
  EXPECT_GT(stats.adopted, 0U);
  std::printf(
      "# %llu operations, %llu drains, fired %llu, cancelled %llu, replaced %llu, "
      "migrated %llu, adopted %llu (%llu late), stale %llu\n",
      static_cast<unsigned long long>(world.operations()),
      static_cast<unsigned long long>(world.drains()), static_cast<unsigned long long>(stats.fired),
      static_cast<unsigned long long>(stats.cancelled),
      static_cast<unsigned long long>(stats.replaced),
      static_cast<unsigned long long>(stats.migrated),
      static_cast<unsigned long long>(stats.adopted),
      static_cast<unsigned long long>(stats.adopted_late),
      static_cast<unsigned long long>(stats.stale));
}

}  // namespace
}  // namespace pinion::test

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "shared_timer_world.h"

/// Random operations on shared timers of several shards, against a list of deadlines. Shards sleep,
/// drain and come back; one that sleeps turns only when it is woken or its wheel says so.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

class Model {
 public:
  static constexpr unsigned kShards = 4;
  static constexpr std::size_t kTimers = 30;

  explicit Model(std::uint64_t seed) : choices_(seed) {
    for (unsigned index = 0; index < kShards; ++index) lcores_.emplace_back(timers_->shard(index));
    for (std::size_t index = 0; index < kTimers; ++index) {
      slots_.push_back(std::make_unique<Slot>(*this));
      make(*slots_.back());
    }
  }

  bool step() {
    ++steps_;
    switch (choices_.below(12)) {
      case 0:
        now_ = now_ + std::chrono::nanoseconds{choices_.below(3'000'000)};
        break;
      case 1:
        if (chance(10)) now_ = now_ + std::chrono::milliseconds{choices_.below(5'000)};
        break;
      case 2:
        turn(any_lcore());
        break;
      case 3:
        sleep(any_lcore());
        break;
      case 4:
        if (chance(5)) start_or_stop(any_lcore());
        break;
      case 5:
        settle();
        break;
      default:
        operate();
    }
    compare();
    return failure_.empty();
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] SharedTimerStats stats() const { return timers_->stats(); }

 private:
  struct Slot {
    explicit Slot(Model& owner) : model(owner) {}
    Model& model;
    SharedTimer timer;
    bool pending = false;
    Instant deadline = kNever;  ///< As it was asked for.
  };
  struct Lcore : FakeLcore {
    using FakeLcore::FakeLcore;
    bool asleep = false;
    int wakes_before = 0;
  };

  bool chance(std::uint64_t one_in) { return choices_.below(one_in) == 0; }
  Lcore& any_lcore() { return lcores_[choices_.below(kShards)]; }
  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  void make(Slot& slot) {
    slot.timer = make_shared_timer(
        *timers_, static_cast<unsigned>(choices_.below(kShards)),
        [](void* context) {
          Slot& fired = *static_cast<Slot*>(context);
          fired.model.on_fire(fired);
        },
        &slot);
    slot.pending = false;
  }

  void on_fire(Slot& slot) {
    require(slot.pending, "fired although it isn't pending");
    require(slot.deadline <= now_, "fired early");
    require(slot.timer.look().state == SharedTimerState::fired, "not in the state fired");
    slot.pending = false;
    ++fired_;
    while (chance(2)) operate();
  }

  Instant any_deadline() {
    switch (choices_.below(10)) {
      case 0:
        return kNever;
      case 1:
        return now_ - std::chrono::nanoseconds{choices_.below(5'000'000)};
      case 2:
        return now_ + std::chrono::milliseconds{choices_.below(100'000)};
      default:
        return now_ + std::chrono::nanoseconds{choices_.below(20'000'000)};
    }
  }

  void operate() {
    Slot& slot = *slots_[choices_.below(kTimers)];
    switch (choices_.below(8)) {
      case 0:
        slot.timer.reset();
        return make(slot);
      case 1:
      case 2:
        require(slot.timer.cancel() == slot.pending, "cancel: wrong answer");
        slot.pending = false;
        return;
      default:
        slot.deadline = any_deadline();
        require(slot.timer.schedule(slot.deadline).replaced == slot.pending,
                "schedule: wrong answer");
        slot.pending = true;
    }
  }

  void start_or_stop(Lcore& lcore) {
    if (!lcore.running()) return lcore.start(now_);
    lcore.stop();
    lcore.asleep = false;
  }

  std::size_t turn(Lcore& lcore) {
    if (!lcore.running()) return 0;
    if (lcore.asleep) {
      if (lcore.wakes() == lcore.wakes_before && lcore.wheel().next_expiry() > now_) return 0;
      lcore.asleep = false;
      lcore.shard().wake_up();
    }
    return lcore.turn(now_, chance(4) ? 1 + choices_.below(4) : kNoBudget);
  }

  /// As a loop parks.
  void sleep(Lcore& lcore) {
    if (!lcore.running() || lcore.asleep) return;
    lcore.wakes_before = lcore.wakes();
    lcore.shard().announce_sleep();
    lcore.asleep = lcore.shard().poll(now_, kNoBudget) == 0;
    if (!lcore.asleep) lcore.shard().wake_up();
  }

  /// Turns whoever turns until nothing is left to do: now everything that is due has fired.
  void settle() {
    std::size_t done = 1;
    while (done > 0) {
      const std::uint64_t before = fired_;
      done = 0;
      for (Lcore& lcore : lcores_) done += turn(lcore);
      done += fired_ - before;
    }
    const bool some_run = std::any_of(lcores_.begin(), lcores_.end(),
                                      [](const Lcore& lcore) { return lcore.running(); });
    if (!some_run) return;
    const Instant tick = TimingWheel::instant_of(TimingWheel::tick_before(now_));
    for (const auto& slot : slots_) {
      require(!slot->pending || slot->deadline > tick, "a timer that is due doesn't fire");
    }
    for (Lcore& lcore : lcores_) {
      if (lcore.running()) require(lcore.wheel().check().empty(), "the wheel's check()");
    }
  }

  void compare() {
    std::uint64_t pending = 0;
    for (const auto& slot : slots_) {
      if (slot->pending) ++pending;
      const SharedTimerState state = slot->timer.look().state;
      const bool waits =
          state == SharedTimerState::scheduled || state == SharedTimerState::migrating;
      require(waits == slot->pending, "look() differs");
    }
    const SharedTimerStats stats = timers_->stats();
    require(stats.pending == pending, "pending differs");
    require(stats.fired == fired_, "fired differs");
    require(stats.handles == kTimers, "handles differ");
    require(stats.adopted_late <= stats.adopted && stats.adopted <= stats.migrated,
            "adopted more than migrated");
  }

  Random choices_;
  Instant now_{1h};
  // Blocks that wait for their shard's next turn are beside those of the handles.
  std::unique_ptr<SharedTimers> timers_ =
      make_shared_timers({.capacity = 100'000, .shards = kShards});
  std::deque<Lcore> lcores_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::uint64_t fired_ = 0;
  std::uint64_t steps_ = 0;
  std::string failure_;
};

TEST(SharedTimerModel, FiresTheSameTimersAsAListOfDeadlinesWhateverDrainsAndSleeps) {
  SharedTimerStats sum;
  const std::uint64_t parts = scaled(20);
  for (std::uint64_t part = 0; part < parts; ++part) {
    Model model(seed() + part);
    for (int done = 0; done < 10'000; ++done) {
      ASSERT_TRUE(model.step()) << model.failure() << ", part " << part << ", step " << done;
    }
    const SharedTimerStats stats = model.stats();
    sum.fired += stats.fired;
    sum.cancelled += stats.cancelled;
    sum.replaced += stats.replaced;
    sum.adopted += stats.adopted;
    sum.adopted_late += stats.adopted_late;
    sum.stale += stats.stale;
  }
  for (const std::uint64_t count :
       {sum.fired, sum.cancelled, sum.replaced, sum.adopted, sum.adopted_late, sum.stale}) {
    EXPECT_GT(count, 10 * parts) << "hardly tested";
  }
}

}  // namespace
}  // namespace pinion::test

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pinion/timers/shared_timer.h>
#include <pinion/timers/shared_timers.h>
#include <pinion/timers/timing_wheel.h>

/// What the tests of shared timers share: shards that each have a wheel, and a clock set by hand.

namespace pinion::test {

inline std::unique_ptr<SharedTimers> make_shared_timers(SharedTimersOptions options) {
  auto timers = SharedTimers::create(options);
  if (!timers) {
    ADD_FAILURE() << to_string(timers.error());
    std::abort();
  }
  return std::move(*timers);
}

inline SharedTimer make_shared_timer(SharedTimers& timers, unsigned shard,
                                     SharedTimer::Callback callback, void* context) {
  auto timer = timers.make(shard, callback, context);
  if (!timer) {
    ADD_FAILURE() << "full";
    std::abort();
  }
  return std::move(*timer);
}

/// One lcore as far as shared timers go: a wheel that lives while the shard is attached.
class FakeLcore {
 public:
  explicit FakeLcore(SharedTimerShard& shard) : shard_(shard) {}
  FakeLcore(const FakeLcore&) = delete;
  FakeLcore& operator=(const FakeLcore&) = delete;
  ~FakeLcore() {
    if (running()) stop();
  }

  void start(Instant now) {
    wheel_ = std::make_unique<TimingWheel>(now);
    shard_.attach(*wheel_,
                  {.wake = [](void* self) noexcept { ++static_cast<FakeLcore*>(self)->wakes_; },
                   .context = this});
  }
  void stop() {
    shard_.drain();
    wheel_.reset();
  }
  [[nodiscard]] bool running() const { return wheel_ != nullptr; }

  /// As a loop's turn: messages, then the wheel. Returns how many messages there were.
  std::size_t turn(Instant now, std::size_t budget = kNoBudget) {
    const std::size_t done = shard_.poll(now, budget);
    wheel_->advance(now);
    return done;
  }

  [[nodiscard]] SharedTimerShard& shard() { return shard_; }
  [[nodiscard]] TimingWheel& wheel() { return *wheel_; }
  [[nodiscard]] int wakes() const { return wakes_; }

 private:
  SharedTimerShard& shard_;
  std::unique_ptr<TimingWheel> wheel_;
  int wakes_ = 0;
};

}  // namespace pinion::test

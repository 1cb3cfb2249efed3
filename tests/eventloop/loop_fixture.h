#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/timers/time_source.h>

/// What the loop's tests share.

namespace pinion::test {

/// A loop, or a failed test that says why there is none.
inline std::unique_ptr<Loop> make_loop(TimeSource& time, LoopOptions options = {}) {
  Result<std::unique_ptr<Loop>> loop = Loop::create(options, time);
  if (!loop) {
    ADD_FAILURE() << to_string(loop.error());
    std::abort();
  }
  return std::move(*loop);
}

/// A loop on virtual time, turned by hand: nothing sleeps, nothing depends on the machine.
class ManualLoop : public ::testing::Test {
 protected:
  static constexpr Instant kStart{std::chrono::hours{1}};

  void turns(int count) {
    for (int i = 0; i < count; ++i) loop->turn();
  }

  /// Moves the clock on in steps of at most `step`, with a turn after each.
  void pass(Delay duration, Delay step = std::chrono::milliseconds{1}) {
    const Instant end = saturating_add(time.now(), duration);
    while (time.now() < end) {
      time.set(std::min(end, saturating_add(time.now(), step)));
      loop->turn();
    }
    loop->turn();
  }

  /// Turns until there is nothing more to do at this time.
  void settle() {
    while (loop->turn() > 0) {
    }
  }

  /// Goes from timer to timer until the task has ended. False: it waits for something else.
  [[nodiscard]] bool run_to_end(TaskHandle task) {
    settle();
    while (!task.done() && loop->wheel().next_expiry() != kNever) {
      time.set(loop->wheel().next_expiry());
      settle();
    }
    return task.done();
  }

  /// Ends a task that works on the test's own variables, which die before the loop.
  void finish(TaskHandle task) {
    task.cancel();
    while (!task.done()) loop->turn();
  }

  ManualTime time{kStart};
  std::unique_ptr<Loop> loop = make_loop(time);
};

}  // namespace pinion::test

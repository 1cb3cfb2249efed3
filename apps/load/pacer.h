#pragma once

#include <coroutine>
#include <cstddef>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/poller.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/time.h>
#include <pinion/timers/timer_entry.h>
#include <pinion/timers/timing_wheel.h>

/// Sleeps for a load generator, exact to a microsecond: a second wheel with a finer tick beside the
/// loop's, driven by the loop as a poller. Close before a deadline the loop stays awake.
///
/// Ownership:  the caller's; it dies before its loop, with nobody waiting.
/// Threading:  the loop's thread.
/// Cost:       per turn one compare while nothing is due. The lcore spins for the last 2 ms before
///             each deadline.

namespace pinion::apps {

class Pacer final : public Poller {
 public:
  explicit Pacer(Loop& loop) : loop_(loop), wheel_(loop.fresh_now()), alarm_(&on_alarm) {
    loop_.add_poller(*this);
  }
  ~Pacer() override { loop_.remove_poller(*this); }

  class [[nodiscard]] Awaiter : public Wait, private TimerEntry {
   public:
    Awaiter(Pacer& pacer, Instant deadline) noexcept
        : Wait(&on_cancel), TimerEntry(&on_timer), pacer_(pacer), deadline_(deadline) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
      pacer_.wheel_.arm(*this, deadline_);
      begin(frame);
    }
    Wake await_resume() const noexcept { return wake_; }

   private:
    static void on_timer(TimerEntry& entry) { static_cast<Awaiter&>(entry).resume(); }
    static void on_cancel(Wait& wait) noexcept {
      auto& self = static_cast<Awaiter&>(wait);
      self.pacer_.wheel_.cancel(self);
      self.wake_ = Wake::cancelled;
      self.resume();
    }

    Pacer& pacer_;
    Instant deadline_;
    Wake wake_ = Wake::elapsed;
  };

  /// `co_await pacer.until(deadline)`
  Awaiter until(Instant deadline) noexcept { return {*this, deadline}; }

  std::size_t poll(Instant now, std::size_t budget) override { return wheel_.advance(now, budget); }

  ParkAnswer prepare_park() override {
    const Instant next = wheel_.next_expiry();
    if (next == kNever) return ParkAnswer::elsewhere();
    const Instant wake_at = saturating_add(next, -kAwake);
    if (wake_at <= loop_.now()) return ParkAnswer::refuse();
    loop_.wheel().arm(alarm_, wake_at);
    return ParkAnswer::elsewhere();
  }

  const char* name() const override { return "pacer"; }

 private:
  static constexpr std::chrono::milliseconds kAwake{2};

  /// Only wakes the loop: the next poll does the work.
  static void on_alarm(TimerEntry& /*entry*/) {}

  Loop& loop_;
  BasicTimingWheel<1'000> wheel_;
  TimerEntry alarm_;
};

}  // namespace pinion::apps

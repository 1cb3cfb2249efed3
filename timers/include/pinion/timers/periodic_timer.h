#pragma once

#include <algorithm>
#include <cstdint>

#include <pinion/lib/assert.h>
#include <pinion/lib/time.h>
#include <pinion/timers/timing_wheel.h>

/// A timer that fires once per period, on any BasicTimingWheel.
///
/// Ownership:  the caller's, and it doesn't move; it stops when it dies. The wheel outlives the
///             started timer.
/// Threading:  that of its wheel.
/// Cost:       one arm() per firing; no allocation. A replayed period that is a small part of the
///             tick makes long calls of advance(): at least a tick's worth of callbacks in each.
/// Drift:      none: each deadline is the one before plus the period, in nanoseconds, whatever the
///             tick. Each firing is late by its rounding alone.
/// Callbacks:  may stop, start or destroy the timer, its wheel too.
///
///   struct Report : pinion::PeriodicTimer {
///     Report() : PeriodicTimer(&Report::on_period) {}
///     static void on_period(PeriodicTimer& timer) { static_cast<Report&>(timer).print(); }
///   };
///   report.start(wheel, now, 1s, pinion::Missed::skip);

namespace pinion {

/// What becomes of the periods that pass between two calls of advance().
enum class Missed : std::uint8_t {
  skip,    ///< One callback for all of them; missed() says how many there were beside it.
  replay,  ///< One callback for each, in order, at most replays_at_once() per advance().
};

template <class Wheel>
class BasicPeriodicTimer : private TimerEntry {
 public:
  using Callback = void (*)(BasicPeriodicTimer& timer);

  /// The least that replays_at_once() is.
  static constexpr std::int64_t kReplaysAtOnce = 64;

  explicit BasicPeriodicTimer(Callback callback) noexcept
      : TimerEntry(&BasicPeriodicTimer::on_fire), callback_(callback) {}
  ~BasicPeriodicTimer() {
    if (destroyed_ != nullptr) *destroyed_ = true;
  }

  /// Fires first at `now` + `period`, then at every period after that. The period is more than 0. A
  /// started timer begins anew, due() and missed() too.
  void start(Wheel& wheel, Instant now, Delay period, Missed missed) noexcept {
    PINION_ASSERT(period > Delay{});
    stop();
    wheel_ = &wheel;
    period_ = period;
    policy_ = missed;
    due_ = kNever;
    missed_ = 0;
    next_ = saturating_add(now, period);
    wheel.arm(*this, next_);
  }

  /// Doesn't fire any more. False when it wasn't started.
  bool stop() noexcept {
    ++starts_;
    return armed() && wheel_->cancel(*this);
  }

  /// Also in the callback; no longer once its wheel has died.
  [[nodiscard]] bool started() const noexcept { return armed(); }
  [[nodiscard]] Delay period() const noexcept { return period_; }

  /// How many periods are replayed in one firing; what is left follows in the next tick. Twice as
  /// many as a tick has, at least, so that it catches up. The budget of advance() counts them as
  /// one.
  [[nodiscard]] std::int64_t replays_at_once() const noexcept {
    const std::int64_t per_tick = Wheel::kTickNanoseconds / period_.count() + 1;
    return std::max(kReplaysAtOnce, 2 * per_tick);
  }

  /// In the callback: the deadline that is being served.
  [[nodiscard]] Instant due() const noexcept { return due_; }

  /// In the callback: how many periods before due() were skipped.
  [[nodiscard]] std::int64_t missed() const noexcept { return missed_; }

  /// The next deadline; kNever when there is none.
  [[nodiscard]] Instant next() const noexcept { return started() ? next_ : kNever; }

 private:
  static void on_fire(TimerEntry& entry) {
    auto& timer = static_cast<BasicPeriodicTimer&>(entry);
    if (timer.policy_ == Missed::skip) {
      timer.serve_latest();
    } else {
      timer.replay();
    }
  }

  /// The wheel rounds its now down to a tick and the deadline up, so that this one is due.
  void serve_latest() {
    const Delay late = saturating_sub(wheel_->now(), next_);
    missed_ = late.count() / period_.count();
    due_ = next_ + period_.to_nanoseconds() * missed_;
    next_ = saturating_add(due_, period_);
    wheel_->arm(*this, next_);
    callback_(*this);  // the timer may be gone
  }

  void replay() {
    bool destroyed = false;
    bool* const outer = destroyed_;
    destroyed_ = &destroyed;
    const std::uint64_t start = starts_;
    for (std::int64_t left = replays_at_once(); left > 0; --left) {
      due_ = next_;
      next_ = saturating_add(next_, period_);
      wheel_->arm(*this, next_);
      callback_(*this);
      if (destroyed) {
        if (outer != nullptr) *outer = true;
        return;
      }
      if (starts_ != start || !armed() || next_ > wheel_->now()) break;
    }
    destroyed_ = outer;
  }

  Callback callback_;
  Wheel* wheel_ = nullptr;  ///< Where it is armed; means nothing when it isn't.
  Delay period_ = std::chrono::nanoseconds{1};
  Instant next_ = kNever;
  Instant due_ = kNever;
  std::int64_t missed_ = 0;
  std::uint64_t starts_ = 0;   ///< Tells replay() that a callback stopped it or started it anew.
  bool* destroyed_ = nullptr;  ///< Set while replaying: tells that frame that the timer is gone.
  Missed policy_ = Missed::skip;
};

using PeriodicTimer = BasicPeriodicTimer<TimingWheel>;

}  // namespace pinion

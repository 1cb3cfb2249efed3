#pragma once

#include <cstdint>
#include <utility>

#include <pinion/lib/export.h>
#include <pinion/lib/time.h>

/// A timer that any thread may schedule and cancel at any moment, and that survives the drain of
/// the lcore that it fires on.
///
///   auto timer = timers->make(0, &on_timeout, &session);  // of SharedTimers (shared_timers.h)
///   timer->schedule(deadline);                            // here or on any other thread
///   if (timer->cancel()) …                                // on_timeout() won't run
///
/// Ownership:  the handle owns a control block of its SharedTimers, which outlives it. Destroying
///             the handle cancels and gives the block back, without waiting: the lcore that the
///             timer fires on unlinks it at its next turn. The context is the caller's.
/// Threading:  schedule(), cancel(), look() and calling() from any number of threads at once, in
///             the callback too. Moving and destroying the handle is for one thread, when no other
///             uses it any more; its own callback may do it.
/// Callback:   on the thread of the lcore that serves the timer at that moment: the shard that it
///             was made for, or the one that has adopted it since. It may schedule, cancel and
///             destroy this timer and others.
/// Outcomes:   each schedule ends once: it fires, or is cancelled, or is replaced by the next. The
///             one compare-exchange that does it decides, so of a cancel() that races with the
///             firing exactly one wins. Never early; and when no shard runs, late: it waits.
/// Cost:       no lock, no allocation, no wheel of another thread is touched. schedule() to a later
///             deadline and both calls on a timer that isn't linked are some locked instructions;
///             an earlier deadline and cancel() also leave a message for the lcore, at most one per
///             timer, and only an earlier deadline wakes it, with one system call per sleep.
/// Rounding:   a deadline goes up to the wheel's tick, 1 ms. What is beyond 2^42 - 2 ticks (139
///             years) is never: scheduled, but it doesn't fire.

namespace pinion {

class SharedTimers;

namespace detail {
struct SharedTimerBlock;
}

enum class SharedTimerState : std::uint8_t {
  cancelled,  ///< By cancel(), or never scheduled.
  scheduled,  ///< It waits for its deadline.
  fired,      ///< The callback has been called, or is about to be.
  migrating,  ///< It waits for a shard that serves it; cancel() and schedule() work as ever.
};

/// What schedule() tells.
struct Scheduled {
  std::uint32_t generation;  ///< The number of this schedule: look() shows it until the next one.
  bool replaced;             ///< The schedule before was pending, and won't fire any more.
};

/// A timer at one moment.
struct SharedTimerLook {
  SharedTimerState state;
  std::uint32_t generation;  ///< Counts schedules, below 2^20; wraps.
  Instant deadline;          ///< Of the last schedule, rounded up; kNever for never.
};

class PINION_EXPORT SharedTimer {
 public:
  using Callback = void (*)(void* context);

  /// No timer: only to be assigned to and destroyed.
  SharedTimer() noexcept = default;
  SharedTimer(SharedTimer&& other) noexcept
      : timers_(std::exchange(other.timers_, nullptr)),
        block_(std::exchange(other.block_, nullptr)) {}
  SharedTimer& operator=(SharedTimer&& other) noexcept {
    SharedTimer taken(std::move(other));
    std::swap(timers_, taken.timers_);
    std::swap(block_, taken.block_);
    return *this;
  }
  SharedTimer(const SharedTimer&) = delete;
  SharedTimer& operator=(const SharedTimer&) = delete;
  ~SharedTimer() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return block_ != nullptr; }

  /// Lets it fire at `deadline`, rounded up to a tick, in place of a schedule that is pending. One
  /// that has passed fires at the lcore's next turn.
  Scheduled schedule(Instant deadline) noexcept;

  /// True: the schedule that was pending has ended, and won't call the callback. False: nothing was
  /// pending. In both cases the callback may still be running, or about to be called, for a
  /// schedule that has fired before: see calling().
  bool cancel() noexcept;

  /// How it stands, or stood a moment ago.
  [[nodiscard]] SharedTimerLook look() const noexcept;

  /// Whether its callback runs now, or is about to. Who wants to free the context sees to it that
  /// nobody schedules any more, the callback included, calls cancel(), and whatever that says waits
  /// until this is false: then the callback has returned, what it wrote is visible, and it won't be
  /// called again. In the callback it is true.
  [[nodiscard]] bool calling() const noexcept;

  /// As destroying it does.
  void reset() noexcept;

 private:
  friend class SharedTimers;
  SharedTimer(SharedTimers& timers, detail::SharedTimerBlock& block) noexcept
      : timers_(&timers), block_(&block) {}

  SharedTimers* timers_ = nullptr;
  detail::SharedTimerBlock* block_ = nullptr;
};

}  // namespace pinion

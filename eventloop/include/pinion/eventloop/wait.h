#pragma once

#include <coroutine>
#include <cstdint>

#include <pinion/eventloop/task.h>
#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/timers/time_source.h>
#include <pinion/timers/timing_wheel.h>

/// Waiting inside a task: sleep_for, sleep_until, yield, maybe_yield, and the base of awaiters.
///
///   const pinion::Wake wake = co_await pinion::sleep_for(10ms);
///   if (wake == pinion::Wake::cancelled) co_return;
///
/// Ownership:  an awaiter lives on the frame of the task that waits.
/// Threading:  the loop's thread.
/// Cost:       no allocation; a sleep keeps its timer entry in the awaiter. maybe_yield() that goes
///             on: 7 instructions, of which one reads the CPU's counter.
/// Errors:     none: a wait ends because of what it waited for, or because its task is cancelled.
///
/// To write an awaiter, derive from Wait, start the operation in await_suspend and then call
/// begin(); whatever ends the operation calls resume(), once. The cancel hook asks the operation to
/// end: a timer at once (hook cancels and calls resume()), an operation of the ring by
/// Ring::cancel(), and its last completion calls resume(). So a frame is never given up while the
/// kernel uses it.

namespace pinion {

class Wait {
 public:
  using CancelHook = void (*)(Wait&) noexcept;

  explicit Wait(CancelHook cancel) noexcept : cancel_(cancel) {}
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait() {
    if (promise_ != nullptr) abandon();
  }

  /// Whether a task stands in this wait.
  [[nodiscard]] bool waiting() const noexcept { return promise_ != nullptr; }

 protected:
  /// The last thing that await_suspend does. When the task was cancelled before, the cancel hook is
  /// called at once.
  template <class Promise>
  void begin(std::coroutine_handle<Promise> frame) noexcept {
    begin(static_cast<detail::PromiseBase&>(frame.promise()));
  }
  PINION_EXPORT void begin(detail::PromiseBase& promise) noexcept;

  /// Ends the wait: the task goes to the ready list.
  PINION_EXPORT void resume() noexcept;

  /// The same, for a wait that the end of a task ends: the task that waited goes on in its place.
  PINION_EXPORT void resume_at_once() noexcept;

  /// The loop of a frame that is about to wait.
  [[nodiscard]] static Loop& loop_of(const detail::PromiseBase& promise) noexcept {
    return *promise.context->queue->loop;
  }

 private:
  friend class Loop;
  friend class TaskHandle;
  PINION_EXPORT void abandon() noexcept;

  CancelHook cancel_;
  detail::PromiseBase* promise_ = nullptr;
};

/// How a wait without a result of its own ended.
enum class Wake : std::uint8_t { elapsed, cancelled };

class [[nodiscard]] SleepAwaiter : public Wait, private TimerEntry {
 public:
  explicit SleepAwaiter(Delay delay) noexcept
      : Wait(&on_cancel), TimerEntry(&on_timer), delay_(delay), relative_(true) {}
  explicit SleepAwaiter(Instant deadline) noexcept
      : Wait(&on_cancel), TimerEntry(&on_timer), deadline_(deadline) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    start(frame.promise());
  }
  Wake await_resume() const noexcept { return wake_; }

 private:
  PINION_EXPORT void start(detail::PromiseBase& promise) noexcept;
  PINION_EXPORT static void on_timer(TimerEntry& entry) noexcept;
  PINION_EXPORT static void on_cancel(Wait& wait) noexcept;

  Delay delay_;
  Instant deadline_{};
  bool relative_ = false;
  Wake wake_ = Wake::elapsed;
};

namespace detail {

/// Up to which value of the CPU's counter the task that runs on this thread may go on without
/// looking whether others wait; 0: it has to look now.
extern PINION_EXPORT constinit thread_local std::uint64_t go_on_until
    __attribute__((tls_model("initial-exec")));

/// Whether something waits that the running task holds up. If not, go_on_until is set anew.
[[nodiscard]] PINION_EXPORT bool must_yield() noexcept;

}  // namespace detail

/// It stands in no Wait, since it is ready as soon as it has suspended.
class [[nodiscard]] YieldAwaiter {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    wake_ = start(frame.promise());
  }
  Wake await_resume() const noexcept { return wake_; }

 private:
  PINION_EXPORT static Wake start(detail::PromiseBase& promise) noexcept;

  Wake wake_ = Wake::elapsed;
};

class [[nodiscard]] MaybeYieldAwaiter : public YieldAwaiter {
 public:
  [[nodiscard]] bool await_ready() const noexcept {
    return TscTime::counter() < detail::go_on_until || !detail::must_yield();
  }
};

/// Waits until at least `delay` has passed since this call, by a clock reading of this resumption.
/// A delay of zero or less lets the other ready tasks run, as yield() does.
inline SleepAwaiter sleep_for(Delay delay) noexcept {
  return SleepAwaiter(delay);
}

/// Waits until `deadline`; for one in the past as yield() does.
inline SleepAwaiter sleep_until(Instant deadline) noexcept {
  return SleepAwaiter(deadline);
}

/// Lets the other ready tasks, the timers and the pollers run; goes on in the next turn.
inline YieldAwaiter yield() noexcept {
  return YieldAwaiter();
}

/// yield(), if the task holds somebody up: when the tasks of this turn have run for
/// LoopOptions::task_slice, a timer is due, a completion, a message or a request to stop is there,
/// or another group of tasks comes first (task_group.h). Otherwise it goes on at once. For long
/// computations: call it every few microseconds of work. On a clock other than TscTime each call
/// reads that clock.
inline MaybeYieldAwaiter maybe_yield() noexcept {
  return {};
}

/// Whether the running task has been cancelled. False outside a task.
[[nodiscard]] inline bool cancelled() noexcept {
  return detail::running_task != nullptr && detail::running_task->cancel_requested;
}

}  // namespace pinion

#pragma once

#include <coroutine>
#include <cstdint>

#include <pinion/eventloop/task.h>
#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/timers/timing_wheel.h>

/// Waiting inside a task: sleep_for, sleep_until, yield, and the base of every awaiter.
///
///   const pinion::Wake wake = co_await pinion::sleep_for(10ms);
///   if (wake == pinion::Wake::cancelled) co_return;
///
/// Ownership:  an awaiter lives on the frame of the task that waits.
/// Threading:  the loop's thread.
/// Cost:       no allocation; a sleep keeps its timer entry in the awaiter.
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

  /// The loop of a frame that is about to wait.
  [[nodiscard]] static Loop& loop_of(const detail::PromiseBase& promise) noexcept {
    return *promise.context->loop;
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

class [[nodiscard]] YieldAwaiter : public Wait {
 public:
  YieldAwaiter() noexcept : Wait(&on_cancel) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    begin(frame);
    if (waiting()) resume();
  }
  Wake await_resume() const noexcept { return wake_; }

 private:
  PINION_EXPORT static void on_cancel(Wait& wait) noexcept;

  Wake wake_ = Wake::elapsed;
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

/// Whether the running task has been cancelled. False outside a task.
[[nodiscard]] PINION_EXPORT bool cancelled() noexcept;

}  // namespace pinion

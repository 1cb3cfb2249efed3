#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/message.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/lib/list.h>
#include <tl/expected.hpp>

/// Calls from a task to another loop: a function runs there, and its result comes back here.
///
///   pinion::Task<> look_up(pinion::Loop& owner, Table& table, int key, int& value) {
///     const pinion::CallResult<int> found =
///         co_await pinion::on(owner, [&table, key] { return table.find(key); });
///     if (found) value = *found;  // Otherwise nobody has looked: found.error() says why.
///   }
///
/// A lane bounds how many calls to one loop are in flight:
///
///   pinion::CallLane lane(owner, 64);
///   const auto found = co_await lane.on([&] { return table.find(key); });  // waits for its turn
///   const auto tried = co_await lane.try_on([&] { return table.find(key); });  // or `full`
///
/// Ownership:  the call, the function and its result lie on the frame of the task that waits. What
///             the function refers to must live until the wait ends. A lane belongs to one loop's
///             tasks and outlives their calls.
/// Threading:  the function runs on the other loop's thread, as a message handler does: briefly.
///             What it wrote is seen by the task, and what the task wrote before by it. The result
///             is made there and moved here.
/// Again:      `auto call = lane.try_on(…)` is made as often as it is awaited, one after the other.
/// Own loop:   the function runs at once, as an ordinary call does, and takes no place in a lane.
/// Order:      calls of one loop to another run in the order in which they were made; those that
///             wait for their turn in a lane, first come, first served.
/// Cost:       two messages, and two locked instructions at the gate of the called loop. Nothing is
///             allocated.
/// Cancelled:  a task that was cancelled before calls nobody: `cancelled`; nor does one that is
///             cancelled while it waits in a lane. A call that is under way can't be taken back:
///             the wait goes on until the other loop has answered, and gives that answer;
///             cancelled() tells about the rest. So with_deadline() around a call is as late as the
///             other loop.
/// Full:       any number of calls may be in flight, one for each task. A lane of N lets N; further
///             tasks wait on their own frames, and try_on() says `full`.
/// Errors:     a lane that tasks of two loops use is refused by an assertion. An exception that
///             leaves the function ends the process with a message.
/// End:        calls to a loop are run until its run() ends, also while it winds down. What it has
///             not run by then gets `ended`, and so does at once what comes later, until run() is
///             called again. A loop that has never run, or that only turns by hand, answers when it
///             turns, or dies on its thread; once that thread has ended, nobody answers for it.
///             A loop that goes down waits for the answers to its own calls before it destroys the
///             tasks. It must not die without them (asserted); those that are late, after
///             LoopOptions::wind_down, are reported on the log. Runtime sees to that: its lcores
///             live until every one has ended. Elsewhere let the called loop end first.
///
/// GCC 12.2:   the function must be trivially destructible: a lambda that captures references,
///             pointers and numbers; or name it and hand in the name, then it is called where it
///             lies.

namespace pinion {

/// Why a call has no result: the function has not run.
enum class CallError : std::uint8_t {
  ended,      ///< The run of the other loop has ended.
  cancelled,  ///< The task was cancelled before the call was under way.
  full,       ///< As many calls as the lane lets are in flight.
};

template <class T>
using CallResult = tl::expected<T, CallError>;

class CallLane;

namespace detail {

/// A call, whatever its function. It is linked while it waits in a lane.
class CallBase : public Wait, protected Message, public ListNode {
 public:
  CallBase(const CallBase&) = delete;
  CallBase& operator=(const CallBase&) = delete;

 protected:
  enum class IfFull : std::uint8_t { wait, refuse };

  CallBase(Handler handler, Loop& target, CallLane* lane, IfFull if_full) noexcept
      : Wait(&on_cancel), Message(handler), target_(&target), lane_(lane), if_full_(if_full) {}
  ~CallBase() { PINION_ASSERT(state_ != State::in_flight); }

  /// Whether the function is to be called right here.
  [[nodiscard]] bool is_for(const PromiseBase& promise) const noexcept {
    return &loop_of(promise) == target_ && !promise.context->cancel_requested;
  }

  /// Forgets how it ended when it was awaited before.
  void renew() noexcept {
    PINION_ASSERT(state_ == State::here);
    answered_ = false;
    error_.reset();
  }

  /// The last thing that await_suspend does, and what it returns.
  PINION_EXPORT bool start(PromiseBase& promise) noexcept;

  // The handler: on the target's thread first, then on the caller's.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// Whether the function may run.
  [[nodiscard]] PINION_EXPORT bool admitted() noexcept;
  /// The last thing that is done over there.
  PINION_EXPORT void answer() noexcept;
  PINION_EXPORT void finish() noexcept;

  [[nodiscard]] const std::optional<CallError>& error() const noexcept { return error_; }

 private:
  friend class pinion::CallLane;
  enum class State : std::uint8_t { here, in_flight };

  PINION_EXPORT static void on_cancel(Wait& wait) noexcept;
  void launch() noexcept;
  void give_up(CallError error) noexcept;

  Loop* target_;
  CallLane* lane_;
  Loop* home_ = nullptr;
  IfFull if_full_;
  State state_ = State::here;
  bool answered_ = false;
  std::optional<CallError> error_;
};

/// What becomes of a result until the task goes on.
template <class T>
class CallValue {
 public:
  static_assert(std::is_nothrow_move_constructible_v<T>, "the result is moved between loops");

  template <class F>
  void run(F& function) {
    value_.emplace(function());
  }
  [[nodiscard]] CallResult<T> take() noexcept { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class CallValue<void> {
 public:
  template <class F>
  void run(F& function) {
    function();
  }
  [[nodiscard]] static CallResult<void> take() noexcept { return {}; }
};

}  // namespace detail

/// `co_await on(…)`, `lane.on(…)` and `lane.try_on(…)`. F is a reference when the function has a
/// name.
template <class F>
class [[nodiscard]] CallAwaiter final : public detail::CallBase {
  using Function = std::remove_reference_t<F>;
  using Value = std::invoke_result_t<Function&>;
  static_assert(std::is_trivially_destructible_v<F>,
                "GCC 12 may destroy it twice: name the function and hand in the name");
  static_assert(!std::is_reference_v<Value>, "return a pointer");

 public:
  [[nodiscard]] static bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) {
    renew();
    if (is_for(frame.promise())) {
      value_.run(function_);
      return false;
    }
    return start(frame.promise());
  }
  CallResult<Value> await_resume() noexcept {
    if (error()) return tl::unexpected(*error());
    return value_.take();
  }

 private:
  friend class pinion::CallLane;
  template <class G>
  friend CallAwaiter<G> on(Loop& target, G&& function) noexcept;

  CallAwaiter(Loop& target, CallLane* lane, IfFull if_full, F&& function) noexcept
      : CallBase(&on_message, target, lane, if_full), function_(std::forward<F>(function)) {}

  static void on_message(Message& message) {
    CallAwaiter& self = static_cast<CallAwaiter&>(message);
    if (self.answered()) {
      self.finish();
      return;
    }
    if (self.admitted()) self.value_.run(self.function_);
    self.answer();
  }

  F function_;
  detail::CallValue<Value> value_;
};

/// Runs `function()` on `target`'s thread and gives its result.
template <class F>
CallAwaiter<F> on(Loop& target, F&& function) noexcept {
  return CallAwaiter<F>(target, nullptr, CallAwaiter<F>::IfFull::wait, std::forward<F>(function));
}

/// A bound on the calls to one loop that are in flight.
class CallLane {
 public:
  /// At most `limit` calls, at least 1.
  CallLane(Loop& target, std::size_t limit) noexcept : target_(target), free_(limit) {
    PINION_ASSERT(limit > 0);
  }
  CallLane(const CallLane&) = delete;
  CallLane& operator=(const CallLane&) = delete;
  ~CallLane() {
    PINION_ASSERT(in_flight_ == 0);
    PINION_ASSERT(waiting_.empty());
  }

  /// on(), when its turn has come.
  template <class F>
  CallAwaiter<F> on(F&& function) noexcept {
    return CallAwaiter<F>(target_, this, CallAwaiter<F>::IfFull::wait, std::forward<F>(function));
  }

  /// on(), or `full` at once when it would have to wait.
  template <class F>
  CallAwaiter<F> try_on(F&& function) noexcept {
    return CallAwaiter<F>(target_, this, CallAwaiter<F>::IfFull::refuse, std::forward<F>(function));
  }

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }

 private:
  friend class detail::CallBase;

  /// Before a task of `loop` uses it. Its places and its queue are that thread's.
  void claim(const Loop& loop) noexcept {
    if (home_ == nullptr) home_ = &loop;
    const bool lane_is_used_from_one_loop = home_ == &loop;
    PINION_ASSERT(lane_is_used_from_one_loop);
  }

  /// Takes a place. False: there is none, or others were here before.
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept;

  Loop& target_;
  const Loop* home_ = nullptr;  // Whose tasks call through it.
  std::size_t free_;
  std::size_t in_flight_ = 0;
  bool leaving_ = false;
  List<detail::CallBase> waiting_;
};

}  // namespace pinion

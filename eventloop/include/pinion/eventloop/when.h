#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <pinion/eventloop/task.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/export.h>
#include <pinion/lib/list.h>
#include <pinion/lib/time.h>
#include <pinion/timers/timing_wheel.h>
#include <tl/expected.hpp>

/// Tasks that run side by side for another one: all of them, the first of them, or one until a
/// deadline.
///
///   const auto both = co_await pinion::when_all(fetch(a), fetch(b));
///   if (both) use(std::get<0>(*both), std::get<1>(*both));
///
///   const auto reply = co_await pinion::with_deadline(5s, exchange(conn));
///   if (!reply) co_return;  // TaskFailure::deadline, or refused
///
/// Ownership:  a child belongs to the expression that awaits it, or stays where it lies when a span
///             of tasks is given. No child outlives the wait: when_any() and with_deadline() cancel
///             what they don't wait for any longer, and then wait for its end. A child that ignores
///             its cancellation is waited for.
/// Threading:  children run on the loop of the task that waits, each as a task of its own.
/// Cost:       per child its frame, and a context out of the loop's slab; nothing else is
///             allocated. Children start at once, in order, and the task that waited goes on as
///             soon as the last has ended, within the same turn as a rule.
/// Cancelled:  a child is cancelled when the task that waits for it is; cancelled() in a child
///             tells about both. What a cancelled child returns is its result like any other.
/// Full:       either all children start, or none: with an empty task among them (there was no
///             memory for its frame), or no room for one under LoopOptions::max_tasks, the answer
///             is `refused`, and none has run: they are destroyed, or stay where they lie, to be
///             handed in again.
/// Errors:     a task that was started before is refused by an assertion. An exception that leaves
///             a child ends the process with a message.
/// End:        when the loop destroys a task that waits here, its children go with it.

namespace pinion {

/// Why there is no result.
enum class TaskFailure : std::uint8_t {
  refused,   ///< There was no room for the children: none has run.
  deadline,  ///< The deadline passed before the task had ended. It has ended since.
};

template <class T>
using TaskResult = tl::expected<T, TaskFailure>;

/// What a child's result is in a tuple: nothing has a value, too.
template <class T>
using TaskValue = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// How when_any() ended. No result is lost: those that ended later, cancelled as they were, have
/// theirs, too, such as the bytes that a read had got already.
template <class... Ts>
struct AnyOf {
  std::size_t first = 0;  ///< Which ended first, from 0.
  std::tuple<TaskValue<Ts>...> results;
};

namespace detail {

/// What waits for children, whatever their types: it links their contexts and counts them out.
class ChildGroup : public Wait {
 public:
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;

 protected:
  enum class Until : std::uint8_t { all, first };
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  explicit ChildGroup(Until until) noexcept : Wait(&on_cancel), until_(until) {}
  PINION_EXPORT ~ChildGroup();

  /// Takes one child more, before start().
  template <class T>
  void add(PromiseBase& parent, Task<T>& task) noexcept {
    add(parent, task.promise_);
  }

  /// The last thing that await_suspend does, and what it returns: false when a child was refused.
  PINION_EXPORT bool start(PromiseBase& parent) noexcept;

  /// Asks those that haven't ended to end.
  PINION_EXPORT void cancel_children() noexcept;

  [[nodiscard]] bool refused() const noexcept { return refused_; }
  [[nodiscard]] std::size_t first() const noexcept { return first_; }
  [[nodiscard]] bool all_ended() const noexcept { return children_.empty(); }

  template <class T>
  static TaskValue<T> result_of(Task<T>& task) {
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return task.take();
    }
  }

 private:
  friend class pinion::Loop;

  PINION_EXPORT void add(PromiseBase& parent, PromiseBase* child) noexcept;
  void on_end(TaskContext& child) noexcept;
  PINION_EXPORT static void on_cancel(Wait& wait) noexcept;

  List<TaskContext, Living> children_;  // Those that haven't ended.
  std::uint32_t added_ = 0;
  std::uint32_t first_ = kNone;
  Until until_;
  bool refused_ = false;
};

/// `co_await when_all(…)` and `co_await when_any(…)` of tasks of any types.
template <class... Ts>
class TupleGroup : public ChildGroup {
 public:
  TupleGroup(Until until, Task<Ts>&&... tasks) noexcept
      : ChildGroup(until), tasks_(std::move(tasks)...) {}

  [[nodiscard]] static bool await_ready() noexcept { return sizeof...(Ts) == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    PromiseBase& parent = frame.promise();
    std::apply([&](Task<Ts>&... each) { (add(parent, each), ...); }, tasks_);
    return start(parent);
  }

 protected:
  std::tuple<TaskValue<Ts>...> results() {
    return std::apply(
        [](Task<Ts>&... each) { return std::tuple<TaskValue<Ts>...>(result_of(each)...); }, tasks_);
  }

 private:
  std::tuple<Task<Ts>...> tasks_;
};

/// The same of tasks of one type that stay where they are.
template <class T>
class SpanGroup : public ChildGroup {
 public:
  SpanGroup(Until until, std::span<Task<T>> tasks) noexcept : ChildGroup(until), tasks_(tasks) {}
  ~SpanGroup() {
    // The frame dies while it waits: what runs for it goes first.
    for (std::size_t i = 0; i < tasks_.size() && waiting(); ++i) tasks_[i] = Task<T>();
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    for (Task<T>& task : tasks_) add(frame.promise(), task);
    return start(frame.promise());
  }

 protected:
  [[nodiscard]] bool none() const noexcept { return tasks_.empty(); }

 private:
  std::span<Task<T>> tasks_;
};

/// A child and the deadline that ends it.
class DeadlineGroup : public ChildGroup, private TimerEntry {
 protected:
  explicit DeadlineGroup(Delay delay) noexcept
      : ChildGroup(Until::all), TimerEntry(&on_timer), delay_(delay), relative_(true) {}
  explicit DeadlineGroup(Instant deadline) noexcept
      : ChildGroup(Until::all), TimerEntry(&on_timer), deadline_(deadline) {}

  PINION_EXPORT bool start_until_deadline(PromiseBase& parent) noexcept;

  [[nodiscard]] bool expired() const noexcept { return expired_; }

 private:
  PINION_EXPORT static void on_timer(TimerEntry& entry) noexcept;
  void expire() noexcept;

  Delay delay_;
  Instant deadline_{};
  bool relative_ = false;
  bool expired_ = false;
};

}  // namespace detail

template <class... Ts>
class [[nodiscard]] WhenAllAwaiter final : public detail::TupleGroup<Ts...> {
 public:
  explicit WhenAllAwaiter(Task<Ts>&&... tasks) noexcept
      : detail::TupleGroup<Ts...>(detail::ChildGroup::Until::all, std::move(tasks)...) {}

  TaskResult<std::tuple<TaskValue<Ts>...>> await_resume() {
    if (this->refused()) return tl::unexpected(TaskFailure::refused);
    return this->results();
  }
};

template <class... Ts>
class [[nodiscard]] WhenAnyAwaiter final : public detail::TupleGroup<Ts...> {
 public:
  explicit WhenAnyAwaiter(Task<Ts>&&... tasks) noexcept
      : detail::TupleGroup<Ts...>(detail::ChildGroup::Until::first, std::move(tasks)...) {}

  TaskResult<AnyOf<Ts...>> await_resume() {
    if (this->refused()) return tl::unexpected(TaskFailure::refused);
    return AnyOf<Ts...>{this->first(), this->results()};
  }
};

template <class T>
class [[nodiscard]] WhenAllOfAwaiter final : public detail::SpanGroup<T> {
 public:
  explicit WhenAllOfAwaiter(std::span<Task<T>> tasks) noexcept
      : detail::SpanGroup<T>(detail::ChildGroup::Until::all, tasks) {}

  [[nodiscard]] bool await_ready() const noexcept { return this->none(); }
  TaskResult<void> await_resume() const noexcept {
    if (this->refused()) return tl::unexpected(TaskFailure::refused);
    return {};
  }
};

template <class T>
class [[nodiscard]] WhenAnyOfAwaiter final : public detail::SpanGroup<T> {
 public:
  explicit WhenAnyOfAwaiter(std::span<Task<T>> tasks) noexcept
      : detail::SpanGroup<T>(detail::ChildGroup::Until::first, tasks) {}

  [[nodiscard]] bool await_ready() const noexcept { return this->none(); }
  TaskResult<std::size_t> await_resume() const noexcept {
    if (this->refused() || this->none()) return tl::unexpected(TaskFailure::refused);
    return this->first();
  }
};

template <class T>
class [[nodiscard]] DeadlineAwaiter final : public detail::DeadlineGroup {
 public:
  template <class When>
  DeadlineAwaiter(When when, Task<T>&& task) noexcept
      : DeadlineGroup(when), task_(std::move(task)) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    add(frame.promise(), task_);
    return start_until_deadline(frame.promise());
  }
  TaskResult<T> await_resume() {
    if (refused()) return tl::unexpected(TaskFailure::refused);
    if (expired()) return tl::unexpected(TaskFailure::deadline);
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return task_.take();
    }
  }

 private:
  Task<T> task_;
};

// The tasks are moved out of the arguments, which may so be calls: GCC 12 destroys twice what a
// co_await expression makes, and an empty task bears that.

/// Runs the tasks side by side and gives the results of all, in their order. Of no tasks, at once.
template <class... Ts>
WhenAllAwaiter<Ts...> when_all(Task<Ts>&&... tasks) noexcept {
  return WhenAllAwaiter<Ts...>(std::move(tasks)...);
}

/// The same for tasks of one type, however many, that stay where they are, with their results:
/// take() them. `tasks` must stay until the wait is over.
template <class T>
WhenAllOfAwaiter<T> when_all(std::span<Task<T>> tasks) noexcept {
  return WhenAllOfAwaiter<T>(tasks);
}

/// Runs the tasks side by side until one has ended; then cancels the others and waits for their
/// end. When several end in one turn, the first is the one that ran first.
template <class... Ts>
  requires(sizeof...(Ts) > 0)
WhenAnyAwaiter<Ts...> when_any(Task<Ts>&&... tasks) noexcept {
  return WhenAnyAwaiter<Ts...>(std::move(tasks)...);
}

/// The same for tasks that stay where they are: which ended first; take() the results, of every one
/// of them. Of no tasks: `refused`.
template <class T>
WhenAnyOfAwaiter<T> when_any(std::span<Task<T>> tasks) noexcept {
  return WhenAnyOfAwaiter<T>(tasks);
}

/// Runs the task, cancels it when `delay` has passed since this call, and waits for its end. Once
/// the deadline has passed, `deadline` is the answer, whatever the task still returns: what must
/// not be lost goes out by reference, or use when_any(). With no time left the task starts
/// cancelled. kNoTimeout: no deadline.
template <class T>
DeadlineAwaiter<T> with_deadline(Delay delay, Task<T>&& task) noexcept {
  return DeadlineAwaiter<T>(delay, std::move(task));
}

/// The same until `deadline`. kNever: none. Whether time is left at the start goes by the clock of
/// the turn, Loop::now(): in a long one a task starts although its deadline has just passed, and
/// its result counts if it ends within that turn.
template <class T>
DeadlineAwaiter<T> with_deadline(Instant deadline, Task<T>&& task) noexcept {
  return DeadlineAwaiter<T>(deadline, std::move(task));
}

}  // namespace pinion

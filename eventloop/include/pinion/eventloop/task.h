#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <pinion/eventloop/task_group.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/lib/list.h>

/// Coroutines of a loop.
///
///   pinion::Task<> greet(Stream conn) {
///     co_await conn.write(kHello);
///   }
///   loop.spawn(greet(std::move(conn)));
///
/// Ownership:  a Task owns its frame until it is spawned (the loop owns it then) or destroyed. A
///             task that is awaited belongs to the expression that awaits it.
/// Threading:  a task lives on one loop's thread: it is created there, or before the loop runs by a
///             thread without a loop. Another loop's is refused by an assertion.
/// Cost:       a frame comes from the loop's FramePool. Starting a child and returning from it are
///             a hand-over through the loop's ready list, never a nested call: any depth, any
///             build.
/// Full:       a frame of up to 4 KiB has its place in the pool, a larger one, or one beyond
///             LoopOptions::frame_pool_bytes, comes from the heap (counted). When that has no room
///             either, the Task is empty: spawn() refuses it (counted, and its handle is empty),
///             when_all() and its like answer `refused`, and co_await of it ends the process with a
///             message. Whoever can do without the task checks it before awaiting it.
/// Errors:     an exception that leaves a task ends the process with a message.
/// Cancelled:  TaskHandle::cancel() ends the wait that the task, or the task it awaits, stands in;
///             every later wait of it returns `cancelled` after one turn. Tasks that run side by
///             side for it (when.h) are cancelled with it, and theirs with them, to any depth.
/// Deep:       a chain of calls that is destroyed while it waits, rather than ending, takes stack
///             for each: 100,000 of them fit the usual 8 MiB.
///
/// GCC 12.2:   - it destroys some temporaries of a co_await expression twice: arguments of an
///               awaited call must be trivially destructible (span, Delay, numbers, references) or
///               named;
///             - it lays out a frame wrongly when a function without a local variable has co_await
///               in the condition of an if or a loop. Name the result: `const Wake wake =
///               co_await …;`. A task that was compiled so ends the process with this advice when
///               it is called.

namespace pinion {

class FramePool;
class Loop;
class Wait;

namespace detail {

class ChildGroup;

/// The list that a context is in: of the live, the ended, or the children of one task.
struct Living;

/// What the loop knows about a task that was spawned or runs as somebody's child: a stack of frames
/// of which the innermost runs or waits. Contexts are never unmapped while the loop lives, so a
/// handle tells by the generation whether its task has ended.
struct TaskContext : TaggedListNode<Living> {
  TaskQueue* queue = nullptr;  ///< Of its group, and so its loop.
  PromiseBase* root = nullptr;
  Wait* wait = nullptr;  ///< What the innermost coroutine of the task is suspended in.
  const char* name = nullptr;
  ChildGroup* group = nullptr;  ///< Whose child it is; none for a spawned task.
  std::uint64_t generation = 0;
  std::uint32_t order = 0;  ///< Which of the group's children.
  bool cancel_requested = false;
  bool started = false;
};

/// Before each frame: where its memory came from, and in the room that the frame's alignment
/// leaves, what a task rarely needs.
struct alignas(16) FrameHeader {
  FramePool* pool;              ///< None: the heap, for what a thread without a loop made.
  TaskContext* next_to_cancel;  ///< Of a task's outermost frame, while Loop::cancel() is at it.
};

/// The task that runs on this thread; none between tasks.
extern PINION_EXPORT constinit thread_local TaskContext* running_task
    __attribute__((tls_model("initial-exec")));

/// The part of every task's frame that the loop works with. It is linked while it is ready.
struct PromiseBase : ListNode {
  std::coroutine_handle<> frame;
  PromiseBase* continuation = nullptr;  ///< Who awaits this task; none for a spawned one.
  TaskContext* context = nullptr;       ///< None before the task is spawned or awaited.

  PINION_EXPORT ~PromiseBase();

  // The frame's memory; nullptr when there is no room.
  [[nodiscard]] PINION_EXPORT static void* operator new(std::size_t size) noexcept;
  PINION_EXPORT static void operator delete(void* memory, std::size_t size) noexcept;

  [[nodiscard]] static std::suspend_always initial_suspend() noexcept { return {}; }

  struct FinalAwaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      self.promise().finish();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] static FinalAwaiter final_suspend() noexcept { return {}; }

  [[noreturn]] static void unhandled_exception() noexcept { exception_escaped(); }

  /// Ends the process: somebody awaits a task that there is not.
  [[noreturn]] PINION_EXPORT static void awaited_empty() noexcept;

  /// Ends the process if the compiler has misplaced the promise in the frame.
  void check_layout() const noexcept {
#if defined(__GNUC__) && !defined(__clang__)
    if (frame.address() != newest_frame()) layout_is_wrong();
#endif
  }

  /// Makes `parent` wait for this task and starts it.
  PINION_EXPORT void start_for(PromiseBase& parent) noexcept;

 private:
  PINION_EXPORT void finish() noexcept;
  [[noreturn]] PINION_EXPORT static void exception_escaped() noexcept;
  [[noreturn]] PINION_EXPORT static void layout_is_wrong() noexcept;
  /// What the last operator new on this thread gave.
  [[nodiscard]] PINION_EXPORT static void* newest_frame() noexcept;
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;

  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    PINION_ASSERT(value.has_value());
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::Promise<T> {
    [[nodiscard]] Task get_return_object() noexcept { return Task(*this); }
    [[nodiscard]] static Task get_return_object_on_allocation_failure() noexcept { return Task(); }
  };

  /// An empty task.
  Task() noexcept = default;
  Task(Task&& other) noexcept : promise_(std::exchange(other.promise_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      promise_ = std::exchange(other.promise_, nullptr);
    }
    return *this;
  }
  ~Task() { reset(); }

  /// False when there was no memory for the frame, or the task was moved away.
  [[nodiscard]] explicit operator bool() const noexcept { return promise_ != nullptr; }

  /// `co_await std::move(task)` or `co_await make_task()`: runs it to its end and gives its result.
  [[nodiscard]] bool await_ready() const noexcept {
    if (promise_ == nullptr) detail::PromiseBase::awaited_empty();
    return false;
  }
  template <class Parent>
  void await_suspend(std::coroutine_handle<Parent> parent) noexcept {
    promise_->start_for(parent.promise());
  }
  T await_resume() { return promise_->take(); }

  /// The result of a task that when_all() or when_any() has run to its end where it lies. Once.
  T take() {
    PINION_ASSERT(promise_ != nullptr);
    return promise_->take();
  }

 private:
  friend class Loop;
  friend class detail::ChildGroup;

  explicit Task(promise_type& promise) noexcept : promise_(&promise) {
    promise.frame = std::coroutine_handle<promise_type>::from_promise(promise);
    promise.check_layout();
  }

  void reset() noexcept {
    if (promise_ != nullptr) std::exchange(promise_, nullptr)->frame.destroy();
  }
  promise_type* release() noexcept { return std::exchange(promise_, nullptr); }

  promise_type* promise_ = nullptr;
};

/// Names a spawned task. It may outlive the task, but not the loop. Dropping it detaches the task.
class TaskHandle {
 public:
  TaskHandle() noexcept = default;

  /// Whether it ever named a task: false when spawn() refused.
  [[nodiscard]] explicit operator bool() const noexcept { return context_ != nullptr; }

  /// Whether the task has ended; true for an empty handle. On the loop's thread.
  [[nodiscard]] bool done() const noexcept {
    return context_ == nullptr || context_->generation != generation_;
  }

  /// Asks the task to end (see "Cancelled" above). Does nothing when it has ended. On the loop's
  /// thread; from another, post a message.
  PINION_EXPORT void cancel() const noexcept;

 private:
  friend class Loop;
  explicit TaskHandle(detail::TaskContext& context) noexcept
      : context_(&context), generation_(context.generation) {}

  detail::TaskContext* context_ = nullptr;
  std::uint64_t generation_ = 0;
};

}  // namespace pinion

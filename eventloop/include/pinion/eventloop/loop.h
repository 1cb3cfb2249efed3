#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <pinion/eventloop/call_gate.h>
#include <pinion/eventloop/idle.h>
#include <pinion/eventloop/loop_stats.h>
#include <pinion/eventloop/mailbox.h>
#include <pinion/eventloop/message.h>
#include <pinion/eventloop/poller.h>
#include <pinion/eventloop/ring.h>
#include <pinion/eventloop/submission.h>
#include <pinion/eventloop/task.h>
#include <pinion/eventloop/task_group.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/export.h>
#include <pinion/lib/list.h>
#include <pinion/lib/result.h>
#include <pinion/lib/slab.h>
#include <pinion/lib/time.h>
#include <pinion/timers/time_source.h>
#include <pinion/timers/timing_wheel.h>

/// The loop of one lcore.
///
/// One turn: read the clock once, then handle messages, completions and pollers, then ready tasks,
/// then due timers, then submit what all of them queued, as the submission policy says; when
/// nothing was done, the idle policy decides whether to spin or to sleep until the wheel's next
/// expiry. Each phase has a budget, so that none starves another.
///
/// Ownership:  the loop owns its ring, its wheel and spawned tasks. The time source, pollers,
///             drainables, messages and timer entries belong to the caller.
/// Threading:  created on any thread, run by one. post(), nudge(), stop() and request_drain() may
///             be called from every thread, everything else on the loop's thread (or before it
///             runs).
/// End:        the destructor waits for calls of stop(), request_drain() and nudge() that have
///             begun: whoever ended the run need not be joined first. No call may begin later; and
///             post() still touches the loop after its message has been handled: a sender must have
///             returned from it before the loop dies. Runtime sees to all that for its lcores.
///             Tasks and handlers that a dying loop calls for the last time may still use it: what
///             they post to it is handled, operations that they start are cancelled, tasks that
///             they spawn are destroyed before they start, timers that they arm never fire. They
///             may post to another loop that lives. What starts again without end is cut off, and
///             reported on the log.
/// Cost:       an idle turn is a clock reading and a few loads, no system call; a sleep is one, in
///             which what was queued is submitted. Nothing allocates but the memory of tasks, in
///             chunks that double, until there are as many as ever.
/// Full:       no room for a task: spawn() refuses, counted. More than kMaxPollers pollers: refused
///             by an assertion.
/// Errors:     a task that was made on another loop's thread, and a call from another thread where
///             looking costs nothing that matters, are refused by assertions.
///             create() says what forbids io_uring here and how to allow it. An exception that
///             leaves a task, a handler, a timer callback, a poller or a drainable ends the process
///             with a message that says which.

namespace pinion {

namespace detail {
class CallBase;
}

/// Delays are 0 or more.
struct LoopOptions {
  IdlePolicy idle = IdlePolicy::adaptive;
  RingOptions ring = {};
  SubmissionOptions submission = {};

  // What one turn does at most, per phase. At least 1.
  std::size_t message_budget = 256;
  std::size_t completion_budget = 256;
  std::size_t poll_budget = 256;
  std::size_t ready_budget = 256;
  std::size_t timer_budget = 1024;

  Delay overlong_turn = std::chrono::milliseconds{1};  ///< Counted and named beyond this.
  Delay spin_max{};  ///< Longest spin of `adaptive`, cut off at 1 s; 0: default_spin_max().
  Delay doze_max = std::chrono::milliseconds{1};  ///< Longest sleep beside a blind poller.

  std::size_t frame_pool_bytes = std::size_t{256} << 20;  ///< Then frames come from the heap.
  std::size_t max_tasks = std::size_t{1} << 20;  ///< Limit for tasks alive at once, spawned ones
                                                 ///< and children that run side by side (when.h).
  Delay task_slice = std::chrono::microseconds{200};  ///< Of a turn; then maybe_yield() yields.

  Delay drain_timeout = std::chrono::seconds{10};  ///< Then on_drain_expired(); kNoTimeout: never.
  Delay wind_down = std::chrono::seconds{1};       ///< How long cancelled tasks may take to end.
};

/// Why run() returned.
enum class Ending : std::uint8_t {
  stopped,        ///< stop() was called.
  drained,        ///< Everything finished by itself after the drain began.
  drain_expired,  ///< The drain timeout passed and what was left was reset.
};

class Loop {
 public:
  static constexpr std::size_t kMaxPollers = 32;
  static constexpr std::size_t kMaxGroups = LoopStats::kMaxGroups;

  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Loop>> create(LoopOptions options,
                                                                          TimeSource& time);

  /// Cancels what tasks still live and lets them end, as run() does before it returns; then cancels
  /// every operation that is still in flight and delivers its end, so that whoever waits for that
  /// to free itself does. On the loop's thread, if it ever ran; after the end of that thread, where
  /// nothing is left in flight (asserted).
  PINION_EXPORT ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// The loop of the calling thread.
  [[nodiscard]] PINION_EXPORT static Loop& current() noexcept;
  [[nodiscard]] PINION_EXPORT static Loop* current_or_null() noexcept;

  /// Makes the calling thread the loop's thread, for good. run() and turn() do it themselves; call
  /// it before setting up transports, so that they may submit. A thread has one loop at a time.
  [[nodiscard]] PINION_EXPORT Result<> adopt_thread();

  /// Turns until stop() or the end of a drain; then destroys the tasks that haven't started,
  /// cancels the others and gives them LoopOptions::wind_down to end. May be called again. Tasks
  /// whose operations the kernel doesn't end stay as they are, reported on the log.
  PINION_EXPORT Ending run();

  /// One turn without sleeping, for tests and for shutting down; returns how much was done. While
  /// that isn't 0, operations may be held for the next turn (submission.h).
  PINION_EXPORT std::size_t turn();

  /// Turns, sleeping as the idle policy says, until `done()`, which doesn't throw, at most for
  /// `bound`. Returns done(). A stop() ends it too, and stays in force: later ones don't turn until
  /// run() has returned.
  template <class Predicate>
  bool run_until(Predicate done, Delay bound) {
    return run_until(
        [](void* predicate) noexcept -> bool { return (*static_cast<Predicate*>(predicate))(); },
        &done, bound);
  }

  /// Makes run() return. From any thread; before run(), it returns after one turn.
  PINION_EXPORT void stop() noexcept;

  /// begin_drain() from any thread.
  PINION_EXPORT void request_drain() noexcept;

  /// The clock as this turn read it.
  [[nodiscard]] Instant now() const noexcept { return now_; }

  /// The clock now, read at each call: a reading that is kept, however shortly, makes what is armed
  /// after long work early. It costs 10 to 30 ns; a system call where the kernel's clock is one.
  [[nodiscard]] PINION_EXPORT Instant fresh_now() noexcept;

  [[nodiscard]] TimingWheel& wheel() noexcept { return wheel_; }
  [[nodiscard]] Ring& ring() noexcept { return *ring_; }
  [[nodiscard]] FramePool& frame_pool() noexcept { return *frames_; }

  /// Arms `entry` at `delay` from a fresh reading of the clock.
  void arm_after(TimerEntry& entry, Delay delay) noexcept {
    wheel_.arm(entry, saturating_add(fresh_now(), delay));
  }

  /// Starts a task in the next turn. `name` (a literal) is for reports. It is in the group of the
  /// task that calls, or in the default group.
  PINION_EXPORT TaskHandle spawn(Task<> task, const char* name = nullptr) noexcept;

  /// The same in a group.
  PINION_EXPORT TaskHandle spawn(Task<> task, const char* name, TaskGroup group) noexcept;

  /// A group of tasks with its shares of the loop's time, see TaskGroup; `name` (a literal) is for
  /// reports. `resource_exhausted` when there are kMaxGroups, the default group included;
  /// `invalid_argument` for shares that aren't from 1 to TaskGroup::kMostShares.
  [[nodiscard]] PINION_EXPORT Result<TaskGroup> make_group(
      const char* name, std::uint32_t shares = TaskGroup::kStandardShares);

  /// The group of the tasks that are spawned into no other.
  [[nodiscard]] PINION_EXPORT TaskGroup default_group() noexcept;

  /// Calls the message's handler on the loop's thread. From any thread.
  PINION_EXPORT void post(Message& message) noexcept;

  /// Ends the sleep that the loop is in or about to begin, if any, so that it asks its pollers.
  /// From any thread, after a seq_cst write of what they are to find. One doorbell per sleep.
  PINION_EXPORT void nudge() noexcept;

  /// Submits by this mode from the end of the turn on. On the loop's thread: from elsewhere, post a
  /// message that calls it.
  PINION_EXPORT void set_submission_mode(SubmissionMode mode) noexcept;

  PINION_EXPORT void add_poller(Poller& poller) noexcept;
  /// On the loop's thread, the descriptor that it waited for is let go of before this returns; from
  /// elsewhere, before the loop runs, there is none.
  PINION_EXPORT void remove_poller(Poller& poller) noexcept;

  PINION_EXPORT void add_drainable(Drainable& drainable) noexcept;
  PINION_EXPORT void remove_drainable(Drainable& drainable) noexcept;

  /// Tells every drainable to finish; run() returns once all of them have, at the latest some time
  /// after LoopOptions::drain_timeout. Repeated calls do nothing.
  PINION_EXPORT void begin_drain() noexcept;
  [[nodiscard]] bool draining() const noexcept { return drain_ != Drain::no; }

  [[nodiscard]] const LoopStats& stats() const noexcept { return stats_; }
  [[nodiscard]] const LoopOptions& options() const noexcept { return options_; }

  /// What is running now, or ran last. From any thread; see RunningNow.
  [[nodiscard]] Running running() const noexcept { return running_.look(); }

 private:
  friend class Runtime;
  friend class Wait;
  friend class TaskGroup;
  friend class TaskHandle;
  friend class YieldAwaiter;
  friend class detail::CallBase;
  friend class detail::ChildGroup;
  friend struct detail::PromiseBase;
  friend bool detail::must_yield() noexcept;

  enum class Drain : std::uint8_t { no, waiting, expired, given_up };
  enum class Spent : std::uint8_t { elsewhere, busy, idle, parked };
  static constexpr std::uint32_t kStopRequest = 1;
  static constexpr std::uint32_t kDrainRequest = 2;
  static constexpr std::uint32_t kLookRequest = 4;  // Ends a sleep, to look at a predicate again.

  struct PollerSlot : Completion {
    PollerSlot() noexcept : Completion(&on_readable) {}
    static void on_readable(Completion& self, std::int32_t result, std::uint32_t flags) noexcept;

    Poller* poller = nullptr;
    int fd = -1;            // What the last operation polls.
    bool prepared = false;  // Has been told of the sleep that comes.
    bool failed = false;    // Polling found an error of which the poller has not been told.
    Instant poll_again_at;  // Not before, after an error.
  };
  struct Doorbell : Completion {
    Doorbell() noexcept : Completion(&on_rung) {}
    static void on_rung(Completion& self, std::int32_t result, std::uint32_t flags) noexcept;
  };
  struct DrainTimer : TimerEntry {
    explicit DrainTimer(Loop& owner) noexcept : TimerEntry(&on_timer), loop(owner) {}
    static void on_timer(TimerEntry& self) noexcept;

    Loop& loop;
  };

  Loop(const LoopOptions& options, const SubmissionRules& submission, TimeSource& time,
       std::unique_ptr<Ring> ring, int doorbell_fd);

  PINION_EXPORT bool run_until(bool (*done)(void*) noexcept, void* context, Delay bound);

  /// Whether the caller may use what is the loop's thread's alone: before it has one, anybody may,
  /// and so may what is destroyed with the loop after the end of its thread.
  bool on_the_loops_thread() const noexcept {
    return !adopted_ || current_or_null() == this || over_;
  }

  // The turn (loop.cc).
  void work();
  bool has_more() const noexcept;
  void read_clock() noexcept;
  void note_clock(Instant reading) noexcept;
  std::size_t run_phases();
  template <bool kTimed>
  std::size_t run_phases();
  template <bool kTimed>
  std::size_t ended(Phase phase, std::size_t did) noexcept;
  std::size_t fire_timers();
  void note_running(const char* kind, const char* name, const void* code) noexcept;

  // What is noted about it (accounts.cc).
  static std::uint64_t count_preemptions() noexcept;
  void note_long_idle_turn(Delay elapsed) noexcept;
  void note_overlong_idle_turn(Delay elapsed) noexcept;
  void note_overlong_turn(Delay elapsed, const Running& last) noexcept;
  void time_phase(Phase phase, std::size_t did) noexcept;
  void submit();
  void submit_rest();
  bool holds(bool more) noexcept;

  // What calls users (calls.cc).
  using Order = void (Drainable::*)();
  std::size_t handle_messages();
  std::size_t poll_pollers();
  ParkAnswer prepare_park(PollerSlot& slot);
  void end_pollers();
  void cancel_park();
  static void tell(Drainable& drainable, Order order);
  void tell_all(Order order);
  bool all_drained();

  // The end of it (drain.cc).
  void request(std::uint32_t what) noexcept;
  bool take_requests() noexcept;
  bool finished();
  void expire_drain() noexcept;
  void wind_down();
  void finish();
  std::uint64_t own_operations() const noexcept;
  void leave_tasks_alone();

  // The end of what others call (call.cc).
  void end_calls();

  // Sleeping (park.cc).
  Delay spin_max() const noexcept;
  void rest();
  void begin_idling() noexcept;
  bool park();
  bool still_nothing_to_do(Delay& longest);
  bool arm_descriptor(PollerSlot& slot, int fd, Delay& longest);
  bool doze(Delay& longest) noexcept;
  void arm_doorbell();
  void ring_eventfd() noexcept;
  void count_wake(RingWake cause, bool rung) noexcept;

  // Tasks (task.cc).
  TaskHandle spawn_into(detail::TaskQueue& queue, Task<> task, const char* name) noexcept;
  std::size_t run_ready();
  std::size_t run_only_group();
  void run_first(List<detail::PromiseBase>& of);
  void run_task(detail::PromiseBase& promise);
  void make_ready(detail::PromiseBase& promise) noexcept {
    detail::TaskQueue& queue = *promise.context->queue;
    queue.ready.push_back(promise);
    active_ |= queue.bit;
    ++ready_count_;
  }
  void hand_over(detail::PromiseBase& promise) noexcept;
  void forget(detail::PromiseBase& promise) noexcept;
  bool must_yield() noexcept;
  bool something_arrived() const noexcept;
  Instant end_of_slice() const noexcept;
  detail::TaskContext* take_context(detail::PromiseBase& root, detail::TaskQueue& queue,
                                    const char* name) noexcept;
  void check_frame(const detail::PromiseBase& promise) const noexcept;
  void give_back(detail::TaskContext& context) noexcept;
  void end_task(detail::TaskContext& context) noexcept;
  void cancel(detail::TaskContext& context) noexcept;
  void cancel_tasks() noexcept;
  void destroy_unstarted_tasks() noexcept;
  void destroy_tasks() noexcept;
  void release_contexts() noexcept;

  // Groups of tasks (group.cc).
  std::size_t run_groups();
  detail::TaskQueue* pick_group() noexcept;
  void rebase_groups() noexcept;
  void fill_due(detail::TaskQueue& queue) noexcept;
  void charge(detail::TaskQueue& queue, std::uint64_t resumptions) noexcept;
  bool other_group_first(Instant now) const noexcept;
  void release_group(detail::TaskQueue& queue) noexcept;
  void close_groups() noexcept;

  LoopOptions options_;
  TimeSource& time_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<FramePool> frames_;
  int doorbell_fd_;

  // What other threads touch.
  Mailbox mailbox_;
  alignas(64) std::atomic<std::uint32_t> requests_{0};
  std::atomic<std::uint32_t> requesting_{0};  // Callers of stop() and request_drain().
  detail::CallGate call_gate_;

  // The turn.
  alignas(64) TimingWheel wheel_;
  Instant now_;
  Delay longest_idle_turn_;  // A longer one is looked into.
  bool adopted_ = false;
  unsigned long timer_slack_before_ = 0;
  bool stopping_ = false;
  bool over_ = false;                // What could be ended has been.
  std::size_t calls_in_flight_ = 0;  // To other loops, not yet answered.
  Spent spent_ = Spent::elsewhere;
  Drain drain_ = Drain::no;
  std::uint32_t ran_ = 0;  // How many things ran in this turn.
  std::uint32_t turns_to_timed_ = LoopStats::kTurnsPerTimed;
  Instant phase_began_;  // In turns that are timed.
  RunningNow running_;

  // Tasks.
  using Contexts = List<detail::TaskContext, detail::Living>;
  std::array<detail::TaskQueue, kMaxGroups> queues_;  // The first is the default group's.
  std::size_t groups_ = 1;
  std::uint32_t active_ = 0;  // A bit for each group that may have something to run,
  std::uint32_t known_ = 0;   // and of these, one for each that pick_group() has seen since.
  double least_used_ = 0;     // Of the groups that were ready, when one was last picked.
  Instant charged_until_;
  bool other_group_waits_ = false;               // That a task yielded to.
  const detail::TaskQueue* ran_last_ = nullptr;  // Of which a task did.
  List<detail::PromiseBase> handed_over_;        // Go on at once, in the place of who awaits them.
  std::size_t ready_count_ = 0;                  // Of all these lists.
  detail::TaskContext* ended_ = nullptr;         // Whose root has just come to its end.
  Contexts live_tasks_;  // The spawned ones; children are in their group's list.
  std::unique_ptr<Slab<detail::TaskContext>> contexts_;
  Contexts free_contexts_;                         // Of ended tasks. They keep their generation.
  detail::TaskContext* last_to_cancel_ = nullptr;  // Of those that cancel() is at.

  // Idling.
  IdleController idle_controller_;
  Instant idle_since_;
  std::uint64_t preemptions_ = 0;  // Of this thread, when it was last looked at.
  bool was_idle_ = false;
  Instant park_limit_ = kNever;
  Delay doze_;

  std::array<PollerSlot, kMaxPollers> pollers_;
  std::size_t poller_count_ = 0;  // Slots in use lie below it; some may be empty.
  Doorbell doorbell_;
  List<Drainable> drainables_;
  DrainTimer drain_timer_;
  LoopStats stats_;
  SubmissionController submission_;
};

}  // namespace pinion

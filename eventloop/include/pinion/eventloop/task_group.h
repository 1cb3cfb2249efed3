#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/lib/export.h>
#include <pinion/lib/list.h>
#include <pinion/lib/time.h>

/// Tasks of one loop that share its time with those of other groups.
///
///   const pinion::TaskGroup batch = loop.make_group("batch", 100).value();
///   const pinion::TaskGroup requests = loop.make_group("requests", 900).value();
///   loop.spawn(compress(file), "compress", batch);
///   loop.spawn(accept_all(std::move(listener)), "acceptor", requests);
///
/// While tasks of several groups are ready, the loop runs those of the group that has used the
/// least time for its shares: 900 beside 100 get nine tenths of it, and whoever uses less than that
/// goes first as soon as it is ready. A task that computes for long lets others go first in
/// maybe_yield(), and not before.
///
/// Ownership:  the loop has the groups, kMaxGroups of them; a TaskGroup names one. It may outlive
///             the group, but not the loop.
///             An lcore that is drained alone and added again begins without those of its former
///             life: when it has drained, they are closed.
/// Threading:  the loop's thread, as spawn().
/// Membership: a task is in the group that it was spawned into; spawned without one, in that of the
///             task that spawns it, or in the loop's default group. Children (when.h) are in the
///             group of who waits for them. It doesn't change.
/// Cost:       none while the loop has its default group only. With more, a reading of the clock
///             per resumption, and a look at the groups that have something to run.
/// Credit:     a group that had nothing to run begins again where the others are: it has saved up
///             nothing. What it used beyond its share before, it still owes. What one resumption is
///             charged with ends at 100 ms, so that a process that was stopped is not held against
///             whoever ran then.
/// Bounds:     a group may get ahead of another that is ready by 25 us, and by what one of its
///             tasks does without asking maybe_yield(). By a clock that moves in steps, such as
///             the metronome, it is one of those instead of the 25 us.
/// Full:       make_group() answers `resource_exhausted` when the loop has kMaxGroups.
/// Errors:     using a group after close(), or one of another loop, is refused by an assertion.

namespace pinion {

class Loop;
class TaskGroup;

/// What a group of tasks has used.
struct GroupStats {
  const char* name = nullptr;
  std::uint32_t shares = 0;          ///< 0: there is no such group.
  std::uint64_t tasks_live = 0;      ///< Children included.
  std::uint64_t resumptions = 0;     ///< Those that come with a hand-over included.
  std::uint64_t run_ns = 0;          ///< Measured while the loop has more than one group.
  std::uint64_t overlong_turns = 0;  ///< After which one of its tasks had run last.
};

namespace detail {

struct PromiseBase;

/// What the loop knows about a group.
struct TaskQueue {
  Loop* loop = nullptr;
  GroupStats* stats = nullptr;
  std::uint32_t bit = 0;     ///< Its own, in the loop's sets of groups.
  std::uint32_t shares = 0;  ///< 0: a free place.
  List<PromiseBase> ready;   ///< All that are, outside of the phase of tasks.
  List<PromiseBase> due;     ///< Those that may run in this turn; the others wait for the next.
  std::uint64_t turn = 0;    ///< In which `due` was filled.
  double used = 0;           ///< Nanoseconds per share; comparable with the other groups'.
  std::uint64_t generation = 0;
  bool closed = false;

  [[nodiscard]] bool idle() const noexcept { return ready.empty() && due.empty(); }
};

}  // namespace detail

/// Names a group of a loop.
class TaskGroup {
 public:
  static constexpr std::uint32_t kStandardShares = 100;  ///< Of the default group, to begin with.
  static constexpr std::uint32_t kMostShares = 10'000;

  TaskGroup() noexcept = default;

  /// Whether it names a group that isn't closed.
  [[nodiscard]] explicit operator bool() const noexcept {
    return queue_ != nullptr && queue_->generation == generation_ && !queue_->closed;
  }

  /// From 1 to kMostShares; what has been used so far stays as it was charged.
  PINION_EXPORT void set_shares(std::uint32_t shares) const noexcept;

  /// Cancels all of its tasks, as TaskHandle::cancel() does. New ones may be spawned.
  PINION_EXPORT void cancel() const noexcept;

  /// No more tasks may be spawned into it by name. Those that live, and what they spawn, keep it
  /// and its shares until the last of them has ended: then its place is free for another group.
  /// Once; the default group can't be closed.
  PINION_EXPORT void close() const noexcept;

  friend bool operator==(const TaskGroup&, const TaskGroup&) noexcept = default;

 private:
  friend class Loop;
  explicit TaskGroup(detail::TaskQueue& queue) noexcept
      : queue_(&queue), generation_(queue.generation) {}
  [[nodiscard]] detail::TaskQueue& open_queue() const noexcept;

  detail::TaskQueue* queue_ = nullptr;
  std::uint64_t generation_ = 0;
};

}  // namespace pinion

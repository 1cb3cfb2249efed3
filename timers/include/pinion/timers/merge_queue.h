#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

/// What shards that don't run have left to those that do: the inboxes of the former, and whose turn
/// it is to adopt.
///
/// Ownership:  part of SharedTimers; timers lie in their shards' inboxes.
/// Threading:  any. Who holds the mutex may open and close shards, and is the one consumer of the
///             inboxes of closed ones.
/// Cost:       for a shard that runs, one load per turn while there is nothing to adopt. Otherwise
///             O(timers handed over), under the mutex: drains are rare.
/// Order:      round-robin among the shards that run. Without any, timers wait.

namespace pinion {

class SharedTimers;
class SharedTimerShard;

namespace detail {

struct SharedTimerBlock;

class MergeQueue {
 public:
  explicit MergeQueue(SharedTimers& timers) noexcept : timers_(timers) {}
  MergeQueue(const MergeQueue&) = delete;
  MergeQueue& operator=(const MergeQueue&) = delete;

  /// Something lies in the inbox of a closed shard. From any thread, after putting it there; one
  /// that runs sees to it in its next turn, and is woken for that when it is urgent.
  void announce() noexcept;

  /// Whether hand_over() has something to do.
  [[nodiscard]] bool announced() const noexcept {
    return announced_.load(std::memory_order_seq_cst);
  }

  /// Hands over what has been announced. False: another thread is at it, ask again.
  bool try_hand_over() noexcept;

  // With the mutex held.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  void open(SharedTimerShard& shard) noexcept;
  void close(SharedTimerShard& shard) noexcept;
  void hand_over() noexcept;

 private:
  SharedTimerShard& next_running() noexcept;
  void adopt(SharedTimerBlock& block) noexcept;

  SharedTimers& timers_;
  std::atomic<bool> announced_{false};
  std::mutex mutex_;
  unsigned running_ = 0;
  unsigned last_ = 0;  ///< Who was given a timer last.
};

}  // namespace detail
}  // namespace pinion

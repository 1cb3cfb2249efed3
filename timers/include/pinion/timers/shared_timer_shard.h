#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/export.h>
#include <pinion/lib/mpsc_queue.h>
#include <pinion/lib/time.h>
#include <pinion/timers/timing_wheel.h>

/// The part of SharedTimers (shared_timers.h) that one lcore serves, on its own wheel. A Loop does
/// it through SharedTimerPoller (eventloop).
///
/// Ownership:  its SharedTimers'. It borrows the wheel from attach() to drain().
/// Threading:  attach(), poll(), announce_sleep(), wake_up() and drain() on the lcore's thread, or
///             on one that has joined it. The wheel fires the timers there, too.
/// Cost:       poll() with nothing to do is three loads; otherwise O(messages), none of which
///             allocates or locks. attach() and drain() take a mutex; drain() looks at every block,
///             and hands over what lives in O(timers).
/// Errors:     poll() and drain() in a shared timer's callback, a second attach(), and poll() while
///             not attached, are refused by assertions. An exception that leaves a callback ends
///             the process with a message.
///
/// How threads work together. A timer's state, generation and deadline are one word, and whoever
/// changes it by compare-exchange has decided. Its wheel entry belongs to the shard. A thread that
/// makes the deadline earlier than what the entry is armed for, or that cancels, puts the timer
/// into the shard's inbox, once however many do; the shard looks at the word when it takes the
/// timer out. The entry of a deadline that was moved later comes up early, and is armed again.
///
/// No wake-up is lost: the shard says that the entry is armed for nothing before it looks at the
/// word, and threads change the word before they look what the entry is armed for; the shard
/// announces its sleep before it polls a last time, and threads fill the inbox before they look
/// whether it sleeps. Whoever is in a hurry and finds the timer on its way into the inbox says so,
/// and whoever puts it there looks for that afterwards. All of it is seq_cst.

namespace pinion {

class SharedTimers;

namespace detail {
class MergeQueue;
struct SharedTimerBlock;
}  // namespace detail

/// How another thread wakes the lcore. It may be called until drain() has returned, by any thread.
struct ShardWaker {
  void (*wake)(void* context) noexcept = nullptr;
  void* context = nullptr;
};

class PINION_EXPORT SharedTimerShard {
 public:
  SharedTimerShard(const SharedTimerShard&) = delete;
  SharedTimerShard& operator=(const SharedTimerShard&) = delete;

  /// Begins to serve timers on `wheel`: those made for this shard, and its share of those that wait
  /// for any. poll() comes next, before a sleep.
  void attach(TimingWheel& wheel, ShardWaker waker = {}) noexcept;

  /// Takes in what other threads did, at most `budget` timers; those that are due fire here, once
  /// in a poll, however often they are scheduled meanwhile. Returns how much there was to do. 0: a
  /// sleep that was announced may begin.
  std::size_t poll(Instant now, std::size_t budget) noexcept;

  /// From now on a schedule that the wheel doesn't know of calls the waker, once. Poll afterwards.
  void announce_sleep() noexcept { sleep_.exchange(Sleep::asleep, std::memory_order_seq_cst); }

  /// From now on none does.
  void wake_up() noexcept { sleep_.store(Sleep::awake, std::memory_order_seq_cst); }

  /// Stops serving: unlinks every timer, and leaves those that are scheduled to the shards that
  /// run, in turn; without any they wait for the next attach(). Returns when no waker is being
  /// called any more. The wheel may have died before.
  void drain() noexcept;

  /// Between attach() and drain(). From any thread.
  [[nodiscard]] bool running() const noexcept { return !closed_.load(std::memory_order_seq_cst); }

 private:
  friend class SharedTimers;
  friend class detail::MergeQueue;
  friend struct detail::SharedTimerBlock;
  using Block = detail::SharedTimerBlock;
  using Counter = std::atomic<std::uint64_t>;

  enum class Sleep : std::uint32_t { awake, asleep, rung };
  enum class Entry : std::uint8_t { where_it_is, came_up };

  explicit SharedTimerShard(SharedTimers& timers) noexcept : timers_(timers) {}

  // From any thread.
  void notice(bool urgent) noexcept;
  void wake() noexcept;

  // On the shard's.
  void take_in(Block& block, Tick now) noexcept;
  void settle(Block& block, Tick now, Entry entry) noexcept;
  void arm(Block& block, Tick due) noexcept;
  bool unlink(Block& block) noexcept;
  bool fire(Block& block, std::uint64_t& word) noexcept;
  void leave(Block& block) noexcept;
  static void count(Counter& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  SharedTimers& timers_;
  MpscQueue<Block> inbox_;

  // What other threads look at.
  alignas(64) std::atomic<Sleep> sleep_{Sleep::awake};
  std::atomic<bool> closed_{true};
  std::atomic<std::uint32_t> waking_{0};  ///< Threads that may be calling the waker.
  ShardWaker waker_;                      ///< Changes only while closed and nobody is waking.

  // The shard's own; counters are read by others.
  alignas(64) TimingWheel* wheel_ = nullptr;
  bool calling_ = false;
  std::uint32_t polls_ = 0;  ///< Those that found something; wraps.
  Counter fired_{0};
  Counter migrated_{0};
  Counter adopted_{0};
  Counter adopted_late_{0};
  Counter stale_{0};
};

}  // namespace pinion

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/timers/merge_queue.h>
#include <pinion/timers/shared_timer.h>
#include <pinion/timers/shared_timer_shard.h>

/// Where SharedTimers live: their control blocks, and a shard for each lcore that fires them.
///
/// Ownership:  it owns blocks and shards. It outlives every handle, and dies with every shard
///             drained (both asserted).
/// Threading:  created and destroyed on any thread; the rest from every thread.
/// Cost:       make() and the end of a handle are a compare-exchange or two on one free list, which
///             all threads share. 128 bytes per block, all of it taken and written at creation.
/// Full:       make() says resource_exhausted. The block of a handle that ended is free again after
///             the next turn of the lcore that it was last served by, or of an heir; a make() that
///             finds none wakes them, so that a later one does.
/// Errors:     create() says which option is out of range, or how much memory there isn't.

namespace pinion {

struct SharedTimersOptions {
  std::size_t capacity = 65'536;  ///< Handles at once, 1 to 2^31.
  unsigned shards = 1;            ///< One for each lcore that fires them, 1 to 1024.
};

/// What shared timers have done, of all shards together. Each figure is exact once the threads that
/// change it are quiet; then scheduled = fired + cancelled + replaced + pending.
struct SharedTimerStats {
  std::uint64_t scheduled = 0;     ///< Calls of schedule().
  std::uint64_t pending = 0;       ///< Schedules that haven't ended, migrating ones included.
  std::uint64_t fired = 0;         ///< Schedules that ended in their callback,
  std::uint64_t cancelled = 0;     ///< in a cancel(), a handle's end included,
  std::uint64_t replaced = 0;      ///< and in another schedule().
  std::uint64_t migrated = 0;      ///< Schedules that a drain has left to other shards.
  std::uint64_t adopted = 0;       ///< Those that another shard has taken over,
  std::uint64_t adopted_late = 0;  ///< and of these, past their deadline: they fired at once.
  std::uint64_t stale = 0;         ///< Wheel entries found cancelled, and unlinked.
  std::uint64_t handles = 0;       ///< Alive now.
};

class PINION_EXPORT SharedTimers {
 public:
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 31;
  static constexpr unsigned kMaxShards = 1024;

  [[nodiscard]] static Result<std::unique_ptr<SharedTimers>> create(SharedTimersOptions options);
  ~SharedTimers();
  SharedTimers(const SharedTimers&) = delete;
  SharedTimers& operator=(const SharedTimers&) = delete;

  /// A timer that fires on `shard`, or on one that has adopted it; not scheduled.
  /// resource_exhausted when there are `capacity` already.
  [[nodiscard]] tl::expected<SharedTimer, ErrorCode> make(unsigned shard,
                                                          SharedTimer::Callback callback,
                                                          void* context) noexcept;

  /// Below shard_count().
  [[nodiscard]] SharedTimerShard& shard(unsigned index) noexcept {
    PINION_ASSERT(index < shards_.size());
    return *shards_[index];
  }
  [[nodiscard]] unsigned shard_count() const noexcept {
    return static_cast<unsigned>(shards_.size());
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  [[nodiscard]] SharedTimerStats stats() const noexcept;

 private:
  friend class SharedTimer;
  friend class SharedTimerShard;
  friend class detail::MergeQueue;
  using Block = detail::SharedTimerBlock;

  /// What threads count that needn't be a shard's.
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> scheduled{0};
    std::atomic<std::uint64_t> cancelled{0};
    std::atomic<std::uint64_t> replaced{0};
  };
  static constexpr unsigned kStripes = 16;

  SharedTimers(Block* blocks, const SharedTimersOptions& options);

  Scheduled schedule(Block& block, Instant deadline) noexcept;
  bool cancel(Block& block) noexcept;
  void release(Block& block) noexcept;
  static void attend(Block& block, bool urgent) noexcept;
  Block* take_free() noexcept;
  void give_back(Block& block) noexcept;
  Stripe& own_stripe() noexcept;

  const std::size_t capacity_;
  Block* const blocks_;
  std::vector<std::unique_ptr<SharedTimerShard>> shards_;
  detail::MergeQueue merge_queue_;

  /// The first free block: its index plus 1, 0 for none, below a count of changes that lets a
  /// compare-exchange fail when the list has moved on and come back.
  alignas(64) std::atomic<std::uint64_t> free_{0};
  std::atomic<std::uint64_t> handles_{0};
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace pinion

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <pinion/lib/time.h>
#include <pinion/timers/timer_id.h>
#include <pinion/timers/timer_slab.h>
#include <pinion/timers/timing_wheel.h>

/// Timers by id, for code that has no place for entries: each carries 64 bits of the caller's,
/// which poll() hands back when it fires. A timing wheel and the slots of its entries in one.
///
/// Ownership:  the table owns everything. An id keeps nothing alive and may be kept for ever; ids
///             are described in timer_id.h.
/// Threading:  one lcore, no locks. Tables may be made and destroyed on any thread.
/// Cost:       schedule, reschedule, cancel O(1), in one cache line of the timer and those that the
///             wheel touches; poll as WheelCore::advance(). clear, compact, check and memory_stats
///             walk over all slots.
/// Memory:     reserve() takes it at start: 64 bytes per timer, in chunks of 256, all of it written
///             at once. Within what is reserved nothing allocates. Beyond it, up to the limit,
///             schedule() takes one chunk more when none is free; when slots are used up, after
///             67,108,863 timers each, it takes as many in their place.
/// Size:       42 KB, as its wheel: a member or on the heap, not on a small stack.
/// Order:      by tick; within one tick unspecified.
/// Errors:     values of TimerError. An id that isn't that of a live timer of this table, whatever
///             it was, is one, and never another timer.
///
/// A deadline is of any length. kNever is allowed: such a timer holds its slot and its value until
/// it is cancelled or rescheduled. A deadline that has passed is the next tick's.

namespace pinion {

/// What poll() tells of a timer that fired.
struct ExpiredTimer {
  TimerId id;               ///< Not found any more.
  std::uint64_t value = 0;  ///< What it was scheduled with.
  Instant deadline;         ///< The tick that it was due at.
};

struct ScheduledTimer {
  TimerId id;
  Instant deadline;  ///< The begin of the tick at which it fires; kNever for never.
};

/// Where a table's timers and its memory are.
struct TimerTableMemory {
  WheelCensus timers;     ///< By level; 64 bytes each.
  TimerSlabUse slab;      ///< By what has become of the slots.
  std::size_t bytes = 0;  ///< The table itself, its chunks, and what finds them.
};

/// `kIdSpace` is for tests.
template <std::int64_t kTickNs = 1'000'000, TimerIdSpace kIdSpace = TimerIdSpace{}>
class BasicTimerTable {
  using Wheel = BasicTimingWheel<kTickNs>;
  using Slot = detail::TimerSlot;

 public:
  /// A table whose time stands at `start`, with at most `limit` live timers, 16,777,216 of all.
  BasicTimerTable(Instant start, std::size_t limit) noexcept
      : slab_({.on_fire = &on_fire, .owner = this, .limit = limit, .space = kIdSpace}),
        wheel_(start) {}
  BasicTimerTable(const BasicTimerTable&) = delete;
  BasicTimerTable& operator=(const BasicTimerTable&) = delete;
  ~BasicTimerTable() = default;

  /// Takes the memory for so many timers, those that live included. False when that is beyond the
  /// limit or the heap is used up; then it has the room that there was memory for.
  [[nodiscard]] bool reserve(std::size_t timers) noexcept { return slab_.reserve(timers); }

  /// A timer that fires in the first poll() at or past `deadline`, rounded up to a tick.
  [[nodiscard]] TimerResult<TimerId> schedule(Instant deadline, std::uint64_t value) noexcept {
    const Slot* const slot = arm_slot(deadline, value);
    if (slot == nullptr) [[unlikely]] {
      return tl::unexpected(why_not_armed(deadline));
    }
    return TimerId(slot->id);
  }

  /// The same, and tells which deadline the wheel makes of it: the first tick that begins at or
  /// after `deadline` and hasn't begun yet. Several timers of one tick cost one wake-up.
  [[nodiscard]] TimerResult<ScheduledTimer> schedule_best_fit(Instant deadline,
                                                              std::uint64_t value) noexcept {
    const Slot* const slot = arm_slot(deadline, value);
    if (slot == nullptr) [[unlikely]] {
      return tl::unexpected(why_not_armed(deadline));
    }
    return ScheduledTimer{TimerId(slot->id), Wheel::deadline(*slot)};
  }

  /// Moves a timer's deadline; it keeps its id and its value. One store when the new deadline is
  /// not before the old one: what is extended all the time, such as an idle timeout, is best not
  /// cancelled. After an error nothing has changed.
  [[nodiscard]] TimerResult<void> reschedule(TimerId id, Instant deadline) noexcept {
    Slot* const slot = slab_.find(id);
    if (slot == nullptr) [[unlikely]] {
      return tl::unexpected(slab_.why_not(id));
    }
    if (out_of_reach(deadline)) [[unlikely]] {
      return tl::unexpected(why_not_armed(deadline));
    }
    wheel_.extend(*slot, deadline);
    return {};
  }

  /// Takes a timer out before it fires; returns its value.
  TimerResult<std::uint64_t> cancel(TimerId id) noexcept {
    Slot* const slot = slab_.find(id);
    if (slot == nullptr) [[unlikely]] {
      return tl::unexpected(slab_.why_not(id));
    }
    wheel_.cancel(*slot);
    const std::uint64_t value = slot->value;
    slab_.release(*slot);
    return value;
  }

  /// Writes what is due at `now` to the begin of `out`, in order of ticks; returns how many: no
  /// more than `limit`, nor than `out` holds. The rest stays due, and can still be cancelled. There
  /// may be a rest after fewer, too, since the wheel bounds what it moves at once: as long as
  /// next_deadline() is not after `now`, poll again. A clock that steps back is ignored.
  std::size_t poll(Instant now, std::size_t limit, std::span<ExpiredTimer> out) noexcept {
    out_ = out.data();
    return wheel_.advance(now, std::min(limit, out.size()));
  }

  /// No timer fires before this instant; kNever when none ever does. An instant that has passed
  /// when the last poll() left something due. See WheelCore::next_expiry().
  [[nodiscard]] Instant next_deadline() const noexcept { return wheel_.next_expiry(); }

  /// Cancels every timer; returns how many there were.
  std::size_t clear() noexcept {
    const std::size_t before = live();
    slab_.for_each_slot([this](Slot& slot) {
      if (wheel_.cancel(slot)) slab_.release(slot);
    });
    slab_.sort_free();
    return before;
  }

  /// Gives the chunks in which no timer is live back to the heap, reserved ones too, and returns
  /// their bytes. Ids of their timers stay errors: 1 KB per chunk remembers them. From then on the
  /// first chunks are filled first, so that the last ones empty.
  std::size_t compact() noexcept { return slab_.compact(); }

  /// Where the timers and the memory are. Walks over every timer: for reports.
  [[nodiscard]] TimerTableMemory memory_stats() const noexcept {
    const TimerSlabUse use = slab_.use();
    return {.timers = wheel_.census(),
            .slab = use,
            .bytes = sizeof *this + use.chunk_bytes + use.index_bytes};
  }

  [[nodiscard]] std::size_t live() const noexcept { return slab_.live(); }

  /// How many timers can be live before schedule() takes memory; more than the limit when that
  /// isn't a multiple of 256.
  [[nodiscard]] std::size_t capacity() const noexcept { return slab_.capacity(); }

  /// The most timers that can be live.
  [[nodiscard]] std::size_t limit() const noexcept { return slab_.limit(); }

  /// The begin of the tick that the table's time stands at.
  [[nodiscard]] Instant now() const noexcept { return wheel_.now(); }
  [[nodiscard]] WheelStats stats() const noexcept { return wheel_.stats(); }

  /// Empty when every invariant of the wheel and of the slots holds, otherwise the first that
  /// doesn't. For tests.
  [[nodiscard]] std::string check() const {
    std::string failure = wheel_.check();
    if (failure.empty()) failure = slab_.check();
    if (failure.empty() && wheel_.armed_count() != live()) failure = "table: an entry is lost";
    return failure;
  }

 private:
  /// The last tick that begins at an instant.
  static constexpr Tick kLastTick = Wheel::tick_before(Instant::max());

  /// nullptr when there is no timer. Not a result with the error in it: g++ copies one through
  /// memory, 16 bytes at once that were written as 8 and 1. That copy waits for all stores before
  /// it, and the wheel's may have missed the cache: 309 -> 99 ns at p99 of 100,000 live timers.
  Slot* arm_slot(Instant deadline, std::uint64_t value) noexcept {
    Slot* const slot = out_of_reach(deadline) ? nullptr : slab_.take();
    if (slot == nullptr) [[unlikely]] {
      return nullptr;
    }
    slot->value = value;
    wheel_.arm(*slot, deadline);
    return slot;
  }

  /// Whether no clock can have meant it, or none will ever reach it.
  [[nodiscard]] static bool out_of_reach(Instant deadline) noexcept {
    const bool late = deadline > Wheel::instant_of(kLastTick) && deadline != kNever;
    return deadline < Instant{} || late;
  }
  static TimerError why_not_armed(Instant deadline) noexcept {
    if (deadline < Instant{}) return TimerError::invalid_deadline;
    return out_of_reach(deadline) ? TimerError::overflow : TimerError::capacity;
  }

  static void on_fire(TimerEntry& entry) noexcept {
    auto& slot = static_cast<Slot&>(entry);
    auto& table = *static_cast<BasicTimerTable*>(detail::TimerSlab::owner_of(slot));
    *table.out_++ = {TimerId(slot.id), slot.value, Wheel::deadline(slot)};
    table.slab_.release(slot);
  }

  detail::TimerSlab slab_;
  Wheel wheel_;                  ///< After the slots: it dies first and disarms them.
  ExpiredTimer* out_ = nullptr;  ///< Where poll() writes.
};

/// The table in ticks of a millisecond.
using TimerTable = BasicTimerTable<>;

}  // namespace pinion

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/timers/timer_entry.h>
#include <pinion/timers/wheel_geometry.h>

/// The timing wheel, in ticks: 5 levels of 64 slots with an occupancy word each, and overflow
/// lists. BasicTimingWheel (timing_wheel.h) puts instants and delays on top.
///
/// Ownership:  the caller owns every TimerEntry; the wheel only links it. An entry that dies armed
///             unlinks itself; a wheel that dies, in a callback too, disarms its entries.
/// Threading:  one lcore, no locks. To arm from elsewhere, post to that lcore's loop.
/// Cost:       arm, extend, cancel O(1), no allocation anywhere; advance with nothing due is two
///             compares, otherwise O(fired + moved + levels) after a pause of any length;
///             next_expiry O(levels). An entry moves at most once per level on its way, and before
///             that at most three times in each overflow list that its distance passes through.
/// Size:       42 KB, all of it written by the constructor: a member or on the heap, not on a small
///             thread's stack nor in a coroutine frame.
/// Order:      by tick; within one tick unspecified.
/// Misuse:     an entry armed on another wheel, and advance() called from a callback, are refused
///             by assertions. An exception that leaves a callback ends the process with a message.
///
/// An entry fires at the first advance() whose target is at or past its deadline, never before and
/// never in the advance() that it was armed in: a deadline that is not after now() becomes
/// now() + 1, also inside callbacks, where now() is the target of the running advance().

namespace pinion {

/// What a wheel has done since it was made.
struct WheelStats {
  std::uint64_t armed = 0;      ///< Entries armed that were not: armed = fired + cancelled + live.
  std::uint64_t rearmed = 0;    ///< Calls of arm() for an armed entry: it was placed again.
  std::uint64_t fired = 0;      ///< Callbacks called.
  std::uint64_t cancelled = 0;  ///< Entries taken out before they fired, however.
  std::uint64_t extended = 0;   ///< Calls of extend(); those that armed are in `armed` as well.
  std::uint64_t moved = 0;      ///< Entries placed again by advance(), early ones included.
  std::uint64_t early_moved = 0;       ///< Those moved ahead of their time, to spread the work.
  std::uint64_t events = 0;            ///< Calls of advance() at or past next_expiry().
  std::uint64_t budget_hits = 0;       ///< Calls of advance() that left due work behind.
  std::uint64_t clock_steps_back = 0;  ///< Calls of advance() with a target before now().
  std::uint64_t worst_lateness = 0;  ///< Most ticks between a deadline and the target it fired at.
};

/// Where the armed entries are.
struct WheelCensus {
  std::array<std::size_t, detail::kLevels> levels{};
  std::size_t due = 0;       ///< Left by an advance() that stopped at its budget.
  std::size_t overflow = 0;  ///< At kSpan ticks and beyond, when they were placed.
  std::size_t never = 0;     ///< With the deadline kNeverTick.
};

/// For advance(): no bound on the callbacks, nor on the entries moved.
inline constexpr std::size_t kNoBudget = ~std::size_t{0};

class WheelCore {
 public:
  static constexpr unsigned kSlotBits = detail::kSlotBits;
  static constexpr unsigned kSlots = detail::kSlots;
  static constexpr unsigned kLevels = detail::kLevels;
  static constexpr unsigned kSubLists = detail::kSubLists;
  /// Deadlines at this distance and beyond wait in the overflow lists.
  static constexpr Tick kSpan = Tick{1} << detail::kSpanBits;
  /// How many entries advance() with a budget may move, as a multiple of it and at least.
  static constexpr std::size_t kMovesPerBudget = 8;
  static constexpr std::size_t kLeastMoves = 4096;

  /// A wheel whose time stands at `start`.
  PINION_EXPORT explicit WheelCore(Tick start = 0) noexcept;
  PINION_EXPORT ~WheelCore();
  WheelCore(const WheelCore&) = delete;
  WheelCore& operator=(const WheelCore&) = delete;

  /// Lets `entry` fire at `deadline`; now() + 1 if that is not after now(). An armed entry is
  /// placed again.
  void arm(TimerEntry& entry, Tick deadline) noexcept;

  /// Moves the deadline of `entry`, as arm() does but made for the hot path: one store unless the
  /// new deadline is before the entry's place in the wheel. Later is cheap, earlier is allowed. An
  /// entry that isn't armed is armed, whether it has fired, was cancelled, or is new: where a late
  /// event may follow a cancel(), ask armed() first.
  void extend(TimerEntry& entry, Tick later) noexcept;

  /// Takes `entry` out; its callback doesn't run. False when it wasn't armed.
  bool cancel(TimerEntry& entry) noexcept;

  /// Moves time to `target` and fires what is due, in order of ticks; returns how many fired. With
  /// a budget, at most so many callbacks run and at most max(kLeastMoves, budget *
  /// kMovesPerBudget) entries are moved, for whatever reason: what is left stays due, now() stays
  /// at its tick and next_expiry() is now(), so that a loop comes back at once. A target before
  /// now() moves nothing back: it counts as a step back and means now().
  std::size_t advance(Tick target, std::size_t budget = kNoBudget) noexcept;

  /// Whether advance(target) does more than two compares. Whenever something is due it does.
  [[nodiscard]] bool has_work(Tick target) const noexcept { return target >= next_work_; }

  /// No callback runs before this tick: the loop may sleep until then. kNeverTick when nothing is
  /// armed that fires; now() when the last advance() left due work behind, also once all of that
  /// has been cancelled; in a callback, where now() is the target, it may be before now(). Exact on
  /// level 0, a slot's first tick above it. A loop that sleeps until then wakes at most kLevels
  /// times for a timer that is armed and left alone. An extension makes that at most kLevels more,
  /// if the entry's place comes up before it fires; an entry that is cancelled or moved nearer
  /// while it is in an overflow list may leave one wake-up behind.
  [[nodiscard]] PINION_EXPORT Tick next_expiry() const noexcept;

  /// The last target, or the tick of the due work that the last advance() left behind; inside
  /// callbacks the target of the running advance().
  [[nodiscard]] Tick now() const noexcept { return floor_; }

  /// How many entries are armed.
  [[nodiscard]] std::size_t armed_count() const noexcept {
    return static_cast<std::size_t>(armed_ - cancelled_ - fired_);
  }

  [[nodiscard]] PINION_EXPORT WheelStats stats() const noexcept;

  /// Counts by walking over every list: for reports.
  [[nodiscard]] PINION_EXPORT WheelCensus census() const noexcept;

  /// Verifies every invariant by a scan of the whole wheel: empty when they hold, otherwise the
  /// first that doesn't. For tests; allowed in callbacks.
  [[nodiscard]] PINION_EXPORT std::string check() const;

 private:
  using Link = detail::TimerLink;
  struct Checker;

  /// What a level's early cascade goes by.
  struct Drained {
    Tick slot = 0;              ///< The first tick of the slot that was drained last,
    std::size_t moved = 0;      ///< how many entries have left it,
    std::size_t last_size = 0;  ///< and how many the slots before it had.
  };
  enum class Firing : std::uint8_t { drained, stopped, destroyed };

  /// Overflow lists by distance: list b holds what was 2^(30+b) to 2^(31+b) ticks away.
  static constexpr unsigned kOverflowLists = 64 - kSlotBits * kLevels;
  /// What places in the overflow lists are rounded down to: a slot of the top level.
  static constexpr Tick kOverflowGrain = Tick{1} << (kSlotBits * (kLevels - 1));
  /// How long before its first place comes up the scan of an overflow list may begin.
  static constexpr Tick kOverflowAhead = kSpan / 2;

  /// All list heads in one array: kSubLists per slot, then the overflow lists. A slot of level 0
  /// uses only the first of its lists.
  static constexpr std::size_t kOverflowHeads = kLevels * detail::kHeadsPerLevel;
  static constexpr std::size_t kHeads = kOverflowHeads + kOverflowLists;

  static TimerEntry& entry_of(Link& link) noexcept { return static_cast<TimerEntry&>(link); }

  static constexpr unsigned shift_of(unsigned level) noexcept { return level * kSlotBits; }
  static constexpr unsigned digit(Tick tick, unsigned level) noexcept {
    return static_cast<unsigned>(tick >> shift_of(level)) & (kSlots - 1);
  }
  static constexpr std::size_t heads_of(unsigned level, unsigned index) noexcept {
    return level * detail::kHeadsPerLevel + std::size_t{index} * kSubLists;
  }

  Tick clamped(Tick deadline) const noexcept { return deadline > floor_ ? deadline : floor_ + 1; }

  // Placement. `turn` picks the sub-list.
  void link(TimerEntry& entry, Tick deadline, std::uint64_t turn) noexcept;
  void link_at(const detail::Placement& placement, TimerEntry& entry, Tick deadline,
               std::uint64_t turn) noexcept;
  PINION_EXPORT void link_overflow(TimerEntry& entry, Tick deadline) noexcept;
  bool unlink(TimerEntry& entry) noexcept;
  PINION_EXPORT bool list_emptied(const Link& head) noexcept;
  PINION_EXPORT void arm_specially(TimerEntry& entry, Tick deadline) noexcept;
  PINION_EXPORT void extend_slowly(TimerEntry& entry, Tick later) noexcept;

  // advance(), beyond its first compare.
  PINION_EXPORT std::size_t advance_slowly(Tick target, std::size_t budget) noexcept;
  Firing run(Tick target, std::size_t budget, std::size_t& fired, std::size_t& moves) noexcept;
  Firing fire(std::size_t& fired, std::size_t budget, std::size_t& moves) noexcept;
  bool run_event(std::size_t& moves) noexcept;
  bool cascade(std::size_t& moves) noexcept;
  void work_ahead(Tick elapsed, std::size_t moves) noexcept;
  std::size_t early_quota(unsigned level, Tick elapsed) const noexcept;
  void note_drained(unsigned level, Tick slot, std::size_t moved) noexcept;
  std::size_t drain_slot(unsigned level, unsigned index, std::size_t limit) noexcept;
  void replace(TimerEntry& entry, unsigned level) noexcept;

  // The overflow lists.
  std::size_t scan_overflow(std::size_t limit, Tick ahead) noexcept;
  bool begin_overflow_scan(Tick ahead) noexcept;
  bool overflow_within(Tick ahead) const noexcept {
    return overflow_due_ - now_ <= ahead && overflow_due_ != kNeverTick;
  }
  bool overflow_near() const noexcept {
    return overflow_within(kOverflowAhead) || !scanned_.alone();
  }
  void reset_watermark(unsigned list) noexcept;
  Tick overflow_expiry() const noexcept;

  static void orphan(Link& head) noexcept;
  bool unfinished() const noexcept { return event_open_ || !firing_.alone(); }
  Tick first_of_level(unsigned level) const noexcept;
  Tick first_event() const noexcept;
  Tick first_work() const noexcept;

  Tick now_;    ///< What the links are placed by: everything due at or before it has come up.
  Tick floor_;  ///< now(): no deadline is accepted at or before it.
  /// advance() has nothing to do before this tick. It is never past the next multiple of 64, where
  /// whatever is above level 0 comes up and early cascades begin: so only level 0 has to look at
  /// it.
  Tick next_work_ = 0;
  std::uint64_t armed_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t extended_ = 0;
  std::uint64_t moved_ = 0;
  std::array<std::uint64_t, kLevels> occupied_{};  ///< One bit per slot that has entries.

  std::array<Drained, kLevels> drained_{};

  std::uint64_t rearmed_ = 0;  ///< Part of armed_ and of cancelled_.
  std::uint64_t early_moved_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t budget_hits_ = 0;
  std::uint64_t clock_steps_back_ = 0;
  std::uint64_t worst_lateness_ = 0;

  bool* destroyed_ = nullptr;  ///< Set while advancing: tells that frame that the wheel is gone.
  bool event_open_ = false;    ///< The event of now_ is not finished: its cascade was bounded.
  Link firing_;                ///< What is due at now_, and what was extended in that slot.
  Link never_;                 ///< Deadline kNeverTick.
  Link scanned_;               ///< The overflow list that is being scanned.
  Tick scan_by_ = kNeverTick;  ///< When that scan must be finished.
  Tick overflow_due_ = kNeverTick;  ///< The smallest watermark.
  /// Per overflow list, the tick by which it must be scanned: no place in it is before that.
  std::array<Tick, kOverflowLists> watermark_;

  std::array<Link, kHeads> heads_;
};

inline void WheelCore::arm(TimerEntry& entry, Tick deadline) noexcept {
  if (entry.owner_ != nullptr || deadline <= floor_ || deadline - now_ >= kSpan) [[unlikely]] {
    return arm_specially(entry, deadline);
  }
  entry.owner_ = this;
  entry.deadline_ = deadline;
  link_at(detail::placement_of(deadline - now_), entry, deadline, armed_++);
}

inline void WheelCore::extend(TimerEntry& entry, Tick later) noexcept {
  ++extended_;
  const Tick deadline = clamped(later);
  if (entry.owner_ == this && deadline >= entry.place_) [[likely]] {
    entry.deadline_ = deadline;
    return;
  }
  extend_slowly(entry, deadline);
}

inline bool WheelCore::cancel(TimerEntry& entry) noexcept {
  if (entry.owner_ != this) [[unlikely]] {
    PINION_ASSERT(entry.owner_ == nullptr);
    return false;
  }
  entry.owner_ = nullptr;
  ++cancelled_;
  return unlink(entry);
}

inline std::size_t WheelCore::advance(Tick target, std::size_t budget) noexcept {
  if (target < next_work_ && target >= now_) [[likely]] {
    now_ = floor_ = target;
    return 0;
  }
  return advance_slowly(target, budget);
}

/// By distance, at an absolute slot. A slot computed from the distance would disagree with the
/// cascade, which goes by position; a level computed from now XOR deadline would throw short timers
/// into the top levels whenever a range boundary is near. Above level 0 the distance in slots is 1
/// to 64, where 64 is the index of the current slot seen again one rotation later. Only the first
/// entry of a list has bits to set: stores, like instructions, bound how many calls overlap.
inline void WheelCore::link_at(const detail::Placement& placement, TimerEntry& entry, Tick deadline,
                               std::uint64_t turn) noexcept {
  const Tick position = deadline >> placement.shift;
  const Tick place = position << placement.shift;
  const std::size_t index = position & (kSlots - 1);
  const std::size_t sub_list = turn & placement.sub_lists;
  entry.place_ = place;
  Link& head = heads_[placement.heads + index * kSubLists + sub_list];
  if (head.alone()) {
    occupied_[placement.level] |= std::uint64_t{1} << index;
    if (place < next_work_) next_work_ = place;
  }
  head.append(entry);
}

/// Returns true.
inline bool WheelCore::unlink(TimerEntry& entry) noexcept {
  Link* const next = entry.next;
  Link* const prev = entry.prev;
  next->prev = prev;
  prev->next = next;
  if (next == prev) [[unlikely]]
    return list_emptied(*next);
  return true;
}

}  // namespace pinion

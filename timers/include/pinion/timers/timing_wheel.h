#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <pinion/lib/time.h>
#include <pinion/timers/timer_entry.h>
#include <pinion/timers/wheel_core.h>

/// A timing wheel for one lcore, in instants. The tick is a template parameter, so that the
/// division is by a constant.
///
/// Ownership:  the caller owns every TimerEntry; the wheel only links it. An entry that dies armed
///             unlinks itself; a wheel that dies, in a callback too, disarms its entries.
/// Threading:  one lcore, no locks. To arm from elsewhere, post to that lcore's loop.
/// Cost:       that of WheelCore (wheel_core.h), where order and budgets are described as well.
/// Rounding:   a deadline goes up to the next tick, the clock down to the last, so that nothing
///             fires early by any clock of nanoseconds. An instant before the epoch counts as
///             tick 0; a deadline of kNever is linked but never fires.
/// Size:       42 KB, as WheelCore: a member or on the heap, not on a small stack.
/// Range:      64 ticks, 64^2, … 64^5 per level, then overflow: with 1 ms 64 ms, 4.1 s, 4.4 min,
///             4.7 h, 12.4 days; with 1 us 18 min, so that much more lives in the overflow lists.

namespace pinion {

template <std::int64_t kTickNs = 1'000'000>
class BasicTimingWheel {
  static_assert(kTickNs >= 1'000 && kTickNs <= 1'000'000'000, "a tick is 1 us to 1 s");

 public:
  static constexpr std::int64_t kTickNanoseconds = kTickNs;

  /// A wheel whose time stands at `start`.
  explicit BasicTimingWheel(Instant start) noexcept : core_(tick_before(start)) {}

  /// Lets `entry` fire at the first advance() at or past `deadline`, rounded up to a tick. A
  /// deadline that is not after now() counts as the next tick. An armed entry is placed again.
  void arm(TimerEntry& entry, Instant deadline) noexcept { core_.arm(entry, tick_after(deadline)); }

  /// Arms `entry` at `now` + `delay`. `now` is the caller's: what the clock says when the wait
  /// begins. That is the turn's now for a timeout that may start at the turn's begin, and a fresh
  /// reading after long work, since the wheel's own now() may be as old as the turn.
  void arm_after(TimerEntry& entry, Instant now, Delay delay) noexcept {
    arm(entry, saturating_add(now, delay));
  }

  /// Moves the deadline: one store unless it is before the entry's place in the wheel. An entry
  /// that isn't armed is armed, after a cancel() too.
  void extend(TimerEntry& entry, Instant later) noexcept { core_.extend(entry, tick_after(later)); }

  /// Moves the deadline to `now` + `delay`, like arm_after(): kNoTimeout is never.
  void extend_after(TimerEntry& entry, Instant now, Delay delay) noexcept {
    extend(entry, saturating_add(now, delay));
  }

  /// Takes `entry` out; its callback doesn't run. False when it wasn't armed.
  bool cancel(TimerEntry& entry) noexcept { return core_.cancel(entry); }

  /// Fires what is due at `now`, at most `budget` callbacks; returns how many. A clock that steps
  /// back is counted and ignored.
  std::size_t advance(Instant now, std::size_t budget = kNoBudget) noexcept {
    return core_.advance(tick_before(now), budget);
  }

  /// Whether advance(now) does more than two compares. Whenever something is due it does.
  [[nodiscard]] bool has_work(Instant now) const noexcept {
    return core_.has_work(tick_before(now));
  }

  /// No callback runs before this instant: the loop may sleep until then. kNever when nothing that
  /// fires is armed; an instant that has passed when the last advance() left due work behind.
  [[nodiscard]] Instant next_expiry() const noexcept { return instant_of(core_.next_expiry()); }

  /// The begin of the tick that the wheel's time stands at.
  [[nodiscard]] Instant now() const noexcept { return instant_of(core_.now()); }

  /// The begin of the tick at which `entry`, once armed, fires; kNever for never.
  [[nodiscard]] static Instant deadline(const TimerEntry& entry) noexcept {
    return instant_of(entry.deadline());
  }

  [[nodiscard]] std::size_t armed_count() const noexcept { return core_.armed_count(); }
  [[nodiscard]] WheelStats stats() const noexcept { return core_.stats(); }
  [[nodiscard]] WheelCensus census() const noexcept { return core_.census(); }

  /// Empty when every invariant holds; see WheelCore::check().
  [[nodiscard]] std::string check() const { return core_.check(); }

  /// The tick that has begun at `instant`.
  [[nodiscard]] static constexpr Tick tick_before(Instant instant) noexcept {
    const std::int64_t count = instant.time_since_epoch().count();
    return count < 0 ? 0 : static_cast<Tick>(count) / kTick;
  }

  /// The first tick that begins at or after `instant`.
  [[nodiscard]] static constexpr Tick tick_after(Instant instant) noexcept {
    const std::int64_t count = instant.time_since_epoch().count();
    if (instant == kNever) return kNeverTick;
    return count <= 0 ? 0 : (static_cast<Tick>(count) + (kTick - 1)) / kTick;
  }

  /// When `tick` begins; kNever when no instant is that late.
  [[nodiscard]] static constexpr Instant instant_of(Tick tick) noexcept {
    constexpr Tick kLast = static_cast<Tick>(std::numeric_limits<std::int64_t>::max()) / kTick;
    if (tick > kLast) return kNever;
    return Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(tick * kTick)}};
  }

 private:
  static constexpr Tick kTick = static_cast<Tick>(kTickNs);

  WheelCore core_;
};

/// The wheel that loops use: ticks of a millisecond.
using TimingWheel = BasicTimingWheel<>;

}  // namespace pinion

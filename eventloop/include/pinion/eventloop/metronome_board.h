#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <pinion/lib/export.h>
#include <pinion/lib/time.h>

/// What a metronome and its lcores tell each other: everything of it but the thread, so that tests
/// beat it by hand.
///
/// An lcore says that it sleeps, and until when. While one is awake, each beat is shown to all;
/// when all have been asleep for kQuietBeats, beats pause, until an lcore that stays awake resumes
/// them.
///
/// Ownership:  the board owns the slots. Each is one MetronomeTime's at a time.
/// Threading:  beat() and wait() on the metronome's thread, the rest on any.
/// Cost:       a beat is a store and a load for each slot in use; a pause nothing. A sleep is two
///             writes to a line that only the beats read.
/// Errors:     none; MetronomeOptions are checked before.

namespace pinion {

struct MetronomeOptions {
  static constexpr Delay kFinest = std::chrono::microseconds{100};
  static constexpr Delay kCoarsest = std::chrono::milliseconds{10};
  static constexpr Delay kWidest = std::chrono::milliseconds{100};

  Delay resolution = std::chrono::microseconds{250};  ///< Between two beats; 100 us to 10 ms.
  Delay widest = std::chrono::milliseconds{1};        ///< Under load; from `resolution` to 100 ms.
};

struct MetronomeStats {
  std::uint64_t beats = 0;
  std::uint64_t late_beats = 0;  ///< By more than half of what was to lie between two.
  std::uint64_t pauses = 0;      ///< Times that all lcores slept.
  std::uint64_t rings = 0;       ///< Sleeps that went on past the time when they were to end.
  Delay widest_gap;              ///< Between two beats without a pause.
  Delay recent_gap;              ///< The same of late: each beat takes a 64th off it.
};

namespace detail {

/// How long to wait from one beat to the next: twice as long after a late one, up to `widest`, and
/// half as long after kInTime in a row that were not.
class Tempo {
 public:
  static constexpr int kInTime = 64;

  explicit Tempo(const MetronomeOptions& options) noexcept
      : options_(options), period_(options.resolution) {}

  /// A beat came so late. Returns whether that is too late.
  PINION_EXPORT bool on_beat(Delay late) noexcept;

  [[nodiscard]] Delay period() const noexcept { return period_; }

 private:
  MetronomeOptions options_;
  Delay period_;
  int in_time_ = 0;
};

/// An lcore's share of the board: the line that it reads, and the one that it writes.
struct MetronomeSlot {
  static constexpr std::int64_t kAwake = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kRinging = kAwake + 1;  // The metronome uses the descriptor.
  static constexpr std::int64_t kRung = kAwake + 2;
  static constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] Instant published() const noexcept {
    return Instant{std::chrono::nanoseconds{now.load(std::memory_order_relaxed)}};
  }

  /// From now on the metronome rings `doorbell_fd`, an eventfd, when `until` is long past.
  void sleep(Instant until, int fd) noexcept {
    doorbell_fd = fd;
    sleeps_until.store(until.time_since_epoch().count(), std::memory_order_release);
  }
  /// From now on it doesn't: when this returns, it is done with the descriptor.
  PINION_EXPORT void wake() noexcept;

  alignas(64) std::atomic<std::int64_t> now{0};

  alignas(64) std::atomic<std::int64_t> sleeps_until{kForEver};  // Or a state from above.
  int doorbell_fd = -1;
  std::atomic<bool> taken{false};
};

class MetronomeBoard {
 public:
  /// How long all have been asleep when the beats pause: a program that is busy in bursts keeps
  /// them.
  static constexpr int kQuietBeats = 16;
  /// An lcore that sleeps on so long past its due time is rung. The kernel ends sleeps in time:
  /// this is a net, which costs a wake-up for each such time at most.
  static constexpr Delay kPatience = std::chrono::milliseconds{100};

  MetronomeBoard(const MetronomeOptions& options, std::size_t slots)
      : options_(options), slots_(slots), tempo_(options) {}

  /// For one clock at a time (asserted), which gives it back.
  PINION_EXPORT MetronomeSlot& take(std::size_t index) noexcept;
  [[nodiscard]] PINION_EXPORT bool in_use() const noexcept;
  [[nodiscard]] const MetronomeOptions& options() const noexcept { return options_; }

  /// How far behind a slot may be before its lcore looks at the kernel's clock instead: beats that
  /// are as far apart as they may be, and one of them as late again.
  [[nodiscard]] Delay trusted_lag() const noexcept {
    return std::chrono::nanoseconds{2 * options_.widest.count()};
  }

  /// Shows `now` to the lcores, unless all sleep, and rings those that sleep on. Returns when it is
  /// to be called again; kNever: when it is woken.
  PINION_EXPORT Instant beat(Instant now) noexcept;

  /// Waits until `until`, or until someone has knocked since `knocks` was read.
  PINION_EXPORT void wait(std::uint32_t knocks, Instant until) noexcept;
  [[nodiscard]] std::uint32_t knocks() const noexcept {
    return knocks_.load(std::memory_order_acquire);
  }
  PINION_EXPORT void knock() noexcept;

  /// Ends a pause; a load when there is none.
  void resume() noexcept {
    if (paused() && paused_.exchange(false, std::memory_order_acq_rel)) knock();
  }
  [[nodiscard]] bool paused() const noexcept { return paused_.load(std::memory_order_acquire); }

  [[nodiscard]] PINION_EXPORT MetronomeStats stats() const noexcept;

 private:
  struct Sleepers {
    bool all = true;
    Instant first_due = kNever;
  };

  void publish(Instant now) noexcept;
  Sleepers look_after_sleepers(Instant now) noexcept;
  void ring(MetronomeSlot& slot, std::int64_t until) noexcept;

  MetronomeOptions options_;
  std::vector<MetronomeSlot> slots_;

  std::atomic<std::size_t> used_{0};  // All that was ever taken lies below.

  // What lcores look at to resume.
  alignas(64) std::atomic<bool> paused_{false};
  std::atomic<std::uint32_t> knocks_{0};  // A futex.

  // The metronome's own. Of the counts, others read copies.
  alignas(64) Tempo tempo_;
  Instant last_ = kNever;     // kNever: the next beat is the first since a pause.
  Instant planned_ = kNever;  // What the next one was planned for.
  int quiet_beats_ = 0;
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<std::uint64_t> late_beats_{0};
  std::atomic<std::uint64_t> pauses_{0};
  std::atomic<std::uint64_t> rings_{0};
  std::atomic<std::int64_t> widest_gap_ns_{0};
  std::atomic<std::int64_t> recent_gap_ns_{0};
};

}  // namespace detail
}  // namespace pinion

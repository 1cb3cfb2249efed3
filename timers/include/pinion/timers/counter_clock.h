#pragma once

#include <algorithm>
#include <cstdint>

#include <pinion/lib/export.h>
#include <pinion/lib/time.h>

/// The arithmetic of TscTime (time_source.h): a clock made of a counter that is compared with the
/// kernel's clock now and then. It reads neither; both come in as arguments.
///
/// Ownership:  a plain value.
/// Threading:  one lcore each.
/// Cost:       at() a subtraction, a compare and a multiplication; compare() some divisions.
/// Errors:     none. A counter that jumps or changes its rate costs accuracy until the second
///             comparison after it.
///
/// The clock never steps back, and it stays behind the kernel's rather than ahead of it: a
/// comparison takes the kernel's reading for the counter's value just after it, then the lowest
/// rate that the last two comparisons allow, and kSlack less. So it lags by at most error_bound()
/// as long as the kernel keeps its rate. The kernel doesn't always: while it slews an offset away,
/// its rate differs. What is measured in one interval serves in the next, so the clock is ahead by
/// at most (change of the rate - kSlack) * kCompareEvery in the first interval after a change: by
/// nothing for 500 ppm (adjtime(), ntpd), 83 us for chronyd's default limit of 8.3 %, and 182 us
/// from one end of what Linux allows (+10 %) to the other (-10 %). Then it stands still until the
/// kernel's clock has caught up.

namespace pinion {

class CounterClock {
 public:
  /// From one comparison to the next, by the counter. It bounds how long a changed rate goes
  /// unnoticed; at 4 readings of 40 ns a comparison costs 0.02 % of the time.
  static constexpr std::chrono::nanoseconds kCompareEvery{1'000'000};
  /// What the rate is lowered by: 500 ppm, half a microsecond of lag by the next comparison.
  static constexpr std::int64_t kSlackPerMillion = 500;

  /// One reading of the kernel's clock: it was taken while the counter was in [before, after].
  struct Reading {
    std::uint64_t before;
    std::uint64_t after;
    std::int64_t ns;
  };

  /// Begins with the rate between two readings, the second of which is later by both clocks.
  PINION_EXPORT void start(const Reading& from, const Reading& to) noexcept;

  /// Whether compare() is due before at() may be asked.
  [[nodiscard]] bool stale(std::uint64_t counter) const noexcept {
    return counter - base_ >= compare_after_;
  }

  /// The time at `counter`, which is not stale.
  [[nodiscard]] Instant at(std::uint64_t counter) noexcept {
    return advanced_to(base_ns_ + scaled(counter - base_));
  }

  /// How many counts go by in `delay`, of which at most a second is taken.
  [[nodiscard]] std::uint64_t counts(Delay delay) const noexcept {
    const std::int64_t ns = std::clamp<std::int64_t>(delay.count(), 0, 1'000'000'000);
    return (static_cast<std::uint64_t>(ns) << kRateBits) / rate_;
  }

  /// Takes a new reading into account; any, also after a jump of the counter in either direction.
  /// Returns the time just after it.
  PINION_EXPORT Instant compare(const Reading& reading) noexcept;

  /// How far at() may be behind the kernel's clock before the next comparison, by the last two.
  [[nodiscard]] Delay error_bound() const noexcept {
    return std::chrono::nanoseconds{error_bound_ns_};
  }

  /// Counts per second, as measured.
  [[nodiscard]] PINION_EXPORT double frequency() const noexcept;

  /// Whether two of three successive readings' rates differ by more than 0.1 %, whatever the
  /// uncertainty of the readings.
  [[nodiscard]] PINION_EXPORT static bool rate_changed(const Reading& first, const Reading& second,
                                                       const Reading& third) noexcept;

 private:
  /// Nanoseconds per count, times 2^32: what two readings allow.
  struct Rates {
    std::uint64_t lowest;
    std::uint64_t highest;
  };
  static constexpr unsigned kRateBits = 32;

  static bool comparable(const Reading& from, const Reading& to) noexcept;
  static Rates rates(const Reading& from, const Reading& to) noexcept;
  void take_rate(const Rates& measured) noexcept;
  Instant set_base(const Reading& to) noexcept;

  /// No overflow: elapsed < compare_after_, which is at most 1 ms by rate_, 2^52.
  std::int64_t scaled(std::uint64_t elapsed) const noexcept {
    return static_cast<std::int64_t>((elapsed * rate_) >> kRateBits);
  }
  Instant advanced_to(std::int64_t ns) noexcept {
    last_ns_ = std::max(last_ns_, ns);
    return Instant{std::chrono::nanoseconds{last_ns_}};
  }

  std::uint64_t base_ = 0;           ///< The counter at the last comparison,
  std::int64_t base_ns_ = 0;         ///< and what the kernel's clock had reached then.
  std::uint64_t rate_ = 0;           ///< What at() goes by, times 2^32.
  std::uint64_t compare_after_ = 0;  ///< Counts from one comparison to the next.
  std::int64_t last_ns_ = 0;         ///< The last answer.
  Reading last_{};                   ///< What the next rate is measured from.
  Rates measured_{};                 ///< The rate measured last.
  std::uint64_t longest_ = 0;        ///< The most that compare_after_ may be.
  std::int64_t error_bound_ns_ = 0;
};

}  // namespace pinion

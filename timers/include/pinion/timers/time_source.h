#pragma once

#include <algorithm>
#include <cstdint>

#include <time.h>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>

/// Where a loop's `now` comes from: the kernel's monotonic clock, the CPU's own counter, or a clock
/// set by hand for tests and simulation.
///
/// Ownership:  plain values; the loop borrows its source.
/// Threading:  one lcore each. (MonotonicTime holds nothing and may be shared.)
/// Cost:       TscTime a counter read and a multiplication; MonotonicTime a vDSO call; ManualTime a
///             load.
/// Errors:     TscTime::create() says why the counter can't be used.

namespace pinion {

/// A clock that counts nanoseconds on CLOCK_MONOTONIC's epoch.
class TimeSource {
 public:
  TimeSource() noexcept = default;
  TimeSource(const TimeSource&) noexcept = default;
  TimeSource& operator=(const TimeSource&) noexcept = default;
  virtual ~TimeSource() = default;

  [[nodiscard]] virtual Instant now() noexcept = 0;
};

/// CLOCK_MONOTONIC itself.
class MonotonicTime final : public TimeSource {
 public:
  [[nodiscard]] Instant now() noexcept override { return read(); }

  [[nodiscard]] static Instant read() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return Instant{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}};
  }
};

/// A clock that stands still until it is set.
class ManualTime final : public TimeSource {
 public:
  explicit ManualTime(Instant start = Instant{}) noexcept : now_(start) {}

  [[nodiscard]] Instant now() noexcept override { return now_; }

  /// Any instant, an earlier one too: what stands on the clock must bear that.
  void set(Instant now) noexcept { now_ = now; }
  void advance(Delay step) noexcept { now_ = saturating_add(now_, step); }

 private:
  Instant now_;
};

/// The CPU's counter (x86: the invariant TSC; arm64: CNTVCT), scaled to CLOCK_MONOTONIC.
///
/// It never steps back, and it stays behind CLOCK_MONOTONIC rather than ahead of it, so that a
/// timer that is due by this clock is due by that one: each comparison of the two takes the
/// kernel's reading for the counter's value just after it, and the lowest rate that the last two
/// comparisons allow. It lags by at most error_bound(), some 100 ns (500 ns right after
/// create()). A comparison is made by
/// whichever now() comes 100 ms after the last, so nobody is woken for it; after a long sleep the
/// first now() is as good as the kernel's. Between two comparisons only a change of the kernel
/// clock's own rate can put it ahead: 50 us when NTP slews at its limit of 500 ppm. Then it stands
/// still until the kernel's clock has caught up.
class TscTime final : public TimeSource {
 public:
  /// Checks that the counter runs at a constant rate in all power states and calibrates it, which
  /// takes 4 ms. `unsupported` when the CPU, the kernel or the measurement says that it doesn't.
  [[nodiscard]] static Result<TscTime> create() {
    TscTime time;  // made here: the library is built without the type information of its classes
    if (Result<> done = time.calibrate(); !done) return tl::unexpected<Error>(done.error());
    return time;
  }

  [[nodiscard]] Instant now() noexcept override {
    const std::uint64_t elapsed = counter() - base_;
    if (elapsed >= compare_after_) [[unlikely]]
      return resynchronise();
    return advanced_to(base_ns_ + scaled(elapsed));
  }

  /// Compares with CLOCK_MONOTONIC now, rather than when 100 ms have passed. Returns now().
  PINION_EXPORT Instant resynchronise() noexcept;

  /// How far now() may be behind CLOCK_MONOTONIC, by the last two comparisons.
  [[nodiscard]] Delay error_bound() const noexcept {
    return std::chrono::nanoseconds{error_bound_ns_};
  }

  /// Counts per second, as measured.
  [[nodiscard]] double frequency() const noexcept { return frequency_; }

 private:
  /// One reading of the kernel's clock: it was taken while the counter was in [before, after].
  struct Sample {
    std::uint64_t before;
    std::uint64_t after;
    std::int64_t ns;
  };

  TscTime() noexcept = default;

  static std::uint64_t counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return 0;
#endif
  }
  PINION_EXPORT Result<> calibrate();
  static Sample sample() noexcept;
  static std::uint64_t lowest_rate(const Sample& from, const Sample& to) noexcept;
  static double highest_rate(const Sample& from, const Sample& to) noexcept;
  void set_base(const Sample& to) noexcept;
  void set_rate(const Sample& from, const Sample& to) noexcept;

  /// No overflow: elapsed < compare_after_, which is at most 100 ms, 2^59 in units of 2^-32 ns.
  std::int64_t scaled(std::uint64_t elapsed) const noexcept {
    return static_cast<std::int64_t>((elapsed * rate_) >> kRateBits);
  }
  Instant advanced_to(std::int64_t ns) noexcept {
    last_ns_ = std::max(last_ns_, ns);
    return Instant{std::chrono::nanoseconds{last_ns_}};
  }

  static constexpr unsigned kRateBits = 32;

  std::uint64_t base_ = 0;           ///< The counter at the last comparison,
  std::int64_t base_ns_ = 0;         ///< and what CLOCK_MONOTONIC had reached then.
  std::uint64_t rate_ = 0;           ///< Nanoseconds per count, times 2^32; rounded down.
  std::uint64_t compare_after_ = 0;  ///< Counts from one comparison to the next.
  std::int64_t last_ns_ = 0;         ///< The last answer.
  Sample last_{};                    ///< The comparison that the next rate is measured from.
  double drift_ns_ = 0;              ///< The most that the rate may lose until the next one.
  std::int64_t error_bound_ns_ = 0;
  double frequency_ = 0;
};

}  // namespace pinion

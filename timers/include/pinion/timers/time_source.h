#pragma once

#include <cstdint>

#include <time.h>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/timers/counter_clock.h>

/// Where a loop's `now` comes from: the kernel's monotonic clock, the CPU's own counter, or a clock
/// set by hand for tests and simulation. One that a thread keeps is in pinion/eventloop.
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
  virtual ~TimeSource() = default;

  [[nodiscard]] virtual Instant now() noexcept = 0;

  /// What TscTime::counter() will show when now() is about `ahead` later, to be compared with
  /// instead of reading the clock; 0 from a clock that isn't made of the counter.
  [[nodiscard]] virtual std::uint64_t counter_after(Delay) noexcept { return 0; }

  /// The same as now() by a clock that isn't behind: what a relative deadline is counted from, and
  /// what the time is after a sleep. now() is not before it afterwards.
  [[nodiscard]] virtual Instant fresh() noexcept { return now(); }

  /// How far now() may move on at once although hardly any time has passed.
  [[nodiscard]] virtual Delay resolution() const noexcept { return {}; }

  /// The loop is about to sleep until `until`, and wakes when `doorbell_fd`, an eventfd, is written
  /// to; and it has woken. For a clock that is kept by somebody.
  virtual void note_sleep(Instant /*until*/, int /*doorbell_fd*/) noexcept {}
  virtual void note_wake() noexcept {}

 protected:
  TimeSource() noexcept = default;
  TimeSource(const TimeSource&) noexcept = default;  // of whole clocks only
  TimeSource& operator=(const TimeSource&) noexcept = default;
};

/// CLOCK_MONOTONIC itself.
class MonotonicTime final : public TimeSource {
 public:
  [[nodiscard]] Instant now() noexcept override { return read(); }
  [[nodiscard]] Instant fresh() noexcept override { return read(); }

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
/// timer that is due by this clock is due by that one. It lags by at most error_bound(), as a rule
/// less than a microsecond. The two are compared by whichever now() comes a millisecond after the
/// last comparison, so nobody is woken for it; after a long sleep the first now() is as good as the
/// kernel's. Only a change of the kernel clock's own rate by more than 500 ppm can put it ahead, by
/// 83 us at most under chronyd's default limits, 182 us at Linux's own, and until the next
/// comparison only: counter_clock.h has the arithmetic.
class TscTime final : public TimeSource {
 public:
  /// What the CPU and the kernel say of the counter; create() measures besides.
  [[nodiscard]] PINION_EXPORT static Result<> check();

  /// Checks that the counter runs at a constant rate in all power states and calibrates it, which
  /// takes 6 ms. `unsupported` when the CPU, the kernel or the measurement says that it doesn't.
  [[nodiscard]] static Result<TscTime> create() {
    TscTime time;  // made here: the library is built without the type information of its classes
    if (Result<> done = time.calibrate(); !done) return tl::unexpected<Error>(done.error());
    return time;
  }

  [[nodiscard]] Instant now() noexcept override {
    const std::uint64_t count = counter();
    if (clock_.stale(count)) [[unlikely]]
      return resynchronise();
    return clock_.at(count);
  }

  [[nodiscard]] Instant fresh() noexcept override { return now(); }

  [[nodiscard]] std::uint64_t counter_after(Delay ahead) noexcept override {
    return counter() + clock_.counts(ahead);
  }

  /// The CPU's counter; 0 on processors whose counter isn't known.
  [[nodiscard]] static std::uint64_t counter() noexcept {
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

  /// Compares with CLOCK_MONOTONIC now, rather than when a millisecond has passed. Returns now().
  PINION_EXPORT Instant resynchronise() noexcept;

  /// How far now() may be behind CLOCK_MONOTONIC, by the last two comparisons.
  [[nodiscard]] Delay error_bound() const noexcept { return clock_.error_bound(); }

  /// Counts per second, as measured.
  [[nodiscard]] double frequency() const noexcept { return clock_.frequency(); }

 private:
  TscTime() noexcept = default;

  PINION_EXPORT Result<> calibrate();
  static CounterClock::Reading read() noexcept;

  CounterClock clock_;
};

}  // namespace pinion

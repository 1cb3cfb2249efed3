#pragma once

#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/// The cycle counter as a stopwatch that knows what it costs itself.
///
/// What:       the TSC (arm64: the virtual counter), calibrated against CLOCK_MONOTONIC once.
/// Threading:  one pinned thread; the counter must be invariant, as it is on machines since 2010.
/// Cost:       read() about 10 ns on a virtual machine; fenced_read() about 20 ns. Both are
///             measured by calibrate() and subtracted by elapsed_ns().

namespace pinion::bench {

/// A read that may move a few instructions either way: for intervals of microseconds.
inline std::uint64_t read_cycles() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  std::uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

/// A read that waits for everything before it and holds back everything after it.
inline std::uint64_t read_cycles_fenced() noexcept {
#if defined(__x86_64__)
  _mm_lfence();
  const std::uint64_t value = __rdtsc();
  _mm_lfence();
  return value;
#else
  asm volatile("isb" ::: "memory");
  const std::uint64_t value = read_cycles();
  asm volatile("isb" ::: "memory");
  return value;
#endif
}

/// Makes the compiler believe that memory was read and written: a loop body stays in its loop.
inline void keep_memory() noexcept {
  asm volatile("" ::: "memory");
}

class CycleClock {
 public:
  /// Takes about 50 ms: the counter's rate, and what the two reads cost.
  static CycleClock calibrate();

  double ns(double cycles) const noexcept { return cycles * ns_per_cycle_; }

  /// Nanoseconds between two fenced reads, less the reads' own cost; never negative.
  double elapsed_ns(std::uint64_t begin, std::uint64_t end) const noexcept;

  /// The mean of many fenced pairs around something short, the slowest tenth left out.
  double trimmed_mean_ns(std::vector<std::uint64_t> cycles) const;

  /// What one unfenced read adds to a loop, and what a fenced pair measures around nothing, in ns.
  double read_cost_ns() const noexcept { return ns(read_cost_); }
  double fenced_pair_cost_ns() const noexcept { return ns(fenced_pair_cost_); }

 private:
  double ns_per_cycle_ = 1;
  double read_cost_ = 0;
  double fenced_pair_cost_ = 0;
};

/// The time of a stretch of milliseconds, less what the thread spent off its cpu: another program
/// that takes turns with this one slows a bench down, but doesn't count as its work.
class Stretch {
 public:
  /// Begins now. Two system calls, outside of what is measured.
  explicit Stretch(const CycleClock& clock);

  /// Nanoseconds up to now.
  double ns() const;

 private:
  const CycleClock& clock_;
  double cpu_begin_ns_;
  std::uint64_t begin_;
};

}  // namespace pinion::bench

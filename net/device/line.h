#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/assert.h>
#include <pinion/lib/time.h>

/// A line that sends one frame after the other at a fixed rate, on virtual time.
///
/// Ownership:  a value.
/// Threading:  one thread.
/// Cost:       send() one division.
/// Errors:     none; the rate and the size of a frame are bounded by who checks the options.
/// Exactness:  the end of a frame is kept as whole nanoseconds and a rest in units of 1/rate
///             nanoseconds, so that a busy line never drifts. What is answered is rounded up.

namespace pinion::detail {

/// 10 Tbit/s: what send() computes fits 64 bits with it and any frame.
inline constexpr std::uint64_t kFastestLine = 10'000'000'000'000U;
/// Far above what any device takes.
inline constexpr std::size_t kLargestFrame = std::size_t{1} << 26;

class Line {
 public:
  /// 0: no limit.
  explicit Line(std::uint64_t bits_per_second) noexcept : rate_(bits_per_second) {
    PINION_ASSERT(bits_per_second <= kFastestLine);
  }

  /// Sends a frame of so many bytes behind those before it, and not before `now`; answers when its
  /// last bit is out.
  [[nodiscard]] Instant send(std::size_t bytes, Instant now) noexcept {
    PINION_DCHECK(bytes <= kLargestFrame);
    if (rate_ == 0) return now;
    if (now > free_at_) {
      free_at_ = now;
      rest_ = 0;
    }
    constexpr std::uint64_t kBitNanoseconds = 8'000'000'000U;
    const std::uint64_t scaled = std::uint64_t{bytes} * kBitNanoseconds + rest_;
    free_at_ = free_at_ + Delay(std::chrono::nanoseconds(scaled / rate_));
    rest_ = scaled % rate_;
    return rest_ == 0 ? free_at_ : free_at_ + Delay(std::chrono::nanoseconds(1));
  }

 private:
  std::uint64_t rate_;
  Instant free_at_ = Instant::min();
  std::uint64_t rest_ = 0;  ///< The line is free at free_at_ + rest_ / rate_ nanoseconds.
};

}  // namespace pinion::detail

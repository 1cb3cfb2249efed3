#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <pinion/lib/bits.h>
#include <pinion/lib/export.h>

/// A log-linear histogram over all 64-bit values, made for nanoseconds.
///
/// Histogram cuts each power of two into 64 equal buckets. A percentile comes back as the upper end
/// of its bucket (never beyond the largest value recorded): it is never below the true one and
/// exceeds it by less than 1/64 of it. Values under 128 are exact, and so are count, min, max and
/// mean. CoarseHistogram has 8 buckets to a power of two: less than 1/8, and exact under 16.
///
/// Ownership:  a plain value of 30 KiB, a coarse one of 4 KiB; don't put one on a small stack or on
///             a coroutine frame.
/// Threading:  one thread writes and reads. To sum up lcores, copy on each and merge().
/// Cost:       record() about ten instructions and one cache miss, never an allocation;
///             percentile(), merge(), reset() walk the 3776 buckets, or 496.
/// Errors:     a percentile outside 0 … 100 is refused by an assertion.

namespace pinion {

/// With 2^kPrecisionBits buckets to a power of two.
template <unsigned kPrecisionBits>
class PINION_EXPORT BasicHistogram {
 public:
  void record(std::uint64_t value) noexcept {
    ++buckets_[bucket_of(value)];
    ++count_;
    sum_ += value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// The smallest and the largest value; 0 when nothing was recorded.
  [[nodiscard]] std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

  /// 0 when nothing was recorded.
  [[nodiscard]] double mean() const noexcept;

  /// The value that `percent` of the recorded ones don't exceed, by nearest rank and within the
  /// error above. 0 gives min(), 100 gives max(); 0 when nothing was recorded.
  [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;

  /// Adds everything that `other` recorded. Merging with itself doubles it.
  void merge(const BasicHistogram& other) noexcept;

  /// Forgets everything.
  void reset() noexcept;

 private:
  __extension__ using Sum = unsigned __int128;

  static constexpr std::size_t kPerPower = std::size_t{1} << kPrecisionBits;
  static constexpr std::size_t kBuckets = (kWordBits - kPrecisionBits + 1) * kPerPower;

  /// How many low bits of `value` its bucket doesn't tell apart.
  static constexpr unsigned dropped_bits(std::uint64_t value) noexcept {
    return kWordBits - 1 - kPrecisionBits - count_leading_zeros(value | kPerPower);
  }

  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    const unsigned dropped = dropped_bits(value);
    return dropped * kPerPower + static_cast<std::size_t>(value >> dropped);
  }

  static constexpr std::uint64_t top_of(std::size_t bucket) noexcept;

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Sum sum_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
};

using Histogram = BasicHistogram<6>;
using CoarseHistogram = BasicHistogram<3>;

extern template class BasicHistogram<6>;
extern template class BasicHistogram<3>;

}  // namespace pinion

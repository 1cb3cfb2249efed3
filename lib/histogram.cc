#include <pinion/lib/histogram.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <pinion/lib/assert.h>

namespace pinion {

/// The largest value that falls into `bucket`.
template <unsigned kPrecisionBits>
constexpr std::uint64_t BasicHistogram<kPrecisionBits>::top_of(std::size_t bucket) noexcept {
  if (bucket < 2 * kPerPower) return bucket;
  const std::size_t dropped = bucket / kPerPower - 1;
  const std::uint64_t kept = bucket - dropped * kPerPower;
  return (kept << dropped) + ((std::uint64_t{1} << dropped) - 1);
}

template <unsigned kPrecisionBits>
double BasicHistogram<kPrecisionBits>::mean() const noexcept {
  return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

template <unsigned kPrecisionBits>
std::uint64_t BasicHistogram<kPrecisionBits>::percentile(double percent) const noexcept {
  static_assert(bucket_of(std::numeric_limits<std::uint64_t>::max()) == kBuckets - 1);
  static_assert(top_of(kBuckets - 1) == std::numeric_limits<std::uint64_t>::max());
  PINION_ASSERT(percent >= 0.0);
  PINION_ASSERT(percent <= 100.0);
  if (count_ == 0) return 0;
  if (percent <= 0.0) return min_;
  // 99.9 % of 1000 is rank 999, though the product may come out a rounding error above it.
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const double exact = percent * static_cast<double>(count_) / 100.0;
  const double rank = std::max(std::ceil(exact * (1.0 - kRounding)), 1.0);
  if (rank >= static_cast<double>(count_)) return max_;
  auto left = static_cast<std::uint64_t>(rank);
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (buckets_[bucket] >= left) return std::min(top_of(bucket), max_);
    left -= buckets_[bucket];
  }
  return max_;
}

template <unsigned kPrecisionBits>
void BasicHistogram<kPrecisionBits>::merge(const BasicHistogram& other) noexcept {
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    buckets_[bucket] += other.buckets_[bucket];
  }
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

template <unsigned kPrecisionBits>
void BasicHistogram<kPrecisionBits>::reset() noexcept {
  buckets_.fill(0);  // in place: a temporary would take 30 KiB of the stack
  count_ = 0;
  sum_ = 0;
  min_ = std::numeric_limits<std::uint64_t>::max();
  max_ = 0;
}

template class BasicHistogram<6>;
template class BasicHistogram<3>;

}  // namespace pinion

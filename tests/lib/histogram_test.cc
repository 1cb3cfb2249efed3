#include <pinion/lib/histogram.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

TEST(Histogram, IsZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.max(), 0U);
  EXPECT_EQ(histogram.mean(), 0.0);
  for (const double percent : {0.0, 50.0, 100.0}) EXPECT_EQ(histogram.percentile(percent), 0U);
}

TEST(Histogram, HoldsOneValueExactly) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63},
                                    std::uint64_t{64}, std::uint64_t{127}, std::uint64_t{128},
                                    std::uint64_t{129}, std::uint64_t{1} << 63, kMax64}) {
    Histogram histogram;
    histogram.record(value);
    EXPECT_EQ(histogram.count(), 1U);
    EXPECT_EQ(histogram.min(), value);
    EXPECT_EQ(histogram.max(), value);
    EXPECT_EQ(histogram.mean(), static_cast<double>(value));
    for (const double percent : {0.0, 0.001, 50.0, 99.9, 100.0}) {
      EXPECT_EQ(histogram.percentile(percent), value);
    }
  }
}

TEST(Histogram, IsExactBelow128) {
  Histogram histogram;
  for (std::uint64_t value = 0; value < 128; ++value) histogram.record(value);
  for (std::uint64_t rank = 1; rank <= 128; ++rank) {
    EXPECT_EQ(histogram.percentile(static_cast<double>(rank) * 100.0 / 128.0), rank - 1);
  }
}

TEST(CoarseHistogram, IsExactBelow16AndThenAboveByLessThanAnEighth) {
  for (std::uint64_t value = 0; value < 100'000; value += value < 1000 ? 1 : 37) {
    CoarseHistogram histogram;
    histogram.record(value);
    histogram.record(kMax64);  // Or the largest value would cut it off.
    const std::uint64_t median = histogram.percentile(50);
    EXPECT_GE(median, value);
    if (value < 16) {
      EXPECT_EQ(median, value);
    } else {
      EXPECT_LT(median - value, (value + 7) / 8);
    }
  }
}

TEST(Histogram, TakesTheNearestRank) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(0), 1U);
  EXPECT_EQ(histogram.percentile(0.5), 1U);
  EXPECT_EQ(histogram.percentile(1), 1U);
  EXPECT_EQ(histogram.percentile(1.1), 2U);
  EXPECT_EQ(histogram.percentile(50), 50U);
  EXPECT_EQ(histogram.percentile(99), 99U);
  EXPECT_EQ(histogram.percentile(99.5), 100U);
  EXPECT_EQ(histogram.percentile(100), 100U);
  EXPECT_EQ(histogram.mean(), 50.5);
}

TEST(Histogram, TakesNoHigherRankForARoundingError) {
  // 4.4 * 750 / 100 comes out above 33.
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 750; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(4.4), 33U);
}

TEST(Histogram, SumsWithoutOverflow) {
  Histogram histogram;
  for (int i = 0; i < 4; ++i) histogram.record(kMax64);
  EXPECT_EQ(histogram.mean(), static_cast<double>(kMax64));
}

/// The exact percentile that `per_mille` asks for, from sorted values.
std::uint64_t exact(const std::vector<std::uint64_t>& sorted, std::uint64_t per_mille) {
  const std::uint64_t rank = (per_mille * sorted.size() + 999) / 1000;
  return sorted[std::max<std::uint64_t>(rank, 1) - 1];
}

void expect_within_bound(std::uint64_t answer, std::uint64_t truth) {
  ASSERT_GE(answer, truth);
  if (truth < 128) {
    ASSERT_EQ(answer, truth);
  } else {
    ASSERT_LE(answer - truth, truth / 64);
  }
}

TEST(Histogram, StaysWithinItsErrorOfTheSortedValues) {
  Random random(test::seed());
  for (int round = 0; round < 40; ++round) {
    Histogram histogram;
    std::vector<std::uint64_t> values(random.between(1U, 3000U));
    const auto bits = static_cast<unsigned>(random.between(1U, 64U));
    for (std::uint64_t& value : values) {
      value = random.next() >> (64 - random.between(1U, bits));
      histogram.record(value);
    }
    std::sort(values.begin(), values.end());
    ASSERT_EQ(histogram.count(), values.size());
    ASSERT_EQ(histogram.min(), values.front());
    ASSERT_EQ(histogram.max(), values.back());
    for (std::uint64_t per_mille = 0; per_mille <= 1000; ++per_mille) {
      const std::uint64_t answer = histogram.percentile(static_cast<double>(per_mille) / 10.0);
      ASSERT_NO_FATAL_FAILURE(expect_within_bound(answer, exact(values, per_mille)))
          << per_mille << " per mille of " << values.size();
    }
  }
}

TEST(Histogram, StaysWithinItsErrorAtEveryPowerOfTwo) {
  for (unsigned power = 0; power < 64; ++power) {
    const std::uint64_t base = std::uint64_t{1} << power;
    for (const std::uint64_t value :
         {base - 1, base, base + 1, base + base / 64, base + base / 2}) {
      Histogram histogram;
      histogram.record(value);
      histogram.record(kMax64);
      ASSERT_NO_FATAL_FAILURE(expect_within_bound(histogram.percentile(50), value)) << value;
    }
  }
}

TEST(Histogram, MergesAsIfRecordedInOne) {
  Random random(test::seed());
  Histogram both;
  Histogram left;
  Histogram right;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    both.record(value);
    (random.chance(0.3) ? left : right).record(value);
  }
  left.merge(right);
  EXPECT_EQ(left.count(), both.count());
  EXPECT_EQ(left.min(), both.min());
  EXPECT_EQ(left.max(), both.max());
  EXPECT_EQ(left.mean(), both.mean());
  for (double percent = 0; percent <= 100; percent += 0.25) {
    ASSERT_EQ(left.percentile(percent), both.percentile(percent));
  }
}

TEST(Histogram, TakesTheEndsOfWhatItMerges) {
  Histogram middle;
  middle.record(5'000);
  Histogram around;
  around.record(3);
  around.record(1'000'000);
  middle.merge(around);
  EXPECT_EQ(middle.min(), 3U);
  EXPECT_EQ(middle.max(), 1'000'000U);
}

TEST(Histogram, NamesNoValueBeyondTheLargest) {
  Histogram histogram;
  for (int i = 0; i < 10; ++i) histogram.record(1'000'001);
  for (const double percent : {0.0, 10.0, 50.0, 90.0, 100.0}) {
    EXPECT_EQ(histogram.percentile(percent), 1'000'001U);
  }
}

TEST(Histogram, MergesWithNothingAndWithItself) {
  Histogram histogram;
  histogram.merge(Histogram());
  EXPECT_EQ(histogram.min(), 0U);
  histogram.record(7);
  histogram.merge(Histogram());
  EXPECT_EQ(histogram.min(), 7U);
  EXPECT_EQ(histogram.count(), 1U);
  histogram.merge(histogram);
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.mean(), 7.0);
}

/// However small a percentage is, it is that of a value.
TEST(Histogram, GivesNothingBelowTheSmallestValue) {
  Histogram histogram;
  histogram.record(5000);
  histogram.record(9000);
  for (const double percent : {0.0, 5e-324, 1e-300, 1e-9, 1.0}) {
    EXPECT_GE(histogram.percentile(percent), 5000U) << percent;
    EXPECT_LT(histogram.percentile(percent), 5080U) << percent;
  }
}

TEST(Histogram, ForgetsEverything) {
  Histogram histogram;
  histogram.record(5);
  histogram.reset();
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max(), 0U);
  histogram.record(9);
  EXPECT_EQ(histogram.min(), 9U);
  EXPECT_EQ(histogram.percentile(1), 9U);
}

TEST(HistogramDeathTest, RefusesWhatIsNoPercentage) {
  const Histogram histogram;
  EXPECT_DEATH((void)histogram.percentile(-0.1), "percent >= 0");
  EXPECT_DEATH((void)histogram.percentile(100.1), "percent <= 100");
  EXPECT_DEATH((void)histogram.percentile(std::nan("")), "percent >= 0");
}

}  // namespace
}  // namespace pinion

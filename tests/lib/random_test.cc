#include <pinion/lib/random.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

namespace pinion {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

TEST(Random, FollowsThePublishedAlgorithm) {
  // splitmix64 from 0, whose first outputs are published with it, then one step by hand.
  Random random(0);
  const std::uint64_t first = 0xe220a8397b1dcdafU;
  const std::uint64_t fourth = 0xf88bb8a8724c81ecU;
  const std::uint64_t sum = first + fourth;
  EXPECT_EQ(random.next(), ((sum << 23) | (sum >> 41)) + first);
}

TEST(Random, GivesTheSameNumbersForTheSameSeed) {
  Random a(42);
  Random b(42);
  Random other(43);
  int same_as_other = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t number = a.next();
    ASSERT_EQ(number, b.next());
    if (number == other.next()) ++same_as_other;
  }
  EXPECT_EQ(same_as_other, 0);
}

double chi_square(const std::vector<std::uint64_t>& counts, std::uint64_t draws) {
  const double expected = static_cast<double>(draws) / static_cast<double>(counts.size());
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

TEST(Random, BelowIsUniform) {
  // 99.99 % quantiles of chi-square with n - 1 degrees of freedom. The seed is fixed: no flakes.
  const std::map<std::uint64_t, double> limits{{2, 15.1}, {3, 18.4}, {10, 33.7}, {97, 154.4}};
  Random random(1);
  for (const auto& [bound, limit] : limits) {
    constexpr std::uint64_t kDraws = 200'000;
    std::vector<std::uint64_t> counts(bound);
    for (std::uint64_t i = 0; i < kDraws; ++i) ++counts.at(random.below(bound));
    EXPECT_LT(chi_square(counts, kDraws), limit) << "below " << bound;
  }
}

TEST(Random, BelowIsUniformWhereAModuloIsNot) {
  // With 3 * 2^62, the plain multiplication maps two of four inputs on every third number.
  constexpr std::uint64_t kBound = std::uint64_t{3} << 62;
  Random random(2);
  std::vector<std::uint64_t> thirds(3);
  std::vector<std::uint64_t> residues(3);
  constexpr std::uint64_t kDraws = 300'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const std::uint64_t number = random.below(kBound);
    ASSERT_LT(number, kBound);
    ++thirds[number >> 62];
    ++residues[number % 3];
  }
  EXPECT_LT(chi_square(thirds, kDraws), 18.4);
  EXPECT_LT(chi_square(residues, kDraws), 18.4);
}

TEST(Random, BelowKnowsItsBounds) {
  Random random(test::seed());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(random.below(1), 0U);
    ASSERT_LT(random.below(kMax64), kMax64);
  }
}

TEST(Random, BetweenIncludesBothEnds) {
  Random random(test::seed());
  std::array<int, 7> seen{};
  for (int i = 0; i < 10'000; ++i) {
    const int number = random.between(-3, 3);
    ASSERT_GE(number, -3);
    ASSERT_LE(number, 3);
    ++seen.at(static_cast<std::size_t>(number + 3));
  }
  for (const int count : seen) EXPECT_GT(count, 0);
  EXPECT_EQ(random.between(5U, 5U), 5U);
  bool high = false;
  bool low = false;
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 100; ++i) {
    const std::int64_t number = random.between(kLow, kHigh);
    high = high || number > 0;
    low = low || number < 0;
    ASSERT_GE(random.between(kHigh - 1, kHigh), kHigh - 1);
    ASSERT_LE(random.between(kLow, kLow + 1), kLow + 1);
  }
  EXPECT_TRUE(high && low);
}

TEST(Random, Real01StaysBelowOne) {
  Random random(test::seed());
  double sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double number = random.real01();
    ASSERT_GE(number, 0.0);
    ASSERT_LT(number, 1.0);
    sum += number;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
}

TEST(Random, ChanceKnowsNeverAndAlways) {
  Random random(test::seed());
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_FALSE(random.chance(0.0));
    ASSERT_FALSE(random.chance(-1.0));
    ASSERT_TRUE(random.chance(1.0));
    if (random.chance(0.25)) ++hits;
  }
  EXPECT_NEAR(hits, 25'000, 1'000);
}

TEST(Random, ShufflesEveryOrderAlike) {
  Random random(3);
  std::map<std::array<int, 4>, std::uint64_t> orders;
  constexpr std::uint64_t kDraws = 240'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    std::array<int, 4> items{1, 2, 3, 4};
    random.shuffle(items);
    ++orders[items];
  }
  ASSERT_EQ(orders.size(), 24U);
  std::vector<std::uint64_t> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  EXPECT_LT(chi_square(counts, kDraws), 56.5);
  std::vector<int> empty;
  random.shuffle(empty);
  EXPECT_TRUE(empty.empty());
}

TEST(RandomDeathTest, RefusesEmptyRanges) {
  Random random(1);
  EXPECT_DEATH((void)random.below(0), "bound != 0");
  EXPECT_DEATH((void)random.between(2, 1), "low <= high");
}

}  // namespace
}  // namespace pinion

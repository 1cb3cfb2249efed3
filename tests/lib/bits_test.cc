#include <pinion/lib/bits.h>

#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

namespace pinion {
namespace {

constexpr std::uint64_t kTop = std::uint64_t{1} << 63;

static_assert(rotate_right(1, 1) == kTop);
static_assert(rotate_right(1, 64) == 1);
static_assert(first_set_from(kTop, 63) == 0);
static_assert(first_set_from(1, 63) == 1);
static_assert(first_set_from(0, 5) == 64);

TEST(Bits, CountsZerosAtBothEnds) {
  EXPECT_EQ(count_trailing_zeros(0), 64U);
  EXPECT_EQ(count_leading_zeros(0), 64U);
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_EQ(count_trailing_zeros(std::uint64_t{1} << bit), bit);
    EXPECT_EQ(count_leading_zeros(std::uint64_t{1} << bit), 63 - bit);
    EXPECT_EQ(count_trailing_zeros((std::uint64_t{1} << bit) | kTop), bit);
  }
}

unsigned slow_first_set_from(std::uint64_t word, unsigned start) {
  for (unsigned step = 0; step < 64; ++step) {
    if (((word >> ((start + step) % 64)) & 1) != 0) return step;
  }
  return 64;
}

TEST(Bits, FindsTheFirstSetBitLikeALoopDoes) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t word = random() & random() & random() & random();
    for (unsigned start = 0; start < 130; ++start) {
      ASSERT_EQ(first_set_from(word, start), slow_first_set_from(word, start))
          << word << " from " << start;
    }
  }
}

TEST(Bits, KnowsPowersOfTwo) {
  EXPECT_FALSE(is_power_of_two(0U));
  EXPECT_TRUE(is_power_of_two(1U));
  EXPECT_FALSE(is_power_of_two(3U));
  EXPECT_TRUE(is_power_of_two(kTop));
  EXPECT_FALSE(is_power_of_two(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(round_up_to_power_of_two(0U), 1U);
  EXPECT_EQ(round_up_to_power_of_two(5U), 8U);
  EXPECT_EQ(round_up_to_power_of_two(kTop), kTop);
}

TEST(Bits, RoundsUpToAnyMultiple) {
  for (unsigned multiple = 1; multiple < 70; ++multiple) {
    for (unsigned value = 0; value < 300; ++value) {
      unsigned expected = value;
      while (expected % multiple != 0) ++expected;
      ASSERT_EQ(round_up_to_multiple(value, multiple), expected);
    }
  }
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(round_up_to_multiple(kMax, kMax), kMax);
  EXPECT_EQ(round_up_to_multiple(kMax - 15, std::uint64_t{16}), kMax - 15);
  EXPECT_EQ(round_up_to_multiple(std::uint8_t{200}, std::uint8_t{51}), 204);
}

TEST(BitsDeathTest, RefusesWhatDoesNotFit) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_DEATH((void)round_up_to_multiple(kMax, std::uint64_t{16}), "assertion failed");
  EXPECT_DEATH((void)round_up_to_multiple(1U, 0U), "multiple != 0");
  EXPECT_DEATH((void)round_up_to_power_of_two(kTop + 1), "assertion failed");
}

}  // namespace
}  // namespace pinion

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "wire/sequence_number.h"

namespace pinion::wire {
namespace {

// A bare number is no sequence number, nor the other way round, and there is no order to sort by.
static_assert(!std::is_convertible_v<std::uint32_t, SequenceNumber>);
static_assert(!std::is_convertible_v<SequenceNumber, std::uint32_t>);
template <class T>
concept Ordered = requires(T a, T b) { a < b; };
static_assert(!Ordered<SequenceNumber>);
static_assert(sizeof(SequenceNumber) == 4);

static_assert(before(SequenceNumber(0xffffffff), SequenceNumber(0)));
static_assert(SequenceNumber(5) - SequenceNumber(0xfffffffb) == 10);
static_assert(SequenceNumber(0xfffffffb) - SequenceNumber(5) == -10);
static_assert(SequenceNumber(3) - 4 == SequenceNumber(0xffffffff));

TEST(SequenceNumber, OrdersByTheShorterWayRound) {
  Random random(test::seed());
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i) {
    const SequenceNumber a(static_cast<std::uint32_t>(random.next()));
    const std::uint32_t steps = random.between<std::uint32_t>(1, 0x7fffffff);
    const SequenceNumber b = a + steps;
    ASSERT_TRUE(before(a, b) && at_or_before(a, b) && after(b, a) && at_or_after(b, a));
    ASSERT_FALSE(before(b, a) || at_or_before(b, a) || after(a, b) || at_or_after(a, b));
    ASSERT_EQ(b - a, static_cast<std::int32_t>(steps));
    ASSERT_EQ(a - b, -static_cast<std::int32_t>(steps));
    ASSERT_EQ(b - steps, a);
  }
}

TEST(SequenceNumber, IsNeitherBeforeNorAfterItself) {
  for (const std::uint32_t value : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
    const SequenceNumber a(value);
    EXPECT_FALSE(before(a, a) || after(a, a));
    EXPECT_TRUE(at_or_before(a, a) && at_or_after(a, a));
    EXPECT_EQ(a - a, 0);
  }
}

TEST(SequenceNumber, WindowsHoldWhatStepsFromTheirBeginReach) {
  // Every number, every begin and every size of a ring of 8 bits, spread over the 32.
  for (std::uint32_t first = 0; first < 256; ++first) {
    for (std::uint32_t size = 0; size < 256; size += 5) {
      for (std::uint32_t steps = 0; steps < 256; ++steps) {
        const SequenceNumber begin(first << 24);
        const SequenceNumber number = begin + (steps << 24);
        ASSERT_EQ(in_window(number, begin, size << 24), steps < size);
        ASSERT_EQ(between(begin, number, begin + (size << 24)), steps < size);
      }
    }
  }
}

TEST(SequenceNumber, WindowsOfNoneAndOneOfOne) {
  const SequenceNumber last(0xffffffff);
  EXPECT_FALSE(in_window(last, last, 0));
  EXPECT_TRUE(in_window(last, last, 1));
  EXPECT_FALSE(in_window(last + 1, last, 1));
  EXPECT_TRUE(in_window(last + 1, last, 2));
  EXPECT_FALSE(in_window(last - 1, last, 0xffffffff));
  EXPECT_FALSE(between(last, last, last));
}

}  // namespace
}  // namespace pinion::wire

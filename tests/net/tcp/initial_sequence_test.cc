#include "tcp/initial_sequence.h"

#include <chrono>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

constexpr Instant kStart{std::chrono::hours{100}};

// O8: monotone for a 4-tuple over time,
TEST(InitialSequence, GrowsByOneEveryFourMicroseconds) {
  Random random(test::seed());
  for (int i = 0; i < 100; ++i) {
    const InitialSequence sequence(test::any_key(random));
    const FourTuple tuple = test::any_tuple(random);
    const auto first = sequence.of(tuple, kStart).sequence;
    EXPECT_EQ(sequence.of(tuple, kStart + std::chrono::nanoseconds{3'999}).sequence, first);
    EXPECT_EQ(sequence.of(tuple, kStart + std::chrono::microseconds{4}).sequence, first + 1);
    EXPECT_EQ(sequence.of(tuple, kStart + std::chrono::minutes{1}).sequence, first + 15'000'000);
    // The 32 bits are through after 4.77 hours (RFC 9293, 3.4.1).
    const std::chrono::nanoseconds cycle{(std::int64_t{1} << 32) * 4'000};
    EXPECT_EQ(sequence.of(tuple, kStart + cycle).sequence, first);
  }
}

// O8: and unpredictable across tuples.
TEST(InitialSequence, TellsNothingOfOneTupleByAnother) {
  Random random(test::seed());
  const InitialSequence sequence(test::any_key(random));
  std::set<std::uint32_t> differences;
  std::set<std::uint32_t> offsets;
  constexpr std::uint16_t kTuples = 1'000;
  for (std::uint16_t i = 0; i < kTuples; ++i) {
    const auto numbers = sequence.of(test::tuple_v4(1, 2, i, 80), kStart);
    const auto next =
        sequence.of(test::tuple_v4(1, 2, static_cast<std::uint16_t>(i + 1), 80), kStart);
    differences.insert(next.sequence.value() - numbers.sequence.value());
    offsets.insert(numbers.timestamp_offset);
    EXPECT_NE(numbers.timestamp_offset, numbers.sequence.value());
  }
  // Of 1,000 numbers of 32 bits, more than two pairs are equal once in 10^12 times.
  EXPECT_GE(differences.size(), kTuples - 2U);
  EXPECT_GE(offsets.size(), kTuples - 2U);
}

TEST(InitialSequence, DependsOnItsSecret) {
  const FourTuple tuple = test::tuple_v4(1, 2, 3, 4);
  const auto one = InitialSequence(SipKey{.k0 = 1}).of(tuple, kStart);
  const auto other = InitialSequence(SipKey{.k0 = 2}).of(tuple, kStart);
  EXPECT_NE(one.sequence, other.sequence);
  EXPECT_NE(one.timestamp_offset, other.timestamp_offset);
}

TEST(InitialSequence, GivesATupleTheSameTimestampOffsetForEver) {
  Random random(test::seed());
  const InitialSequence sequence(test::any_key(random));
  const FourTuple tuple = test::any_tuple(random);
  const std::uint32_t offset = sequence.timestamp_offset(tuple);
  EXPECT_EQ(sequence.of(tuple, kStart).timestamp_offset, offset);
  EXPECT_EQ(sequence.of(tuple, kStart + std::chrono::hours{1'000}).timestamp_offset, offset);
}

}  // namespace
}  // namespace pinion

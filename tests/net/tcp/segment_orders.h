#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

/// Sequences of segments of short streams, all of them or some.

namespace pinion::test {

/// A segment: bytes of a stream from `begin` to before `end`.
struct Range {
  std::uint32_t begin;
  std::uint32_t end;
};

/// All segments of a stream of `length` bytes.
inline std::vector<Range> ranges_within(std::uint32_t length) {
  std::vector<Range> ranges;
  for (std::uint32_t begin = 0; begin < length; ++begin) {
    for (std::uint32_t end = begin + 1; end <= length; ++end) ranges.push_back({begin, end});
  }
  return ranges;
}

/// The first `count` segments that `number` means, for whoever looks for a failure.
inline std::string listed(const std::vector<Range>& ranges, std::size_t count,
                          std::uint64_t number) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const Range range = ranges[number % ranges.size()];
    number /= ranges.size();
    text += fmt::format(" {}-{}", range.begin, range.end);
  }
  return text;
}

inline std::uint64_t power(std::uint64_t base, std::size_t exponent) {
  std::uint64_t result = 1;
  for (std::size_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

/// Each order is a sequence of its own, so all sequences of five are all orders of all sets.
inline constexpr std::size_t kSegments = 5;

/// Tries sequences of five segments of streams of 1 to 8 bytes, in `variants` each:
/// `attempt(ranges, number, variant)` answers an AssertionResult. At PINION_TEST_SCALE=5000 and
/// above that is all of them, 36^5 times `variants` of the longest stream.
template <class Attempt>
void try_five(std::size_t variants, Attempt&& attempt) {
  constexpr std::uint64_t kAtOnce = 40'000;
  Random random(seed());
  for (std::uint32_t length = 1; length <= 8; ++length) {
    const std::vector<Range> ranges = ranges_within(length);
    const std::uint64_t sequences = power(ranges.size(), kSegments);
    const std::uint64_t all = sequences * variants;
    const std::uint64_t tried = std::min(scaled(kAtOnce), all);
    for (std::uint64_t i = 0; i < tried; ++i) {
      const std::uint64_t number = tried == all ? i : random.below(all);
      ASSERT_TRUE(attempt(ranges, number % sequences, number / sequences))
          << "of " << length << " bytes, PINION_SEED=" << seed();
    }
    std::printf("%u bytes: %llu of %llu\n", length, static_cast<unsigned long long>(tried),
                static_cast<unsigned long long>(all));
  }
}

}  // namespace pinion::test

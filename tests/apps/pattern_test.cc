#include "load/pattern.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion::apps {
namespace {

std::vector<std::byte> bytes_of(const Pattern& pattern, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> bytes(count);
  pattern.fill(offset, bytes);
  return bytes;
}

TEST(Pattern, IsTheSameInWhateverPiecesItIsWritten) {
  Random random(test::seed());
  const Pattern pattern(test::seed(), 3, 0);
  const std::vector<std::byte> whole = bytes_of(pattern, 1000, 4096);
  std::vector<std::byte> pieces(whole.size());
  for (std::size_t at = 0; at < pieces.size();) {
    const std::size_t count =
        std::min<std::size_t>(random.between<std::size_t>(1, 40), pieces.size() - at);
    pattern.fill(1000 + at, std::span(pieces).subspan(at, count));
    EXPECT_EQ(pattern.matching(1000 + at, std::span(whole).subspan(at, count)), count);
    at += count;
  }
  EXPECT_EQ(pieces, whole);
}

TEST(Pattern, NoticesEveryWrongByteWhereItIs) {
  const Pattern pattern(1, 2, 0);
  std::vector<std::byte> bytes = bytes_of(pattern, 5, 200);
  EXPECT_EQ(pattern.matching(5, bytes), 200U);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_EQ(pattern.matching(5, bytes), at);
    bytes[at] ^= std::byte{0x10};
  }
}

TEST(Pattern, DiffersByConnectionByIncarnationBySeedAndByPlace) {
  const std::vector<std::byte> bytes = bytes_of(Pattern(1, 2, 0), 0, 64);
  for (const Pattern& other : {Pattern(1, 3, 0), Pattern(1, 2, 1), Pattern(2, 2, 0)}) {
    EXPECT_LT(other.matching(0, bytes), 8U);
  }
  for (const std::uint64_t offset : {1U, 8U, 64U, 4096U}) {
    EXPECT_LT(Pattern(1, 2, 0).matching(offset, bytes), 8U);
  }
}

TEST(Pattern, GivesSingleBytes) {
  const Pattern pattern(7, 0, 0);
  const std::vector<std::byte> bytes = bytes_of(pattern, 0, 64);
  for (std::size_t at = 0; at < bytes.size(); ++at) EXPECT_EQ(pattern.at(at), bytes[at]);
}

}  // namespace
}  // namespace pinion::apps

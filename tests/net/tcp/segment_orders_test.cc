#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "reassembly_model.h"
#include "segment_orders.h"

/// Segments in every order and with every overlap, as receive_text() takes them, beside one entry
/// per byte.

namespace pinion::test {
namespace {

/// `count` segments, in packets of every shape in turn; `number` says which segments, `first_shape`
/// where the turn begins.
::testing::AssertionResult try_segments(ByteWorld& world, const std::vector<Range>& ranges,
                                        std::size_t count, std::uint64_t number,
                                        std::size_t first_shape) {
  const std::uint32_t length = ranges.back().end;
  // The numbers wrap around in the middle of the stream.
  const wire::SequenceNumber start(0U - length / 2);
  ReassemblyModel model(world, start, length, 65535);
  std::uint64_t rest = number;
  for (std::size_t i = 0; i < count && !model.is_over(); ++i) {
    const Range range = ranges[rest % ranges.size()];
    rest /= ranges.size();
    const auto shape = static_cast<Shape>((first_shape + i) % kShapes);
    if (!model.arrive(range.begin, range.end, shape)) {
      return ::testing::AssertionFailure()
             << model.failure() << " differs after" << listed(ranges, i + 1, number);
    }
  }
  if (!model.read(length, false)) {
    return ::testing::AssertionFailure()
           << model.failure() << " differs, read after" << listed(ranges, count, number);
  }
  return ::testing::AssertionSuccess();
}

void try_all(std::uint32_t length, std::size_t count) {
  ByteWorld world;
  const std::vector<Range> ranges = ranges_within(length);
  const std::uint64_t all = power(ranges.size(), count);
  for (std::uint64_t number = 0; number < all; ++number) {
    for (std::size_t shape = 0; shape < kShapes; ++shape) {
      ASSERT_TRUE(try_segments(world, ranges, count, number, shape)) << "of " << length << " bytes";
    }
  }
  EXPECT_EQ(world.live(), 0U);
}

/// Each order is a sequence of its own, so all sequences of segments are all orders of all sets.
TEST(SegmentOrders, AreTakenWithEveryOverlap) {
  try_all(8, 3);
  try_all(5, 4);
  try_all(4, 5);
}

TEST(SegmentOrders, OfFiveSegmentsOfUpToEightBytesAreTaken) {
  ByteWorld world;
  try_five(kShapes, [&world](const std::vector<Range>& ranges, std::uint64_t number,
                             std::size_t first_shape) {
    return try_segments(world, ranges, kSegments, number, first_shape);
  });
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

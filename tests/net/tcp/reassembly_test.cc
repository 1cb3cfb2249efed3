#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "reassembly_model.h"

/// Segments as receive_text() takes them, beside one entry per byte.

namespace pinion::test {
namespace {

TEST(Reassembly, TakesLongSegmentsAnyhow) {
  constexpr std::uint32_t kLength = 60'000;
  Random random(seed());
  ByteWorld world;
  for (std::uint64_t stream = 0; stream < scaled(20); ++stream) {
    const wire::SequenceNumber start(static_cast<std::uint32_t>(random.next()));
    ReassemblyModel model(world, start, kLength, 30'000);
    while (!model.is_over()) {
      const std::uint32_t longest = random.chance(0.5) ? 1'500 : 40;
      // With many blocks only what fills the first gap, so that no limit is met.
      const std::uint32_t ahead =
          model.blocks() + 2 > OutOfOrder::kMaxBlocks ? 0 : random.between(0U, 5'000U);
      const std::uint32_t from = model.next() + ahead;
      const std::uint32_t begin =
          std::min(from - std::min(from, random.between(0U, 200U)), kLength - 1);
      const std::uint32_t end = std::min(begin + random.between(1U, longest), kLength);
      const auto shape = static_cast<Shape>(random.below(kShapes));
      ASSERT_TRUE(model.arrive(begin, end, shape)) << model.failure() << " PINION_SEED=" << seed();
      if (random.chance(0.3)) continue;
      ASSERT_TRUE(model.read(random.below(3'000), random.chance(0.5)))
          << model.failure() << " PINION_SEED=" << seed();
    }
  }
  EXPECT_EQ(world.live(), 0U);
}

struct Connection {
  explicit Connection(ByteWorld& bytes, std::uint32_t limit = 65535)
      : world(bytes), queue(wire::SequenceNumber(1000), limit) {
    static_cast<void>(queue.offer(1460, 0));
  }
  ~Connection() {
    queue.clear(world.receive);
    beyond.clear(world.beyond);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  TextOutcome arrive(std::uint32_t begin, std::size_t count, bool fin = false) {
    PacketPtr payload;
    if (count != 0) payload = world.packet(some_bytes(count));
    return receive_text({.begin = wire::SequenceNumber(begin),
                         .payload = std::move(payload),
                         .fin = fin,
                         .report = true},
                        queue, beyond, world.receive, world.beyond);
  }

  ByteWorld& world;
  ReceiveQueue queue;
  OutOfOrder beyond;
};

TEST(Reassembly, RemembersAFinThatComesBeforeItsData) {
  ByteWorld world;
  {
    Connection connection(world);
    EXPECT_FALSE(connection.arrive(1100, 0, true).fin);
    EXPECT_EQ(connection.queue.next().value(), 1000U);
    const TextOutcome data = connection.arrive(1000, 100);
    EXPECT_EQ(data.delivered, 100U);
    EXPECT_TRUE(data.fin);
    EXPECT_EQ(connection.queue.next().value(), 1101U);
    EXPECT_EQ(world.beyond.connections(), 0U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(Reassembly, TakesNothingBehindAFin) {
  ByteWorld world;
  {
    Connection connection(world);
    static_cast<void>(connection.arrive(1050, 50, true));
    static_cast<void>(connection.arrive(1090, 40));
    const TextOutcome data = connection.arrive(1000, 500, true);
    EXPECT_EQ(data.delivered, 100U);
    EXPECT_TRUE(data.fin);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(Reassembly, CutsWhatLiesBeyondTheWindowAndItsFin) {
  ByteWorld world;
  {
    Connection connection(world, 1500);
    const TextOutcome all = connection.arrive(1000, 1600, true);
    EXPECT_EQ(all.delivered, 1500U);
    EXPECT_TRUE(all.outside);
    EXPECT_FALSE(all.fin);
    EXPECT_EQ(connection.arrive(2500, 1).delivered, 0U);
    EXPECT_TRUE(connection.arrive(2501, 0, true).outside);
    EXPECT_TRUE(connection.arrive(2500, 0, true).fin) << "a FIN needs no room";
    EXPECT_EQ(connection.queue.window(), 0U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(Reassembly, DeliversInOrderThoughTheLcoreHasNoRoomOutOfOrder) {
  ByteWorld world({.out_of_order = {.connections = 8,
                                    .blocks = 8,
                                    .true_size = 3 * 2048,
                                    .connection_true_size = 1U << 20}});
  {
    Connection other(world);
    Connection connection(world);
    for (const std::uint32_t begin : {1400U, 1800U}) static_cast<void>(other.arrive(begin, 300));
    static_cast<void>(connection.arrive(1100, 100));
    EXPECT_EQ(world.beyond.true_size(), 3 * 2048U) << "all there is";
    EXPECT_EQ(connection.arrive(1000, 150).delivered, 200U);
    EXPECT_EQ(other.arrive(1000, 400).delivered, 700U);
  }
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

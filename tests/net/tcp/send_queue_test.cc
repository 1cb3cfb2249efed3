#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "send_queue_model.h"

namespace pinion::test {
namespace {

constexpr wire::SequenceNumber kStart(0xffff'ff00U);

struct Sender {
  explicit Sender(ByteWorld& bytes, std::uint32_t limit = 1U << 20)
      : world(bytes), queue(kStart, limit) {}
  ~Sender() { queue.clear(world.send); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  std::size_t write(const Bytes& bytes) { return queue.write(bytes, world.send); }
  std::size_t write(PacketPtr packet) { return queue.write(packet, world.send); }
  SendSegment segment(std::uint32_t from, std::uint32_t most) {
    return queue.segment(kStart + from, most, world.send);
  }
  void acknowledge(std::uint32_t up_to) { queue.acknowledge(kStart + up_to, world.send); }

  ByteWorld& world;
  SendQueue queue;
};

TEST(SendQueue, AgreesWithAllBytesWritten) {
  Random random(seed());
  for (const std::size_t max_segments : {1U, 2U, 8U}) {
    ByteWorld world({.max_segments = max_segments});
    for (std::uint64_t run = 0; run < scaled(20); ++run) {
      const wire::SequenceNumber start(static_cast<std::uint32_t>(random.next()));
      SendQueueModel model(world, start, random.between(1U, 100'000U), random);
      for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(model.step()) << model.failure() << " PINION_SEED=" << seed();
      }
    }
    EXPECT_EQ(world.live(), 0U);
  }
}

TEST(SendQueue, KeepsManySmallWritesInOnePacket) {
  ByteWorld world;
  {
    Sender sender(world);
    for (int i = 0; i < 1'000; ++i) EXPECT_EQ(sender.write(some_bytes(1)), 1U);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(sender.write(world.packet(some_bytes(100))), 100U);
    EXPECT_EQ(world.packets->live(), 1U);
    EXPECT_EQ(sender.queue.true_size(), 2048U);
    EXPECT_EQ(sender.queue.size(), 1'500U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, SendsTheVeryBufferThatWasMovedIn) {
  ByteWorld world;
  {
    Sender sender(world);
    PacketPtr chunk = world.packet(some_bytes(1'000));
    const std::byte* const place = chunk->data();
    EXPECT_EQ(sender.write(std::move(chunk)), 1'000U);
    const SendSegment segment = sender.segment(0, 1'460);
    EXPECT_EQ(segment.size, 1'000U);
    EXPECT_TRUE(segment.packet->empty());
    ASSERT_NE(segment.packet->next_segment(), nullptr);
    EXPECT_EQ(segment.packet->next_segment()->data(), place);
    sender.acknowledge(1'000);
    EXPECT_TRUE(sender.queue.empty());
    EXPECT_EQ(bytes_of(*segment.packet), some_bytes(1'000)) << "on its way still";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, CopiesSmallPayloads) {
  ByteWorld world;
  {
    Sender sender(world);
    EXPECT_EQ(sender.write(some_bytes(1'000)), 1'000U);
    const SendSegment segment = sender.segment(100, kCopyBreak - 1);
    EXPECT_EQ(segment.packet->next_segment(), nullptr);
    EXPECT_EQ(segment.packet->size(), kCopyBreak - 1);
    EXPECT_EQ(world.packets->live_views(), 0U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, NeverWritesBehindBytesThatAreOnTheirWay) {
  ByteWorld world;
  {
    Sender sender(world);
    EXPECT_EQ(sender.write(some_bytes(500)), 500U);
    SendSegment segment = sender.segment(0, 500);
    EXPECT_EQ(sender.write(some_bytes(10)), 10U);
    EXPECT_EQ(sender.queue.true_size(), 2 * 2048U);
    segment.packet.reset();
    EXPECT_EQ(sender.write(some_bytes(10)), 10U);
    EXPECT_EQ(sender.queue.true_size(), 2 * 2048U);
  }
  EXPECT_EQ(world.live(), 0U);
}

/// RFC 9293, MUST-60 and MUST-61.
TEST(SendQueue, PushesWithTheLastByteQueued) {
  ByteWorld world;
  {
    Sender sender(world);
    EXPECT_EQ(sender.write(some_bytes(3'000)), 3'000U);
    EXPECT_FALSE(sender.segment(0, 1'460).push);
    EXPECT_FALSE(sender.segment(1'460, 1'460).push);
    EXPECT_TRUE(sender.segment(2'920, 1'460).push);
    EXPECT_EQ(sender.write(some_bytes(1)), 1U);
    EXPECT_FALSE(sender.segment(2'920, 80).push);
    EXPECT_TRUE(sender.segment(2'920, 81).push);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, CutsOtherSegmentsWhenItSendsAgain) {
  ByteWorld world;
  {
    Sender sender(world);
    const Bytes bytes = some_bytes(10'000);
    EXPECT_EQ(sender.write(bytes), bytes.size());
    for (const std::uint32_t size : {1'460U, 536U, 1U, 9'000U}) {
      for (std::uint32_t from = 0; from < bytes.size();) {
        const SendSegment segment = sender.segment(from, size);
        const Bytes got = bytes_of(*segment.packet);
        ASSERT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + from));
        ASSERT_EQ(got.size(), std::min<std::size_t>(size, bytes.size() - from));
        from += segment.size;
      }
    }
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, CopiesForADeviceThatTakesNoChains) {
  ByteWorld world({.max_segments = 1});
  {
    Sender sender(world);
    EXPECT_EQ(sender.write(some_bytes(5'000)), 5'000U);
    const SendSegment segment = sender.segment(0, 1'460);
    EXPECT_EQ(segment.size, 1'460U);
    EXPECT_EQ(segment.packet->size(), 1'460U);
    const SendSegment large = sender.segment(0, 4'000);
    EXPECT_EQ(large.size, 2'048 - kPacketHeadroom) << "what fits";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, TakesBytesUpToItsLimitByTrueSize) {
  ByteWorld world;
  {
    Sender sender(world, 8'192);
    const std::size_t per_packet = 2'048 - kPacketHeadroom;
    EXPECT_EQ(sender.write(some_bytes(100'000)), 4 * per_packet);
    EXPECT_TRUE(sender.queue.full());
    EXPECT_EQ(sender.write(some_bytes(1)), 0U);
    PacketPtr chunk = world.packet(some_bytes(10));
    EXPECT_EQ(sender.queue.write(chunk, world.send), 0U);
    EXPECT_TRUE(chunk);
    sender.acknowledge(static_cast<std::uint32_t>(per_packet) - 1);
    EXPECT_TRUE(sender.queue.full());
    sender.acknowledge(static_cast<std::uint32_t>(per_packet));
    EXPECT_FALSE(sender.queue.full());
    EXPECT_EQ(sender.queue.write(chunk, world.send), 10U);
    EXPECT_FALSE(chunk);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(SendQueue, SaysSoWhenNoPacketIsLeft) {
  ByteWorld world({.packets = 2});
  {
    Sender sender(world);
    EXPECT_EQ(sender.write(some_bytes(10'000)), 2 * (2'048 - kPacketHeadroom));
    const SendSegment segment = sender.segment(0, 1'460);
    EXPECT_FALSE(segment.packet);
    EXPECT_EQ(segment.size, 0U);
  }
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

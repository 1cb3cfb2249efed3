#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "byte_world.h"

namespace pinion::test {
namespace {

constexpr std::uint32_t kMss = 1460;

struct Receiver {
  Receiver(ByteWorld& bytes, std::uint32_t limit, unsigned shift = 0)
      : world(bytes), queue(wire::SequenceNumber(0xffff'ff00U), limit), scale(shift) {
    static_cast<void>(offer());
  }
  ~Receiver() { queue.clear(world.receive); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  bool push(std::size_t count, Shape shape = Shape::roomy) {
    return queue.push(PacketChain(world.packet(some_bytes(count), shape)), world.receive);
  }
  std::size_t read(std::size_t count) {
    Bytes into(count);
    return queue.read(into, world.receive);
  }
  /// The window as the peer sees it.
  std::uint32_t offer() { return std::uint32_t{queue.offer(kMss, scale)} << scale; }
  [[nodiscard]] bool update_due() const { return queue.update_due(kMss, scale); }

  ByteWorld& world;
  ReceiveQueue queue;
  unsigned scale;
};

TEST(ReceiveQueue, OffersWhatItMayHold) {
  ByteWorld world;
  struct Case {
    std::uint32_t limit;
    unsigned scale;
    std::uint32_t offered;
  };
  for (const auto& [limit, scale, offered] :
       {Case{65535, 0, 65535}, Case{65536, 0, 65535}, Case{65536, 1, 65536},
        Case{524288, 4, 524288}, Case{1U << 20, 5, 1U << 20}, Case{1U << 29, 14, 1U << 29},
        Case{1U << 20, 0, 65535}, Case{1, 0, 1}}) {
    Receiver receiver(world, limit, 0);
    EXPECT_EQ(receiver.queue.window(), std::min(limit, 65535U)) << "in the SYN";
    receiver.scale = scale;
    EXPECT_EQ(receiver.offer(), offered) << limit;
  }
  EXPECT_EQ(world.live(), 0U);
}

/// RFC 9293, 3.8.6, SHLD-14, with reading of all kinds. The peer's edge stands still or moves right,
/// though scaled windows are rounded.
TEST(ReceiveQueue, NeverMovesTheRightEdgeLeft) {
  Random random(seed());
  ByteWorld world;
  for (std::uint64_t run = 0; run < scaled(200); ++run) {
    const auto limit = random.between(4'096U, 1U << 21);
    unsigned scale = 0;
    while ((65535U << scale) < limit) ++scale;
    Receiver receiver(world, limit, scale);
    wire::SequenceNumber edge = receiver.queue.next() + receiver.offer();
    for (int step = 0; step < 300; ++step) {
      const auto count = std::min(random.between(512U, 1'460U), receiver.queue.window());
      if (random.chance(0.6) && count != 0) static_cast<void>(receiver.push(count));
      if (random.chance(0.2)) receiver.read(random.below(20'000));
      if (random.chance(0.1)) receiver.queue.pop(world.receive).reset();
      receiver.queue.compact(world.receive);
      const wire::SequenceNumber offered = receiver.queue.next() + receiver.offer();
      ASSERT_FALSE(before(offered, edge)) << "PINION_SEED=" << seed();
      ASSERT_FALSE(after(offered, receiver.queue.edge())) << "PINION_SEED=" << seed();
      ASSERT_LE(receiver.queue.size() + receiver.queue.window(), limit + limit / 8 + (1U << scale))
          << "PINION_SEED=" << seed();
      edge = offered;
    }
  }
  EXPECT_EQ(world.live(), 0U);
}

/// RFC 7323, 2.4: rounding up for ever would let single bytes in without end.
TEST(ReceiveQueue, ClosesAScaledWindowToSingleBytes) {
  ByteWorld world;
  {
    Receiver receiver(world, 1U << 20, 5);
    std::uint32_t taken = 0;
    while (receiver.offer() != 0 && receiver.push(1)) ++taken;
    EXPECT_GE(taken, 1U << 20);
    EXPECT_LE(taken, (1U << 20) / 8 * 9);
    while (receiver.queue.window() != 0) ASSERT_TRUE(receiver.push(1)) << "what was offered";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, AnnouncesTheRoomThatReadingMade) {
  ByteWorld world;
  {
    Receiver receiver(world, 65535);
    while (receiver.queue.window() != 0) {
      ASSERT_TRUE(receiver.push(std::min(kMss, receiver.queue.window())));
    }
    EXPECT_EQ(receiver.offer(), 0U);
    EXPECT_FALSE(receiver.update_due());
    EXPECT_EQ(receiver.read(65535), 65535U);
    EXPECT_TRUE(receiver.update_due());
    EXPECT_EQ(receiver.offer(), 65535U);
    EXPECT_FALSE(receiver.update_due());
  }
  EXPECT_EQ(world.live(), 0U);
}

/// RFC 9293, 3.8.6.2.2.
TEST(ReceiveQueue, OffersNoSillyWindowsToAReaderOfSingleBytes) {
  ByteWorld world;
  {
    Receiver receiver(world, 20'000);
    while (receiver.queue.window() != 0) {
      ASSERT_TRUE(receiver.push(std::min(kMss, receiver.queue.window())));
    }
    std::uint32_t offered = receiver.offer();
    ASSERT_EQ(offered, 0U);
    while (receiver.read(1) == 1) {
      const bool due = receiver.update_due();
      const std::uint32_t now = receiver.offer();
      ASSERT_TRUE(now == offered || now >= offered + kMss) << offered << " " << now;
      EXPECT_TRUE(!due || now != offered);
      offered = now;
    }
    EXPECT_GE(offered, 20'000 - kMss);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, OffersHalfOfASmallLimit) {
  ByteWorld world;
  {
    Receiver receiver(world, 1'000);
    ASSERT_TRUE(receiver.push(1'000));
    EXPECT_EQ(receiver.offer(), 0U);
    receiver.read(999);
    EXPECT_EQ(receiver.offer(), 0U) << "its packet is still held";
    receiver.read(1);
    EXPECT_TRUE(receiver.update_due());
    EXPECT_EQ(receiver.offer(), 1'000U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, ChargesPacketsByTrueSize) {
  ByteWorld world;
  {
    Receiver receiver(world, 65535);
    ASSERT_TRUE(receiver.push(300, Shape::tight));
    ASSERT_TRUE(receiver.push(300, Shape::tight));
    EXPECT_EQ(receiver.queue.true_size(), 2 * 2048U);
    EXPECT_EQ(receiver.queue.size(), 600U);
    receiver.read(299);
    EXPECT_EQ(receiver.queue.true_size(), 2 * 2048U);
    receiver.read(1);
    EXPECT_EQ(receiver.queue.true_size(), 2048U);
    const PacketPtr kept = receiver.queue.pop(world.receive);
    EXPECT_EQ(receiver.queue.true_size(), 0U) << "the reader's affair now";
    EXPECT_TRUE(receiver.queue.empty());
    EXPECT_EQ(world.receive.unread.live(), 0U) << "an empty queue holds no record";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, RefusesWhatCostsFarMoreThanItsLimit) {
  ByteWorld world;
  {
    Receiver receiver(world, 65535);
    std::uint32_t taken = 0;
    while (receiver.push(1, Shape::tight)) ++taken;
    EXPECT_EQ(taken, ReceiveQueue::kOverdraft * 65535 / 2048 + 1);
    EXPECT_EQ(receiver.queue.size(), taken);
    EXPECT_EQ(receiver.queue.next(), wire::SequenceNumber(0xffff'ff00U) + taken);
    receiver.read(2);
    receiver.read(1);
    EXPECT_TRUE(receiver.push(1, Shape::tight));
  }
  EXPECT_EQ(world.live(), 0U);
}

/// 1,000,000 segments of a byte for a reader who takes none until the window is shut.
TEST(ReceiveQueue, HoldsAMillionSingleBytesInFewPackets) {
  ByteWorld world;
  {
    Receiver receiver(world, 1U << 20, 5);
    for (std::uint32_t i = 0; i < 1'000'000; ++i) {
      ASSERT_TRUE(
          receiver.queue.push(PacketChain(world.packet(std::array{byte_at(7, i)})), world.receive));
      if (i % 32 == 0) receiver.queue.compact(world.receive);
      static_cast<void>(receiver.offer());
    }
    EXPECT_LT(world.packets->capacity() - world.packets->lowest_available(), 600U);
    EXPECT_EQ(receiver.queue.size(), 1'000'000U);
    Bytes all(1'000'000);
    EXPECT_EQ(receiver.queue.read(all, world.receive), all.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], byte_at(7, i));
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, MovesALoneSmallPayloadOutOfItsPacket) {
  ByteWorld world;
  {
    Receiver receiver(world, 65535);
    ASSERT_TRUE(receiver.push(kCopyBreak - 1));
    receiver.queue.compact(world.receive);
    EXPECT_EQ(world.packets->live(), 0U);
    EXPECT_EQ(receiver.queue.true_size(), 512U);
    Bytes got(kCopyBreak - 1);
    EXPECT_EQ(receiver.queue.read(got, world.receive), got.size());
    EXPECT_EQ(got, some_bytes(kCopyBreak - 1));

    ASSERT_TRUE(receiver.push(kCopyBreak));
    receiver.queue.compact(world.receive);
    EXPECT_EQ(world.packets->live(), 1U) << "that is worth its packet";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, NeverWritesBehindBytesThatOthersSee) {
  ByteWorld world;
  {
    Receiver receiver(world, 65535);
    PacketPtr owner = world.packet(some_bytes(100));
    PacketPtr view(world.packets->view(*owner, 0, 100));
    ASSERT_TRUE(receiver.queue.push(PacketChain(std::move(view)), world.receive));
    ASSERT_TRUE(receiver.push(10));
    EXPECT_EQ(receiver.queue.true_size(), 2 * 2048U);
    EXPECT_EQ(receiver.read(200), 110U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(ReceiveQueue, PassesAFinInAFullWindow) {
  ByteWorld world;
  {
    Receiver receiver(world, 1'000);
    ASSERT_TRUE(receiver.push(1'000));
    receiver.queue.pass_fin();
    EXPECT_EQ(receiver.queue.window(), 0U);
    EXPECT_EQ(receiver.queue.next(), wire::SequenceNumber(0xffff'ff00U) + 1'001);
  }
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

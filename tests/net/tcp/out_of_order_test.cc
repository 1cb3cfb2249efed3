#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "byte_world.h"

namespace pinion::test {
namespace {

using Blocks = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// One connection whose RCV.NXT is below what is inserted.
struct Holder {
  explicit Holder(ByteWorld& bytes) : world(bytes) {}
  ~Holder() { beyond.clear(world.beyond); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  OutOfOrderOutcome insert(std::uint32_t begin, std::uint32_t end, Shape shape = Shape::roomy,
                           std::uint32_t salt = 0) {
    return beyond.insert(wire::SequenceNumber(begin),
                         PacketChain(world.packet(some_bytes(end - begin, salt), shape)), true,
                         world.beyond);
  }

  Blocks report(std::size_t most = 4) {
    Blocks blocks;
    for (const wire::SackBlock& block : beyond.take_report(most, world.beyond)) {
      blocks.emplace_back(block.left.value(), block.right.value());
    }
    return blocks;
  }

  ByteWorld& world;
  OutOfOrder beyond;
};

/// RFC 2018, 4: segments of 500 bytes from 5000 on, of which the 2nd, 4th, 6th and 8th are lost.
TEST(OutOfOrder, ReportsTheBlockTouchedLastFirst) {
  ByteWorld world;
  {
    Holder holder(world);
    holder.insert(6000, 6500);
    EXPECT_EQ(holder.report(3), (Blocks{{6000, 6500}}));
    holder.insert(7000, 7500);
    EXPECT_EQ(holder.report(3), (Blocks{{7000, 7500}, {6000, 6500}}));
    holder.insert(8000, 8500);
    EXPECT_EQ(holder.report(3), (Blocks{{8000, 8500}, {7000, 7500}, {6000, 6500}}));
    holder.insert(6500, 7000);
    EXPECT_EQ(holder.report(3), (Blocks{{6000, 7500}, {8000, 8500}}));
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, ReportsNoMoreBlocksThanFit) {
  ByteWorld world;
  {
    Holder holder(world);
    for (std::uint32_t at = 1000; at < 1010; at += 2) holder.insert(at, at + 1);
    EXPECT_EQ(holder.report(2), (Blocks{{1008, 1009}, {1006, 1007}}));
    EXPECT_EQ(holder.report(9).size(), wire::SackBlocks::kMost);
    EXPECT_TRUE(holder.report(0).empty());
  }
  EXPECT_EQ(world.live(), 0U);
}

/// RFC 2883, 4.1.1 to 4.2.3: the D-SACK once, then the block that has it.
TEST(OutOfOrder, ReportsADuplicateOnceAheadOfItsBlock) {
  ByteWorld world;
  {
    Holder holder(world);
    holder.beyond.note_duplicate({wire::SequenceNumber(3000), wire::SequenceNumber(3500)},
                                 world.beyond);
    EXPECT_EQ(holder.report(), (Blocks{{3000, 3500}}));
    EXPECT_EQ(world.beyond.connections(), 0U) << "nothing is left to tell";

    holder.insert(4500, 5000);
    holder.insert(5500, 6000);
    static_cast<void>(holder.report());
    EXPECT_EQ(holder.insert(4500, 5000), OutOfOrderOutcome::duplicate);
    EXPECT_EQ(holder.report(), (Blocks{{4500, 5000}, {4500, 5000}, {5500, 6000}}));
    EXPECT_EQ(holder.report(), (Blocks{{4500, 5000}, {5500, 6000}}));

    EXPECT_EQ(holder.insert(5800, 6300), OutOfOrderOutcome::kept);
    EXPECT_EQ(holder.report(), (Blocks{{5800, 6000}, {5500, 6300}, {4500, 5000}}));
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, JoinsDuplicatesOfOneBurstThatTouch) {
  ByteWorld world;
  {
    Holder holder(world);
    const auto note = [&](std::uint32_t left, std::uint32_t right) {
      holder.beyond.note_duplicate({wire::SequenceNumber(left), wire::SequenceNumber(right)},
                                   world.beyond);
    };
    note(200, 300);
    note(300, 400);
    note(100, 250);
    EXPECT_EQ(holder.report(), (Blocks{{100, 400}}));
    note(100, 200);
    note(500, 600);
    EXPECT_EQ(holder.report(), (Blocks{{500, 600}}));
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, KeepsTheFirstArrivalOfAByte) {
  ByteWorld world;
  {
    Holder holder(world);
    holder.insert(110, 120, Shape::tight, 1);
    holder.insert(130, 140, Shape::tight, 2);
    holder.insert(100, 150, Shape::split, 3);
    Bytes expected = some_bytes(50, 3);
    const Bytes first = some_bytes(10, 1);
    const Bytes second = some_bytes(10, 2);
    std::copy(first.begin(), first.end(), expected.begin() + 10);
    std::copy(second.begin(), second.end(), expected.begin() + 30);
    PacketChain all = holder.beyond.join(
        wire::SequenceNumber(90), PacketChain(world.packet(some_bytes(10))), true, world.beyond);
    ASSERT_EQ(all.size(), 60U);
    all.remove_prefix(10);
    EXPECT_EQ(bytes_of(*all.front()), expected);
    EXPECT_EQ(holder.beyond.true_size(), 0U);
    static_cast<void>(holder.report());
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, LosesOnlyWhatItHasNoPacketToCopyInto) {
  ByteWorld world({.packets = 2});
  {
    Holder holder(world);
    holder.insert(1400, 1500);
    EXPECT_EQ(holder.insert(1000, 2000), OutOfOrderOutcome::kept);
    static_cast<void>(holder.report());
    EXPECT_EQ(holder.report(), (Blocks{{1000, 1500}}));
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, CopiesSmallSegmentsThatFollowEachOther) {
  ByteWorld world;
  {
    Holder holder(world);
    for (std::uint32_t at = 1000; at < 2000; ++at) holder.insert(at, at + 1);
    EXPECT_EQ(world.packets->live(), 1U);
    EXPECT_EQ(holder.beyond.true_size(), 2048U);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, DropsTheHighestBlocksForLowerOnes) {
  ByteWorld world;
  {
    Holder holder(world);
    for (std::uint32_t i = 0; i < OutOfOrder::kMaxBlocks; ++i) {
      EXPECT_EQ(holder.insert(1010 + 10 * i, 1011 + 10 * i), OutOfOrderOutcome::kept);
    }
    EXPECT_EQ(holder.insert(5000, 5001), OutOfOrderOutcome::no_room);
    EXPECT_EQ(holder.report(1), (Blocks{{1640, 1641}}));
    EXPECT_EQ(holder.insert(1000, 1001), OutOfOrderOutcome::kept);
    EXPECT_EQ(holder.beyond.blocks(), OutOfOrder::kMaxBlocks);
    EXPECT_EQ(holder.insert(1640, 1641), OutOfOrderOutcome::no_room) << "the one that was dropped";
    EXPECT_EQ(holder.insert(1631, 1632), OutOfOrderOutcome::kept) << "it touches the last one";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, HoldsNoMoreThanItsLimits) {
  ByteWorld world({.out_of_order = {.connections = 2,
                                    .blocks = 100,
                                    .true_size = 10 * 2048,
                                    .connection_true_size = 6 * 2048}});
  {
    Holder a(world);
    Holder b(world);
    Holder c(world);
    for (std::uint32_t i = 0; i < 6; ++i) {
      EXPECT_EQ(a.insert(1000 + 600 * i, 1300 + 600 * i), OutOfOrderOutcome::kept);
    }
    EXPECT_EQ(a.insert(9000, 9300), OutOfOrderOutcome::no_room);
    EXPECT_EQ(a.insert(1300, 1310), OutOfOrderOutcome::kept) << "the highest block made room";
    EXPECT_EQ(a.beyond.blocks(), 5U);
    EXPECT_EQ(world.beyond.true_size(), 5 * 2048U);
    for (std::uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(b.insert(1000 + 600 * i, 1300 + 600 * i), OutOfOrderOutcome::kept);
    }
    EXPECT_EQ(b.insert(9000, 9300), OutOfOrderOutcome::kept) << "the lcore was full";
    EXPECT_EQ(a.beyond.blocks(), 0U) << "it began first";
    EXPECT_EQ(c.insert(1000, 1300), OutOfOrderOutcome::kept);
    EXPECT_EQ(a.insert(1000, 1300), OutOfOrderOutcome::kept) << "no record was left";
    EXPECT_EQ(b.beyond.blocks(), 0U);
    EXPECT_EQ(world.beyond.connections(), 2U);
  }
  EXPECT_EQ(world.live(), 0U);
  EXPECT_EQ(world.beyond.true_size(), 0U);
}

TEST(OutOfOrder, ABlockOfOneConnectionGivesWayToAnothers) {
  ByteWorld world({.out_of_order = {.connections = 4, .blocks = 2, .true_size = 1 << 20}});
  {
    Holder a(world);
    Holder b(world);
    a.insert(1000, 1300);
    a.insert(2000, 2300);
    EXPECT_EQ(b.insert(1000, 1300), OutOfOrderOutcome::kept);
    EXPECT_EQ(a.beyond.blocks(), 0U);
    EXPECT_EQ(b.insert(2000, 2300), OutOfOrderOutcome::kept);
    EXPECT_EQ(b.insert(3000, 3300), OutOfOrderOutcome::no_room) << "all are its own";
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, KeepsAsMuchAsALargeReceiveBuffer) {
  ByteWorld world({.out_of_order = {.connections = 2,
                                    .blocks = 100,
                                    .true_size = 1 << 20,
                                    .connection_true_size = 2 * 2048}});
  {
    Holder holder(world);
    const auto insert = [&](std::uint32_t begin, std::uint32_t buffer) {
      return holder.beyond.insert(wire::SequenceNumber(begin),
                                  PacketChain(world.packet(some_bytes(300))), false, world.beyond,
                                  buffer);
    };
    EXPECT_EQ(insert(1000, 0), OutOfOrderOutcome::kept);
    EXPECT_EQ(insert(2000, 0), OutOfOrderOutcome::kept);
    EXPECT_EQ(insert(3000, 0), OutOfOrderOutcome::no_room);
    EXPECT_EQ(insert(3000, 3 * 2048), OutOfOrderOutcome::kept);
    EXPECT_EQ(insert(4000, 3 * 2048), OutOfOrderOutcome::no_room);
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(OutOfOrder, ShedsThoseFirstThatBeganFirst) {
  ByteWorld world;
  {
    Holder a(world);
    Holder b(world);
    Holder c(world);
    for (Holder* holder : {&b, &a, &c}) {
      holder->insert(1000, 1300);
      holder->insert(2000, 2300);
    }
    b.beyond.remember_fin(wire::SequenceNumber(2300), world.beyond);
    EXPECT_EQ(world.beyond.shed(2049), 4096U);
    EXPECT_FALSE(b.beyond.has_bytes());
    EXPECT_TRUE(a.beyond.has_bytes());
    EXPECT_TRUE(b.beyond.fin_at(wire::SequenceNumber(2300))) << "a FIN takes no memory";
    EXPECT_EQ(world.beyond.shed(1U << 30), 2 * 4096U);
    EXPECT_FALSE(c.beyond.has_bytes());
    EXPECT_EQ(world.beyond.connections(), 1U) << "with a FIN to remember";
    EXPECT_EQ(b.insert(1000, 1300), OutOfOrderOutcome::kept);
    EXPECT_EQ(b.report(), (Blocks{{1000, 1300}}));
  }
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

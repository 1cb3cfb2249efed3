#include <pinion/net/packet.h>

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/net/packet_copy.h>
#include <pinion/test/packets.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

using test::Bytes;
using test::bytes_of;
using test::make_chain;
using test::make_packet;
using test::TestPool;

Bytes counting(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

TEST(Packet, GrowsAndShrinksAtBothEnds) {
  TestPool pool;
  const PacketPtr packet = make_packet(*pool, counting(100));
  EXPECT_EQ(packet->headroom(), kPacketHeadroom);
  EXPECT_EQ(packet->tailroom(), pool->buffer_size() - kPacketHeadroom - 100);
  packet->remove_prefix(10);
  packet->remove_suffix(20);
  EXPECT_EQ(packet->size(), 70U);
  EXPECT_EQ(bytes_of(*packet).front(), 10U);
  EXPECT_EQ(packet->prepend(kPacketHeadroom + 11), nullptr);
  ASSERT_NE(packet->prepend(kPacketHeadroom + 10), nullptr);
  EXPECT_EQ(packet->headroom(), 0U);
  EXPECT_EQ(packet->append(packet->tailroom() + 1), nullptr);
  ASSERT_NE(packet->append(packet->tailroom()), nullptr);
  EXPECT_EQ(packet->size(), pool->buffer_size());
  EXPECT_EQ(packet->true_size(), pool->buffer_size());
}

TEST(Packet, LivesUntilItsLastReferenceIsGivenBack) {
  TestPool pool;
  PacketPtr first = make_packet(*pool, counting(4));
  EXPECT_FALSE(first->shared());
  first->add_reference();
  PacketPtr second(first.get());
  EXPECT_TRUE(first->shared());
  first.reset();
  EXPECT_EQ(pool->live(), 1U);
  EXPECT_FALSE(second->shared());
  EXPECT_EQ(bytes_of(*second), counting(4));
  second.reset();
  EXPECT_EQ(pool->live(), 0U);
}

TEST(Packet, ReleasesItsWholeChain) {
  TestPool pool;
  PacketPtr chain = make_chain(*pool, {counting(3), counting(0), counting(5)});
  EXPECT_EQ(chain->chain_size(), 8U);
  EXPECT_EQ(chain_length(*chain), 3U);
  EXPECT_EQ(pool->live(), 3U);
  chain.reset();
  EXPECT_EQ(pool->live(), 0U);
}

TEST(Packet, LeavesASharedTailToItsOtherHolder) {
  TestPool pool;
  PacketPtr tail = make_packet(*pool, counting(9));
  PacketPtr head = make_packet(*pool, counting(1));
  head->set_next_segment(tail.get());
  tail->add_reference();
  head.reset();
  EXPECT_EQ(pool->live(), 1U);
  EXPECT_EQ(bytes_of(*tail), counting(9));
}

TEST(PacketView, ShowsAPartOfTheSameBytes) {
  TestPool pool;
  const PacketPtr owner = make_packet(*pool, counting(100));
  const PacketPtr view(pool->view(*owner, 10, 20));
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->is_view());
  EXPECT_FALSE(owner->is_view());
  EXPECT_EQ(&view->owner(), owner.get());
  EXPECT_EQ(view->data(), owner->data() + 10);
  EXPECT_EQ(view->size(), 20U);
  EXPECT_EQ(view->headroom(), 0U);
  EXPECT_EQ(view->tailroom(), 0U);
  EXPECT_EQ(view->true_size(), owner->true_size());
  EXPECT_EQ(pool->live(), 2U);
  EXPECT_EQ(pool->live_views(), 1U);
}

TEST(PacketView, MakesItsBytesSharedUntilOneHolderIsLeft) {
  TestPool pool;
  PacketPtr owner = make_packet(*pool, counting(10));
  PacketPtr first(pool->view(*owner, 0, 10));
  PacketPtr second(pool->view(*first, 5, 5));
  EXPECT_EQ(&second->owner(), owner.get()) << "a view of a view has the same owner";
  EXPECT_TRUE(owner->shared());
  EXPECT_TRUE(first->shared());
  EXPECT_TRUE(second->shared());
  first.reset();
  EXPECT_TRUE(owner->shared());
  owner.reset();
  EXPECT_FALSE(second->shared()) << "nobody else sees the bytes";
  EXPECT_EQ(bytes_of(*second), (Bytes{5, 6, 7, 8, 9}));
  second->remove_prefix(2);
  EXPECT_EQ(second->prepend(3), nullptr) << "only what was taken off is its room";
  EXPECT_NE(second->prepend(2), nullptr);
  EXPECT_EQ(pool->available(), pool->capacity() - 1) << "the view keeps the buffer";
  second.reset();
  EXPECT_EQ(pool->live(), 0U);
}

TEST(PacketView, HasAWindowAndReferencesOfItsOwn) {
  TestPool pool;
  const PacketPtr owner = make_packet(*pool, counting(10));
  PacketPtr view(pool->view(*owner, 2, 6));
  view->add_reference();
  PacketPtr again(view.get());
  owner->remove_prefix(8);
  EXPECT_EQ(bytes_of(*view), (Bytes{2, 3, 4, 5, 6, 7}));
  again.reset();
  EXPECT_EQ(pool->live_views(), 1U);
  view.reset();
  EXPECT_EQ(pool->live_views(), 0U);
  EXPECT_FALSE(owner->shared());
}

/// A retransmission: other boundaries, behind a header of its own, while the queue keeps the bytes.
TEST(PacketView, StandsBehindAHeaderOfItsOwnAndInFrontOfAnotherView) {
  TestPool pool;
  const PacketPtr first = make_packet(*pool, counting(50));
  const PacketPtr second = make_packet(*pool, counting(50));
  PacketPtr segment = make_packet(*pool, Bytes{0xaa, 0xbb});
  Packet* const left = pool->view(*first, 47, 3);
  left->set_next_segment(pool->view(*second, 0, 2));
  segment->set_next_segment(left);
  EXPECT_EQ(bytes_of(*segment), (Bytes{0xaa, 0xbb, 47, 48, 49, 0, 1}));
  EXPECT_FALSE(segment->shared());
  EXPECT_TRUE(chain_shared(*segment));
  segment.reset();
  EXPECT_EQ(pool->live(), 2U);
  EXPECT_FALSE(first->shared());
}

TEST(PacketView, OutlivesTheChainThatItLooksInto) {
  TestPool pool;
  PacketPtr chain = make_chain(*pool, {counting(4), counting(5), counting(6)});
  const PacketPtr view(pool->view(*chain->next_segment(), 1, 3));
  chain.reset();
  EXPECT_EQ(pool->live(), 2U) << "the middle segment, without its neighbours, and the view";
  EXPECT_EQ(bytes_of(*view), (Bytes{1, 2, 3}));
}

TEST(PacketView, MayBeOfAPacketOfAnotherPool) {
  TestPool owners;
  TestPool views;
  PacketPtr owner = make_packet(*owners, counting(7));
  const PacketPtr view(views->view(*owner, 0, 7));
  owner.reset();
  EXPECT_EQ(owners->live(), 1U);
  EXPECT_EQ(views->live(), 1U);
  EXPECT_EQ(bytes_of(*view), counting(7));
}

TEST(PacketView, MayBeEmptyAndAtTheEnd) {
  TestPool pool;
  const PacketPtr owner = make_packet(*pool, counting(7));
  const PacketPtr view(pool->view(*owner, 7, 0));
  EXPECT_TRUE(view->empty());
}

TEST(PacketView, IsRefusedWhenNoMoreReferencesCanBeCounted) {
  TestPool pool({.views = 70'000});
  const PacketPtr owner = make_packet(*pool, counting(7));
  PacketQueue views;
  while (Packet* const view = pool->view(*owner, 0, 7)) views.push_back(PacketPtr(view));
  EXPECT_EQ(views.size(), 65'534U);
  views.clear();
  EXPECT_FALSE(owner->shared());
}

TEST(PacketQueue, KeepsTheOrder) {
  TestPool pool;
  PacketQueue queue;
  EXPECT_FALSE(queue.pop_front());
  for (std::uint8_t i = 0; i < 5; ++i) queue.push_back(make_packet(*pool, Bytes{i}));
  for (std::uint8_t i = 0; i < 3; ++i) EXPECT_EQ(bytes_of(*queue.pop_front()), Bytes{i});
  PacketQueue moved(std::move(queue));
  EXPECT_EQ(moved.size(), 2U);
  moved.push_back(make_packet(*pool, Bytes{9}));
  EXPECT_EQ(bytes_of(*moved.front()), Bytes{3});
  moved.clear();
  EXPECT_TRUE(moved.empty());
}

TEST(PacketDeathTest, RefusesWhatWouldSpoilTheBytesOfOthers) {
  TestPool pool;
  const PacketPtr owner = make_packet(*pool, counting(7));
  const PacketPtr view(pool->view(*owner, 1, 2));
  EXPECT_DEATH(static_cast<void>(owner->append(1)), "!shared");
  EXPECT_DEATH(static_cast<void>(owner->prepend(1)), "!shared");
  EXPECT_DEATH(static_cast<void>(view->prepend(1)), "!shared");
  EXPECT_DEATH(view->remove_prefix(3), "count <= size_");
  EXPECT_DEATH(static_cast<void>(pool->view(*owner, 3, 5)), "size <= of.size");
  EXPECT_DEATH(static_cast<void>(pool->view(*owner, 8, 0)), "offset <= of.size");
}

/// Chains, references and views at random against a plain copy of the bytes.
TEST(Packet, KeepsEveryHoldersBytes) {
  Random random(test::seed());
  TestPool pool({.packets = 64, .views = 64, .buffer_size = 512});
  struct Holder {
    PacketPtr packet;
    Bytes bytes;
  };
  std::vector<Holder> holders;
  for (std::uint64_t step = 0; step < test::scaled(20'000); ++step) {
    const bool full = pool->available() < 4 || pool->live_views() > 60;
    if (holders.empty() || (!full && random.chance(0.3))) {
      const auto first = test::random_bytes(random, random.below(300));
      const auto second = test::random_bytes(random, random.below(300));
      holders.push_back({make_chain(*pool, {first, second}), first});
      holders.back().bytes.insert(holders.back().bytes.end(), second.begin(), second.end());
    }
    const std::size_t chosen = random.below(holders.size());
    Holder& holder = holders[chosen];
    ASSERT_EQ(bytes_of(*holder.packet), holder.bytes);
    if (!full && random.chance(0.5)) {
      Packet* const of = random.chance(0.5) && holder.packet->next_segment() != nullptr
                             ? holder.packet->next_segment()
                             : holder.packet.get();
      const std::size_t offset = random.between<std::size_t>(0, of->size());
      const std::size_t size = random.between<std::size_t>(0, of->size() - offset);
      PacketPtr view(pool->view(*of, offset, size));
      ASSERT_TRUE(view);
      Bytes bytes = bytes_of(*view);
      holders.push_back({std::move(view), std::move(bytes)});
    } else if (random.chance(0.3) && !holder.bytes.empty()) {
      const std::size_t keep = random.between<std::size_t>(0, holder.bytes.size());
      truncate_chain(*holder.packet, keep);
      holder.bytes.resize(keep);
    } else {
      std::swap(holder, holders.back());
      holders.pop_back();
    }
  }
  holders.clear();
  EXPECT_EQ(pool->live(), 0U);
}

TEST(CopyOut, TakesAnyPartOfAChain) {
  TestPool pool;
  const PacketPtr chain = make_chain(*pool, {counting(3), {}, counting(4), counting(2)});
  const Bytes whole = bytes_of(*chain);
  for (std::size_t offset = 0; offset <= whole.size() + 1; ++offset) {
    for (std::size_t size = 0; size <= whole.size() + 1; ++size) {
      Bytes taken(size);
      const std::size_t count = copy_out(*chain, offset, std::as_writable_bytes(std::span(taken)));
      const std::size_t there = offset < whole.size() ? whole.size() - offset : 0;
      ASSERT_EQ(count, std::min(size, there));
      ASSERT_TRUE(std::equal(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count),
                             whole.begin() + static_cast<std::ptrdiff_t>(offset % 10)));
    }
  }
}

TEST(CopyPacket, GivesUnsharedBytesAndMarksInFewSegments) {
  TestPool pool({.buffer_size = 256});
  TestPool large({.buffer_size = 4096});
  Random random(test::seed());
  for (const std::size_t size : {0U, 1U, 128U, 129U, 256U, 1000U}) {
    const auto bytes = test::random_bytes(random, size);
    const PacketPtr packet = make_packet(*large, bytes);
    packet->set(PacketMark::ip_checksum_good);
    const PacketPtr view(large->view(*packet, 0, size));
    view->copy_marks(*packet);
    const PacketPtr copy = copy_packet(*view, *pool);
    ASSERT_TRUE(copy);
    EXPECT_EQ(bytes_of(*copy), bytes);
    EXPECT_FALSE(chain_shared(*copy));
    EXPECT_TRUE(copy->has(PacketMark::ip_checksum_good));
    EXPECT_EQ(chain_length(*copy), std::max<std::size_t>(1, (size + 127) / 128));
  }
}

TEST(CopyPacket, LeavesNothingBehindWhenThePoolRunsOut) {
  TestPool pool({.packets = 2, .buffer_size = 256});
  TestPool large;
  const PacketPtr packet = make_packet(*large, counting(257));
  EXPECT_FALSE(copy_packet(*packet, *pool));
  EXPECT_EQ(pool->live(), 0U);
  packet->remove_suffix(1);
  EXPECT_TRUE(copy_packet(*packet, *pool));
}

TEST(TruncateChain, KeepsTheFirstBytesAndReleasesTheRest) {
  TestPool pool;
  for (std::size_t size = 0; size <= 9; ++size) {
    const PacketPtr chain = make_chain(*pool, {counting(3), counting(4), counting(2)});
    Bytes kept = bytes_of(*chain);
    kept.resize(size);
    truncate_chain(*chain, size);
    EXPECT_EQ(bytes_of(*chain), kept);
    EXPECT_EQ(pool->live(), size <= 3 ? 1U : size <= 7 ? 2U : 3U);
  }
}

}  // namespace
}  // namespace pinion

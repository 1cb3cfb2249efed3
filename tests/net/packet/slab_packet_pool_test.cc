#include <pinion/net/slab_packet_pool.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/packets.h>
#include <pinion/test/seed.h>

#ifdef __SANITIZE_ADDRESS__
#define PINION_TEST_HAS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PINION_TEST_HAS_ASAN
#endif
#endif

namespace pinion {
namespace {

using test::TestPool;

TEST(SlabPacketPool, LendsOutSoManyAndSaysWhenThatIsAll) {
  TestPool pool({.packets = 3, .views = 2, .buffer_size = 300});
  EXPECT_EQ(pool->capacity(), 3U);
  EXPECT_EQ(pool->buffer_size(), 320U) << "whole cache lines";
  std::vector<PacketPtr> packets;
  for (std::size_t left = 3; left-- > 0;) {
    packets.emplace_back(pool->allocate());
    ASSERT_TRUE(packets.back());
    EXPECT_EQ(pool->available(), left);
  }
  EXPECT_EQ(pool->allocate(), nullptr);
  PacketPtr first(pool->view(*packets[0], 0, 0));
  const PacketPtr second(pool->view(*packets[1], 0, 0));
  ASSERT_TRUE(second);
  EXPECT_EQ(pool->view(*packets[0], 0, 0), nullptr);
  EXPECT_EQ(pool->live(), 5U);
  first.reset();
  EXPECT_FALSE(packets[0]->shared()) << "the view that was refused left nothing behind";
  packets.pop_back();
  EXPECT_EQ(pool->available(), 1U);
  EXPECT_EQ(pool->lowest_available(), 0U);
  packets.clear();
  EXPECT_EQ(pool->lowest_available(), 0U);
}

TEST(SlabPacketPool, GivesAlignedBuffersThatDoNotOverlap) {
  TestPool pool({.packets = 100, .buffer_size = 256});
  std::vector<PacketPtr> packets;
  std::set<const std::byte*> places;
  while (Packet* const packet = pool->allocate()) {
    packets.emplace_back(packet);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet->data()) % 64, 0U);
    EXPECT_EQ(packet->headroom(), kPacketHeadroom);
    ASSERT_NE(packet->prepend(packet->headroom()), nullptr);
    ASSERT_NE(packet->append(packet->tailroom()), nullptr);
    ASSERT_EQ(packet->size(), 256U);
    std::memset(packet->data(), static_cast<int>(packets.size()), packet->size());
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    for (const std::byte byte : packets[i]->bytes()) ASSERT_EQ(byte, std::byte(i + 1));
  }
  EXPECT_EQ(packets.size(), 100U);
}

TEST(SlabPacketPool, LendsOutFreshPackets) {
  TestPool pool({.packets = 1});
  PacketPtr packet(pool->allocate());
  ASSERT_NE(packet->append(100), nullptr);
  packet->set(PacketMark::transport_checksum_good);
  packet->remove_prefix(50);
  packet.reset();
  packet.reset(pool->allocate());
  EXPECT_TRUE(packet->empty());
  EXPECT_EQ(packet->headroom(), kPacketHeadroom);
  EXPECT_FALSE(packet->has(PacketMark::transport_checksum_good));
  EXPECT_EQ(packet->next_segment(), nullptr);
}

TEST(SlabPacketPool, RefusesBadOptions) {
  EXPECT_FALSE(SlabPacketPool::create({.packets = 0}));
  EXPECT_FALSE(SlabPacketPool::create({.buffer_size = 255}));
  EXPECT_FALSE(SlabPacketPool::create({.buffer_size = 1'048'577}));
  EXPECT_TRUE(SlabPacketPool::create({.packets = 1, .views = 0, .buffer_size = 256}));
  const auto huge = SlabPacketPool::create({.packets = ~std::size_t{0} / 2});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::resource_exhausted);
  EXPECT_FALSE(huge.error().hint.empty());
}

TEST(SlabPacketPoolDeathTest, RefusesToDieWithPacketsLentOut) {
  EXPECT_DEATH(
      {
        const auto pool = SlabPacketPool::create({.packets = 1});
        static_cast<void>((*pool)->allocate());
      },
      "live_ == 0");
}

#ifdef PINION_TEST_HAS_ASAN
TEST(SlabPacketPoolDeathTest, LetsAddressSanitizerSeeUseAfterRelease) {
  TestPool pool({.packets = 4});
  PacketPtr packet(pool->allocate());
  const PacketPtr other(pool->allocate());
  Packet* const stale = packet.get();
  std::byte* const bytes = packet->append(1);
  packet.reset();
  EXPECT_DEATH(stale->release(), "use-after-poison");
  EXPECT_DEATH(*bytes = std::byte{1}, "use-after-poison");
  EXPECT_DEATH(static_cast<void>(stale->size()), "use-after-poison");
}
#elif !defined(PINION_NO_DCHECK)
TEST(SlabPacketPoolDeathTest, RefusesToTakeBackTwice) {
  TestPool pool({.packets = 4, .views = 4});
  PacketPtr packet(pool->allocate());
  PacketPtr other(pool->allocate());
  PacketPtr view(pool->view(*other, 0, 0));
  Packet* const stale = packet.get();
  Packet* const stale_view = view.get();
  packet.reset();
  view.reset();
  other.reset();
  EXPECT_DEATH(stale->release(), "references_ > 0");
  EXPECT_DEATH(stale_view->release(), "references_ > 0");
}
#endif

}  // namespace
}  // namespace pinion

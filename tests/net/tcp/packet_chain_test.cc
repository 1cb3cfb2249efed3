#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "byte_world.h"

namespace pinion::test {
namespace {

Bytes all_of(const PacketChain& chain) {
  return chain.empty() ? Bytes() : bytes_of(*chain.front());
}

std::uint32_t true_size_of(const PacketChain& chain) {
  std::size_t sum = 0;
  for (const Packet* at = chain.front(); at != nullptr; at = at->next_segment()) {
    sum += at->true_size();
  }
  return static_cast<std::uint32_t>(sum);
}

/// One random thing done to `chain` and to `bytes`.
void change(ByteWorld& world, Random& random, PacketChain& chain, Bytes& bytes) {
  const std::uint32_t some = random.between(0U, chain.size());
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(some);
  switch (random.below(5)) {
    case 0:
    case 1: {
      const Bytes more = some_bytes(random.below(600), static_cast<std::uint32_t>(random.next()));
      PacketChain added(world.packet(more, static_cast<Shape>(random.below(kShapes))));
      if (random.chance(0.5)) {
        chain.absorb(std::move(added), random.below(600));
      } else {
        chain.splice(std::move(added));
      }
      bytes.insert(bytes.end(), more.begin(), more.end());
      break;
    }
    case 2:
      chain.remove_prefix(some);
      bytes.erase(bytes.begin(), middle);
      break;
    case 3:
      chain.remove_suffix(some);
      bytes.resize(bytes.size() - some);
      break;
    default: {
      if (some == chain.size()) return;
      PacketChain rest = chain.split(some);
      ASSERT_EQ(all_of(chain), Bytes(bytes.begin(), middle));
      ASSERT_EQ(true_size_of(chain), chain.true_size());
      chain.splice(std::move(rest));
    }
  }
}

TEST(PacketChain, HoldsTheBytesThatWerePutIn) {
  Random random(seed());
  ByteWorld world;
  for (std::uint64_t run = 0; run < scaled(100); ++run) {
    PacketChain chain;
    Bytes bytes;
    for (int step = 0; step < 100; ++step) {
      change(world, random, chain, bytes);
      ASSERT_EQ(all_of(chain), bytes) << "PINION_SEED=" << seed();
      ASSERT_EQ(chain.size(), bytes.size()) << "PINION_SEED=" << seed();
      ASSERT_EQ(chain.true_size(), true_size_of(chain)) << "PINION_SEED=" << seed();
    }
    Bytes read(bytes.size() + 1);
    read.resize(chain.read(read));
    EXPECT_EQ(read, bytes) << "PINION_SEED=" << seed();
    EXPECT_TRUE(chain.empty());
  }
  EXPECT_EQ(world.live(), 0U);
}

TEST(PacketChain, DropsSegmentsWithoutBytes) {
  ByteWorld world;
  PacketPtr packet(world.packets->allocate());
  packet->set_next_segment(world.packet(some_bytes(3)).take());
  const PacketChain chain(std::move(packet));
  EXPECT_TRUE(chain.is_single());
  EXPECT_EQ(world.packets->live(), 1U);
}

TEST(PacketChain, LosesWhatItCannotCopyBehindACut) {
  ByteWorld world({.packets = 3});
  {
    PacketChain chain(world.packet(some_bytes(100)));
    chain.splice(PacketChain(world.packet(some_bytes(50, 1))));
    const PacketPtr last(world.packets->allocate());
    const PacketChain rest = chain.split(30);
    EXPECT_TRUE(rest.empty()) << "what is behind the gap is not the stream's next byte";
    EXPECT_EQ(chain.size(), 30U);
    EXPECT_EQ(all_of(chain), some_bytes(30));
  }
  EXPECT_EQ(world.live(), 0U);
}

}  // namespace
}  // namespace pinion::test

#include <pinion/lib/sip_hash.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

// Of the authors: the key is 00 01 … 0f, the inputs are the first n of the bytes 00 01 … 3f.
constexpr SipKey kKey{.k0 = 0x0706050403020100U, .k1 = 0x0f0e0d0c0b0a0908U};

constexpr std::array<std::byte, 64> inputs() {
  std::array<std::byte, 64> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

constexpr auto kInputs = inputs();

template <class Hasher>
std::uint64_t hash_of_first(std::size_t size) {
  return sip_hash<Hasher>(kKey, std::span(kInputs).first(size));
}

// The example in the paper's appendix.
static_assert(sip_hash<SipHasher24>(kKey, std::span(kInputs).first(15)) == 0xa129ca6149be45e5U);

TEST(SipHash, GivesTheAuthorsValuesOfSipHash24) {
  constexpr std::array<std::uint64_t, 33> kExpected = {
      0x726fdb47dd0e0e31U, 0x74f839c593dc67fdU, 0x0d6c8009d9a94f5aU, 0x85676696d7fb7e2dU,
      0xcf2794e0277187b7U, 0x18765564cd99a68dU, 0xcbc9466e58fee3ceU, 0xab0200f58b01d137U,
      0x93f5f5799a932462U, 0x9e0082df0ba9e4b0U, 0x7a5dbbc594ddb9f3U, 0xf4b32f46226bada7U,
      0x751e8fbc860ee5fbU, 0x14ea5627c0843d90U, 0xf723ca908e7af2eeU, 0xa129ca6149be45e5U,
      0x3f2acc7f57c29bdbU, 0x699ae9f52cbe4794U, 0x4bc1b3f0968dd39cU, 0xbb6dc91da77961bdU,
      0xbed65cf21aa2ee98U, 0xd0f2cbb02e3b67c7U, 0x93536795e3a33e88U, 0xa80c038ccd5ccec8U,
      0xb8ad50c6f649af94U, 0xbce192de8a85b8eaU, 0x17d835b85bbb15f3U, 0x2f2e6163076bcfadU,
      0xde4daaaca71dc9a5U, 0xa6a2506687956571U, 0xad87a3535c49ef28U, 0x32d892fad841c342U,
      0x7127512f72f27cceU};
  for (std::size_t size = 0; size < kExpected.size(); ++size) {
    EXPECT_EQ(hash_of_first<SipHasher24>(size), kExpected[size]) << size;
  }
}

TEST(SipHash, GivesTheReferenceValuesOfSipHash13) {
  constexpr std::array<std::uint64_t, 17> kExpected = {
      0xabac0158050fc4dcU, 0xc9f49bf37d57ca93U, 0x82cb9b024dc7d44dU, 0x8bf80ab8e7ddf7fbU,
      0xcf75576088d38328U, 0xdef9d52f49533b67U, 0xc50d2b50c59f22a7U, 0xd3927d989bb11140U,
      0x369095118d299a8eU, 0x25a48eb36c063de4U, 0x79de85ee92ff097fU, 0x70c118c1f94dc352U,
      0x78a384b157b4d9a2U, 0x306f760c1229ffa7U, 0x605aa111c0f95d34U, 0xd320d86d2a519956U,
      0xcc4fdd1a7d908b66U};
  for (std::size_t size = 0; size < kExpected.size(); ++size) {
    EXPECT_EQ(hash_of_first<SipHasher13>(size), kExpected[size]) << size;
  }
  EXPECT_EQ(hash_of_first<SipHasher13>(63), 0x9d199062b7bbb3a8U);
}

TEST(SipHash, HashesWordsAsTheBytesTheyAreMadeOf) {
  SipHasher24 hasher(kKey);
  hasher.add(0x0706050403020100U);
  EXPECT_EQ(hasher.finish(std::uint64_t{15} << 56 | 0x0e0d0c0b0a0908U),
            hash_of_first<SipHasher24>(15));
}

TEST(SipHash, ChangesHalfOfItsBitsWithAnyBitOfKeyOrInput) {
  Random random(test::seed());
  std::uint64_t changed = 0;
  constexpr int kRounds = 500;
  for (int i = 0; i < kRounds; ++i) {
    const SipKey key{.k0 = random.next(), .k1 = random.next()};
    const std::uint64_t word = random.next();
    SipHasher13 hasher(key);
    SipHasher13 other_input(key);
    SipHasher13 other_key({.k0 = key.k0, .k1 = key.k1 ^ std::uint64_t{1} << random.below(64)});
    hasher.add(word);
    other_input.add(word ^ std::uint64_t{1} << random.below(64));
    other_key.add(word);
    const std::uint64_t hash = hasher.finish(0);
    changed += static_cast<unsigned>(std::popcount(hash ^ other_input.finish(0)));
    changed += static_cast<unsigned>(std::popcount(hash ^ other_key.finish(0)));
  }
  // 64,000 fair coins: seven standard deviations are 886.
  EXPECT_NEAR(static_cast<double>(changed), 32.0 * 2 * kRounds, 886.0);
}

}  // namespace
}  // namespace pinion

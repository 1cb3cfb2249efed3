#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

/// SipHash (Aumasson and Bernstein, 2012): a keyed hash of 64 bits. Without the key nobody can tell
/// its values from random ones, nor find inputs that collide.
///
/// SipHash-2-4 is the authors' choice where values go out to strangers; SipHash-1-3 is for hash
/// tables, whose values stay inside.
///
/// Ownership:  plain values; a hasher is its state, 32 bytes.
/// Threading:  any.
/// Cost:       a round is 14 instructions; SipHash-1-3 takes one for each 8 bytes and four more,
///             SipHash-2-4 twice as many for the bytes. No table, no allocation, constexpr.
/// Errors:     none. The key is a secret: it comes from the system's random numbers.

namespace pinion {

struct SipKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

/// Hashes words as they come: what stands in them is the caller's, byte order included.
template <int kWordRounds, int kFinalRounds>
class SipHasher {
 public:
  explicit constexpr SipHasher(const SipKey& key) noexcept
      : v0_(key.k0 ^ 0x736f6d6570736575U),
        v1_(key.k1 ^ 0x646f72616e646f6dU),
        v2_(key.k0 ^ 0x6c7967656e657261U),
        v3_(key.k1 ^ 0x7465646279746573U) {}

  /// Eight bytes of the input.
  constexpr void add(std::uint64_t word) noexcept {
    v3_ ^= word;
    rounds<kWordRounds>();
    v0_ ^= word;
  }

  /// The hash of what was added and of the last word: the remaining 0 to 7 bytes, and the input's
  /// length in the highest one.
  [[nodiscard]] constexpr std::uint64_t finish(std::uint64_t last) noexcept {
    add(last);
    v2_ ^= 0xffU;
    rounds<kFinalRounds>();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  template <int kCount>
  constexpr void rounds() noexcept {
    for (int i = 0; i < kCount; ++i) round();
  }

  constexpr void round() noexcept {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
};

using SipHasher13 = SipHasher<1, 3>;
using SipHasher24 = SipHasher<2, 4>;

/// The hash of `bytes`, as the paper defines it: the same on every machine.
template <class Hasher>
[[nodiscard]] constexpr std::uint64_t sip_hash(const SipKey& key,
                                               std::span<const std::byte> bytes) noexcept {
  Hasher hasher(key);
  std::uint64_t word = 0;
  unsigned filled = 0;
  for (const std::byte byte : bytes) {
    word |= std::to_integer<std::uint64_t>(byte) << (8 * filled);
    if (++filled < 8) continue;
    hasher.add(word);
    word = 0;
    filled = 0;
  }
  return hasher.finish(word | std::uint64_t{bytes.size() & 0xffU} << 56);
}

}  // namespace pinion

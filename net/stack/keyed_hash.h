#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/random.h>

/// A keyed, nonlinear hash of a few words, for tables whose keys come from the wire.
///
/// Ownership:  a value of 32 bytes.
/// Threading:  any.
/// Cost:       one 64 by 64 multiplication a word.
/// Errors:     none. Two keys that collide under one seed do so under another only by chance, so
///             that who doesn't know the seed can't make a bucket long.

namespace pinion {

class KeyedHash {
 public:
  explicit constexpr KeyedHash(std::uint64_t seed) noexcept {
    Random random(seed);
    start_ = random.next();
    for (std::uint64_t& secret : secrets_) secret = random.next();
  }

  [[nodiscard]] constexpr std::uint64_t operator()(
      std::span<const std::uint64_t> words) const noexcept {
    std::uint64_t state = start_;
    std::size_t turn = 0;
    for (const std::uint64_t word : words) {
      state = fold(word ^ state, secrets_[turn % 2] + word);
      ++turn;
    }
    return fold(state ^ secrets_[2], secrets_[0]);
  }

 private:
  /// The product's halves, one upon the other: each bit depends on all bits of both factors.
  [[nodiscard]] static constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using Product = unsigned __int128;
    const Product product = Product{a} * (b | 1U);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t start_ = 0;
  std::uint64_t secrets_[3]{};
};

}  // namespace pinion

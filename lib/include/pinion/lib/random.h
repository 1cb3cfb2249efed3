#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include <pinion/lib/assert.h>

/// Seeded random numbers: xoshiro256++ (Blackman and Vigna), the same on every machine for the same
/// seed. Not for secrets.
///
/// Ownership:  a value of 32 bytes; a copy goes on with the same numbers.
/// Threading:  one thread each.
/// Cost:       next() about ten instructions; below() one multiplication more and, rarely, a
///             division.
/// Errors:     an empty range is refused by an assertion.

namespace pinion {

class Random {
 public:
  /// Any seed will do, 0 too: splitmix64 spreads it over the state.
  explicit constexpr Random(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15U;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
      word = mixed ^ (mixed >> 31);
    }
  }

  /// 64 random bits.
  constexpr std::uint64_t next() noexcept {
    auto& [a, b, c, d] = state_;
    const std::uint64_t result = std::rotl(a + d, 23) + a;
    const std::uint64_t shifted = b << 17;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = std::rotl(d, 45);
    return result;
  }

  /// One of 0 … bound - 1, each as likely as the others (Lemire's method, which draws again where
  /// the plain multiplication would favour some).
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    PINION_ASSERT(bound != 0);
    __extension__ using Product = unsigned __int128;
    Product product = Product{next()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t surplus = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < surplus) product = Product{next()} * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// One of low … high, both included.
  template <std::integral T>
  constexpr T between(T low, T high) noexcept {
    PINION_ASSERT(low <= high);
    const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    const bool everything = span == std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t step = everything ? next() : below(span + 1);
    return static_cast<T>(static_cast<std::uint64_t>(low) + step);
  }

  /// A multiple of 2^-53 in [0, 1).
  constexpr double real01() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// True with this probability: never for 0 and less, always for 1 and more.
  constexpr bool chance(double probability) noexcept { return real01() < probability; }

  /// Puts the elements of an array-like range in random order, each order as likely as the others.
  template <class Range>
  constexpr void shuffle(Range& range) noexcept {
    using std::swap;
    for (std::size_t left = std::size(range); left > 1; --left) {
      swap(range[left - 1], range[static_cast<std::size_t>(below(left))]);
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace pinion

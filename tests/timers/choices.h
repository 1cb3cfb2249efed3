#pragma once

#include <cstdint>

namespace pinion::test {

/// A model's choices, from a seed (SplitMix64).
class RandomChoices {
 public:
  explicit RandomChoices(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
  }

  /// A number below `bound`, which isn't 0. Even enough for tests.
  std::uint64_t below(std::uint64_t bound) {
    if (bound <= UINT32_MAX) return ((next() >> 32) * bound) >> 32;
    return next() % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace pinion::test

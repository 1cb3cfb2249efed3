#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/cycle_clock.h"

/// What a cache miss takes: a walk through memory in random order, where each line says which one
/// comes next, so that nothing overlaps.
///
/// Ownership:  owns its memory, in pages as the heap gives them.
/// Threading:  one thread.
/// Cost:       to be made, a shuffle of the lines.
/// Errors:     none.

namespace pinion::bench {

class MemoryMiss {
 public:
  MemoryMiss(std::size_t bytes, std::uint64_t seed);

  /// Nanoseconds for a step, of so many; goes on where it stopped.
  [[nodiscard]] double measure(const CycleClock& clock, std::size_t steps);

 private:
  struct alignas(64) Line {
    std::uint32_t next = 0;
  };
  std::vector<Line> lines_;
  std::uint32_t at_ = 0;
};

}  // namespace pinion::bench

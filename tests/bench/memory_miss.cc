#include "memory_miss.h"

#include <pinion/lib/random.h>

#include <algorithm>
#include <utility>

namespace pinion::bench {

/// Sattolo's shuffle: one cycle through all lines.
MemoryMiss::MemoryMiss(std::size_t bytes, std::uint64_t seed)
    : lines_(std::max<std::size_t>(bytes / sizeof(Line), 2)) {
  Random random(seed);
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i].next = static_cast<std::uint32_t>(i);
  for (std::size_t i = lines_.size() - 1; i > 0; --i) {
    std::swap(lines_[i].next, lines_[random.below(i)].next);
  }
}

double MemoryMiss::measure(const CycleClock& clock, std::size_t steps) {
  const Stretch stretch(clock);
  std::uint32_t at = at_;
  for (std::size_t i = 0; i < steps; ++i) at = lines_[at].next;
  at_ = at;
  keep_memory();
  return stretch.ns() / static_cast<double>(steps);
}

}  // namespace pinion::bench

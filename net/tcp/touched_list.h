#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pinion/lib/assert.h>
#include <pinion/lib/bits.h>

/// Connections that something has happened to, by index, first in, first out.
///
/// Ownership:  a ring of numbers, taken at start.
/// Threading:  one lcore.
/// Cost:       every operation O(1).
/// Errors:     more than `limit` at once are refused by an assertion: each is in it once at most,
///             which a bit in its record says.

namespace pinion {

class TouchedList {
 public:
  explicit TouchedList(std::size_t limit) noexcept : ring_(round_up_to_power_of_two(limit)) {}

  [[nodiscard]] bool empty() const noexcept { return first_ == end_; }

  void push_back(std::uint32_t index) noexcept {
    PINION_ASSERT(end_ - first_ < ring_.size());
    ring_[end_++ & (ring_.size() - 1)] = index;
  }
  [[nodiscard]] std::uint32_t pop_front() noexcept {
    PINION_ASSERT(!empty());
    return ring_[first_++ & (ring_.size() - 1)];
  }

 private:
  std::vector<std::uint32_t> ring_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

}  // namespace pinion

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

/// A set of sequence numbers, the slow and obvious way.

namespace pinion::test {

/// Ranges of the 2^32 numbers, which wrap around.
class SequenceRanges {
 public:
  /// `size` numbers from `begin` on.
  void add(std::uint32_t begin, std::uint32_t size) {
    if (size == 0) return;
    const std::uint64_t end = std::uint64_t{begin} + size;
    add_straight(begin, std::min(end, kAll));
    if (end > kAll) add_straight(0, end - kAll);
  }

  /// Whether it has all `size` numbers from `begin` on.
  [[nodiscard]] bool holds(std::uint32_t begin, std::uint32_t size) const {
    return first_absent(begin) - begin >= size;
  }

  /// The first number from `from` on that it doesn't have.
  [[nodiscard]] std::uint32_t first_absent(std::uint32_t from) const {
    std::uint64_t at = end_of(from);
    if (at == kAll) at = end_of(0);
    return static_cast<std::uint32_t>(at);
  }

 private:
  static constexpr std::uint64_t kAll = std::uint64_t{1} << 32;

  /// Where the range ends that `number` lies in; `number` itself without one.
  [[nodiscard]] std::uint64_t end_of(std::uint64_t number) const {
    const auto behind = ranges_.upper_bound(number);
    if (behind == ranges_.begin()) return number;
    return std::max(number, std::prev(behind)->second);
  }

  void add_straight(std::uint64_t begin, std::uint64_t end) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(begin, end);
  }

  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< From each one's begin to its end.
};

}  // namespace pinion::test

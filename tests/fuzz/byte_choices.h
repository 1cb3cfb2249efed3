#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

/// What fuzz targets read their choices from, and how they say what doesn't hold.

namespace pinion::test {

/// A number below n takes as many bytes as it needs; after the end of the input all are 0.
class ByteChoices {
 public:
  ByteChoices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  [[nodiscard]] bool exhausted() const { return at_ == end_; }

  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t value = 0;
    for (std::uint64_t reach = 1; reach < bound && at_ != end_; reach <<= 8) {
      value = value << 8 | *at_++;
      if (reach >> 56 != 0) break;
    }
    return value % bound;
  }
  std::uint32_t below32(std::uint32_t bound) { return static_cast<std::uint32_t>(below(bound)); }

  /// One of `values`; the first one after the end of the input.
  template <class Value, std::size_t kCount>
  const Value& one_of(const Value (&values)[kCount]) {
    return values[below(kCount)];
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

[[noreturn]] inline void stop(std::string_view why) {
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(why.size()), why.data());
  std::abort();
}

inline void require(bool holds, std::string_view what) {
  if (!holds) stop(what);
}

}  // namespace pinion::test

#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include <pinion/lib/assert.h>

/// Bit arithmetic on 64-bit occupancy words and on sizes.
///
/// Ownership:  none: pure functions, constexpr.
/// Threading:  any.
/// Cost:       a few instructions each, no table. The answers for zero are defined; a compiler that
///             can see that the word isn't zero drops the compare.
/// Errors:     a result that doesn't fit its type is refused by an assertion.

namespace pinion {

inline constexpr unsigned kWordBits = 64;

/// Rotates right; any count, taken modulo 64.
[[nodiscard]] constexpr std::uint64_t rotate_right(std::uint64_t word, unsigned count) noexcept {
  return std::rotr(word, static_cast<int>(count % kWordBits));
}

/// The index of the lowest set bit; 64 when there is none.
[[nodiscard]] constexpr unsigned count_trailing_zeros(std::uint64_t word) noexcept {
  return static_cast<unsigned>(std::countr_zero(word));
}

/// How many bits stand above the highest set one; 64 when there is none.
[[nodiscard]] constexpr unsigned count_leading_zeros(std::uint64_t word) noexcept {
  return static_cast<unsigned>(std::countl_zero(word));
}

/// The number of steps from bit `start` (modulo 64) upwards, past bit 63 to bit 0, to the first set
/// bit: 0 when `start` itself is set, 64 when the word is empty.
[[nodiscard]] constexpr unsigned first_set_from(std::uint64_t word, unsigned start) noexcept {
  return count_trailing_zeros(rotate_right(word, start));
}

[[nodiscard]] constexpr bool is_power_of_two(std::unsigned_integral auto value) noexcept {
  return std::has_single_bit(value);
}

/// The smallest power of two that is not below `value`; 1 for zero.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up_to_power_of_two(T value) noexcept {
  PINION_ASSERT(value <= std::numeric_limits<T>::max() / 2 + 1);
  return std::bit_ceil(value);
}

/// The smallest multiple of `multiple` that is not below `value`.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up_to_multiple(T value, T multiple) noexcept {
  PINION_ASSERT(multiple != 0);
  const T beyond = static_cast<T>(value % multiple);
  if (beyond == 0) return value;
  const T missing = static_cast<T>(multiple - beyond);
  PINION_ASSERT(value <= std::numeric_limits<T>::max() - missing);
  return static_cast<T>(value + missing);
}

}  // namespace pinion

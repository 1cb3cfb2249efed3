#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <pinion/lib/export.h>
#include <tl/expected.hpp>

/// The name of a timer in a TimerTable, and what may be wrong with it.
///
/// Ownership:  plain values of 8 bytes. An id keeps nothing alive.
/// Threading:  any; what an id means, its table knows.
/// Cost:       a compare.
/// Errors:     values of TimerError; none of them allocates.
///
/// Layout, from the top bit down:
///
///   14 bits  table: a number that no other living table of the process has, never 0
///   26 bits  generation: how often the slot has been used, from 1
///   24 bits  index: the slot, in chunks of 256
///
/// So a table has 2^50 ids, none of which is used twice: at a million timers per second they last
/// for 35 years. A slot whose generations are used up is never used again. The numbers of tables
/// that died are given again after all others: an id that outlived its table is refused for as long
/// as the process has made fewer tables since than 16,383 less those that live. 0 is no timer's id.

namespace pinion {

class TimerId {
 public:
  /// No timer's.
  constexpr TimerId() noexcept = default;

  /// The id that bits() told; for what has to pass through a message or another language.
  constexpr explicit TimerId(std::uint64_t bits) noexcept : bits_(bits) {}

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }

  friend constexpr auto operator<=>(TimerId, TimerId) noexcept = default;

 private:
  std::uint64_t bits_ = 0;
};

enum class TimerError : std::uint8_t {
  invalid_id,        ///< This table has never given that id: another table's, or none's.
  invalid_deadline,  ///< Before the clock's epoch, where no clock has been.
  capacity,          ///< As many timers as the limit allows are live, or the heap is used up.
  overflow,          ///< The tick that the deadline is rounded up to is past the last instant.
  not_found,         ///< That timer has fired, or it was cancelled.
};

/// The error's name, as it is spelled in the enumeration.
[[nodiscard]] PINION_EXPORT std::string_view to_string(TimerError error) noexcept;

/// Functions that return one are [[nodiscard]], but for cancel().
template <class T>
using TimerResult = tl::expected<T, TimerError>;

/// How many ids a table has. Tests make it smaller, to see the end of it.
struct TimerIdSpace {
  std::uint32_t last_generation = (1U << 26) - 1;
  std::uint32_t most_chunks = 1U << 16;
};

}  // namespace pinion

template <>
struct std::hash<pinion::TimerId> {
  [[nodiscard]] std::size_t operator()(pinion::TimerId id) const noexcept {
    return std::hash<std::uint64_t>()(id.bits());
  }
};

#pragma once

#include <cstdint>

/// TCP's sequence numbers: 32 bits that wrap around (RFC 9293, 3.4).
///
/// Ownership:  a value of four bytes.
/// Threading:  any.
/// Cost:       one or two instructions each, constexpr.
/// Errors:     none. Of two numbers, the earlier one is that from which fewer than 2^31 steps lead
///             to the other. Two that are exactly 2^31 apart are each before the other; no window
///             reaches that far (RFC 7323, 2.3: below 2^30).

namespace pinion::wire {

class SequenceNumber {
 public:
  constexpr SequenceNumber() noexcept = default;
  explicit constexpr SequenceNumber(std::uint32_t value) noexcept : value_(value) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  constexpr SequenceNumber& operator+=(std::uint32_t count) noexcept {
    value_ += count;
    return *this;
  }
  constexpr SequenceNumber& operator-=(std::uint32_t count) noexcept {
    value_ -= count;
    return *this;
  }
  friend constexpr SequenceNumber operator+(SequenceNumber from, std::uint32_t count) noexcept {
    return from += count;
  }
  friend constexpr SequenceNumber operator-(SequenceNumber from, std::uint32_t count) noexcept {
    return from -= count;
  }

  /// How many steps lead from `from` to `to`; negative when `to` is the earlier one.
  friend constexpr std::int32_t operator-(SequenceNumber to, SequenceNumber from) noexcept {
    return static_cast<std::int32_t>(to.value_ - from.value_);
  }

  friend constexpr bool operator==(SequenceNumber, SequenceNumber) noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

/// There is no operator<: an order that wraps is no order to sort by.
[[nodiscard]] constexpr bool before(SequenceNumber a, SequenceNumber b) noexcept {
  return a - b < 0;
}
[[nodiscard]] constexpr bool after(SequenceNumber a, SequenceNumber b) noexcept {
  return before(b, a);
}
[[nodiscard]] constexpr bool at_or_before(SequenceNumber a, SequenceNumber b) noexcept {
  return a == b || before(a, b);
}
[[nodiscard]] constexpr bool at_or_after(SequenceNumber a, SequenceNumber b) noexcept {
  return a == b || after(a, b);
}

/// Whether `number` is one of the `size` numbers from `first` on.
[[nodiscard]] constexpr bool in_window(SequenceNumber number, SequenceNumber first,
                                       std::uint32_t size) noexcept {
  return number.value() - first.value() < size;
}

/// Whether `number` is at or behind `first` and ahead of `end`, which is not before `first`.
[[nodiscard]] constexpr bool between(SequenceNumber first, SequenceNumber number,
                                     SequenceNumber end) noexcept {
  return in_window(number, first, end.value() - first.value());
}

}  // namespace pinion::wire

#pragma once

#include <algorithm>
#include <cstdint>

#include <pinion/lib/time.h>

/// Time as a connection keeps it: milliseconds in 32 bits, which wrap around after 49 days.
///
/// Ownership:  a value of four bytes.
/// Threading:  any.
/// Cost:       one or two instructions each; a conversion is a division by a constant.
/// Errors:     none. Two times are compared over at most 24 days, and nothing is kept as a TcpTime
///             that may be further away. What is, is an Instant.

namespace pinion {

class TcpTime {
 public:
  constexpr TcpTime() noexcept = default;
  explicit constexpr TcpTime(std::uint32_t milliseconds) noexcept : value_(milliseconds) {}

  /// The millisecond in which `instant` lies.
  [[nodiscard]] static constexpr TcpTime at(Instant instant) noexcept {
    return TcpTime(static_cast<std::uint32_t>(instant.time_since_epoch().count() / kNanoseconds));
  }

  /// The first millisecond that is not before `instant`.
  [[nodiscard]] static constexpr TcpTime after(Instant instant) noexcept {
    const std::int64_t count = instant.time_since_epoch().count();
    return TcpTime(static_cast<std::uint32_t>((count + kNanoseconds - 1) / kNanoseconds));
  }

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  /// When this is, seen from `now`.
  [[nodiscard]] constexpr Instant instant(Instant now) const noexcept {
    const std::int64_t today = now.time_since_epoch().count() / kNanoseconds;
    const auto ahead = static_cast<std::int32_t>(value_ - static_cast<std::uint32_t>(today));
    return Instant{std::chrono::nanoseconds{(today + ahead) * kNanoseconds}};
  }

  friend constexpr TcpTime operator+(TcpTime from, std::uint32_t milliseconds) noexcept {
    return TcpTime(from.value_ + milliseconds);
  }
  /// Milliseconds from `from` to `to`; negative when `to` is the earlier one.
  friend constexpr std::int32_t operator-(TcpTime to, TcpTime from) noexcept {
    return static_cast<std::int32_t>(to.value_ - from.value_);
  }
  friend constexpr bool operator==(TcpTime, TcpTime) noexcept = default;

 private:
  static constexpr std::int64_t kNanoseconds = 1'000'000;

  std::uint32_t value_ = 0;
};

/// The longest time that is kept in milliseconds: 12 days.
inline constexpr std::uint32_t kTcpLongest = 1U << 30;

/// `delay` in milliseconds, rounded up and bounded by 0 and kTcpLongest.
[[nodiscard]] constexpr std::uint32_t to_tcp_milliseconds(Delay delay) noexcept {
  constexpr std::int64_t kNanoseconds = 1'000'000;
  if (delay.count() <= 0) return 0;
  const std::int64_t whole = (delay.count() - 1) / kNanoseconds + 1;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(whole, kTcpLongest));
}

}  // namespace pinion

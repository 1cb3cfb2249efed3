#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>

#include <pinion/lib/assert.h>

/// Points in time and delays, as the whole API takes them. Nothing of it wraps: what doesn't fit
/// saturates, so that hours::max() is "for ever" and never minus one hour. `instant + delay` does
/// so, too. But `instant + 30s`, with a std::chrono::duration, is std::chrono's sum, where
/// hours::max() is signed overflow: write it for constants only, and keep a timeout in a Delay.
///
/// Ownership:  plain values of 8 bytes, trivially copyable and destructible.
/// Threading:  any.
/// Cost:       a conversion from whole chrono units is one multiplication with an overflow check.
/// Errors:     a delay made from a NaN is refused by an assertion.
///
/// Nothing here reads a clock: an Instant comes in as an argument, from the loop or a TimeSource.

namespace pinion {

/// The clock of the loops: CLOCK_MONOTONIC's epoch, whoever reads it. It has no now() on purpose.
struct LoopClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LoopClock, duration>;
  static constexpr bool is_steady = true;
};

using Instant = LoopClock::time_point;

/// After every other instant. It stays what it is under saturating_add and saturating_sub.
inline constexpr Instant kNever = Instant::max();

namespace detail {

// NOLINTNEXTLINE(modernize-use-using): __extension__ goes with typedef only.
__extension__ typedef unsigned __int128 Wide;

struct WideRatio {
  Wide numerator;
  Wide denominator;
};

/// How many nanoseconds one unit of `Period` has. In 128 bits, since std::ratio can't hold it for
/// the largest periods.
template <class Period>
consteval WideRatio nanoseconds_per() {
  const Wide numerator = Wide{static_cast<std::uintmax_t>(Period::num)} * 1'000'000'000U;
  const Wide denominator = Wide{static_cast<std::uintmax_t>(Period::den)};
  Wide a = numerator;
  Wide b = denominator;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return {numerator / a, denominator / a};
}

inline constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMinCount = std::numeric_limits<std::int64_t>::min();

/// `magnitude` units in nanoseconds, 2^64 - 1 when it is more than that. `round_up` decides what
/// becomes of a part of a nanosecond.
template <class Period>
constexpr std::uint64_t scaled_magnitude(std::uint64_t magnitude, bool round_up) noexcept {
  constexpr WideRatio kRatio = nanoseconds_per<Period>();
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  if constexpr (kRatio.denominator == 1 && kRatio.numerator <= kTop) {
    std::uint64_t product = 0;
    const auto factor = static_cast<std::uint64_t>(kRatio.numerator);
    return __builtin_mul_overflow(magnitude, factor, &product) ? kTop : product;
  } else {
    // Past this the result is at least 2^128 / 2^63 nanoseconds, whatever the denominator.
    if (magnitude != 0 && kRatio.numerator > ~Wide{0} / magnitude) return kTop;
    const Wide product = magnitude * kRatio.numerator;
    const bool up = round_up && product % kRatio.denominator != 0;
    const Wide quotient = product / kRatio.denominator + (up ? 1U : 0U);
    return quotient > kTop ? kTop : static_cast<std::uint64_t>(quotient);
  }
}

template <class Period, class Rep>
constexpr std::int64_t whole_to_nanoseconds(Rep count) noexcept {
  if (count < Rep{0}) {
    const std::uint64_t magnitude = std::uint64_t{0} - static_cast<std::uint64_t>(count);
    const std::uint64_t scaled = scaled_magnitude<Period>(magnitude, false);
    constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
    return scaled >= kLimit ? kMinCount : -static_cast<std::int64_t>(scaled);
  }
  const std::uint64_t scaled = scaled_magnitude<Period>(static_cast<std::uint64_t>(count), true);
  constexpr auto kLimit = static_cast<std::uint64_t>(kMaxCount);
  return scaled >= kLimit ? kMaxCount : static_cast<std::int64_t>(scaled);
}

template <class Period, class Rep>
constexpr std::int64_t floating_to_nanoseconds(Rep count) noexcept {
  using Float = std::common_type_t<Rep, double>;
  constexpr Float kTwoTo63 = static_cast<Float>(std::uint64_t{1} << 63);
  constexpr WideRatio kRatio = nanoseconds_per<Period>();
  const Float scaled = static_cast<Float>(count) * static_cast<Float>(kRatio.numerator) /
                       static_cast<Float>(kRatio.denominator);
  const bool is_a_number = scaled >= 0 || scaled < 0;
  PINION_ASSERT(is_a_number);
  if (scaled >= kTwoTo63) return kMaxCount;
  if (scaled < -kTwoTo63) return kMinCount;
  const auto truncated = static_cast<std::int64_t>(scaled);
  return static_cast<Float>(truncated) < scaled ? truncated + 1 : truncated;
}

template <class Period, class Rep>
constexpr std::int64_t to_nanoseconds(Rep count) noexcept {
  if constexpr (std::is_floating_point_v<Rep>) {
    return floating_to_nanoseconds<Period>(count);
  } else {
    return whole_to_nanoseconds<Period>(count);
  }
}

}  // namespace detail

/// How long to wait, in nanoseconds: what every function with a timeout takes. It converts from any
/// std::chrono::duration of an arithmetic type, whole or floating, and saturates instead of
/// wrapping. A part of a nanosecond rounds up (late is allowed, early is not). Negative delays are
/// kept; whoever waits for one is due at once.
class Delay {
 public:
  /// No delay at all.
  constexpr Delay() noexcept = default;

  template <class Rep, class Period>
    requires(std::is_arithmetic_v<Rep> && (std::is_floating_point_v<Rep> || sizeof(Rep) <= 8))
  constexpr Delay(
      std::chrono::duration<Rep, Period> duration) noexcept  // implicit: the API's way in
      : count_(detail::to_nanoseconds<Period>(duration.count())) {}

  [[nodiscard]] static constexpr Delay max() noexcept { return std::chrono::nanoseconds::max(); }
  [[nodiscard]] static constexpr Delay min() noexcept { return std::chrono::nanoseconds::min(); }

  /// The nanoseconds as a number.
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }

  [[nodiscard]] constexpr std::chrono::nanoseconds to_nanoseconds() const noexcept {
    return std::chrono::nanoseconds{count_};
  }

  friend constexpr auto operator<=>(Delay, Delay) noexcept = default;

 private:
  std::int64_t count_ = 0;
};

/// Waits for ever.
inline constexpr Delay kNoTimeout = Delay::max();

/// `from` + `delay`. The ends of Instant bound the result; kNever and kNoTimeout give kNever,
/// whatever the other one is.
[[nodiscard]] constexpr Instant saturating_add(Instant from, Delay delay) noexcept {
  if (from == kNever || delay == kNoTimeout) return kNever;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(from.time_since_epoch().count(), delay.count(), &sum)) {
    return delay.count() < 0 ? Instant::min() : kNever;
  }
  return Instant{std::chrono::nanoseconds{sum}};
}

/// The same, as a sum.
[[nodiscard]] constexpr Instant operator+(Instant from, Delay delay) noexcept {
  return saturating_add(from, delay);
}
[[nodiscard]] constexpr Instant operator+(Delay delay, Instant from) noexcept {
  return saturating_add(from, delay);
}

/// How long it is from `earlier` to `later`, negative when they stand the other way round. The ends
/// of Delay bound the result; a `later` of kNever gives kNoTimeout.
[[nodiscard]] constexpr Delay saturating_sub(Instant later, Instant earlier) noexcept {
  if (later == kNever) return kNoTimeout;
  const std::int64_t to = later.time_since_epoch().count();
  const std::int64_t from = earlier.time_since_epoch().count();
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(to, from, &difference)) {
    return to < from ? Delay::min() : Delay::max();
  }
  return std::chrono::nanoseconds{difference};
}

}  // namespace pinion

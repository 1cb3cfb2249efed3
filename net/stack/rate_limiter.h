#pragma once

#include <cstdint>

#include <pinion/lib/assert.h>
#include <pinion/lib/random.h>
#include <pinion/lib/time.h>

/// A token bucket, for what the wire makes us send: ICMP errors (RFC 1812, 4.3.2.8; RFC 4443, 2.4
/// (f)).
///
/// Ownership:  a value.
/// Threading:  one lcore.
/// Cost:       two compares and an addition; a token given out draws a random number.
/// Full:       an empty bucket says no.
///
/// A bucket that all peers share tells each of them how much the others take. That is a known side
/// channel: whoever counts the errors that come back learns which of the probes sent under a forged
/// address drew one. So a token now and then costs double, at random.

namespace pinion {

class RateLimiter {
 public:
  static constexpr std::uint32_t kMostPerSecond = 1'000'000;

  /// `per_second` tokens a second, 1 to kMostPerSecond, and at most `burst` at once, 1 and up.
  RateLimiter(std::uint32_t per_second, std::uint32_t burst, std::uint64_t seed) noexcept
      : interval_(interval_of(per_second)), depth_(interval_ * (burst - 1)), random_(seed) {
    PINION_ASSERT(burst >= 1);
  }

  /// Takes a token; false when there is none.
  [[nodiscard]] bool allow(Instant now) noexcept {
    const std::int64_t at = now.time_since_epoch().count();
    if (spent_until_ - at > depth_) return false;
    if (spent_until_ < at) spent_until_ = at;
    spent_until_ += random_.below(kDoubleOneIn) == 0 ? 2 * interval_ : interval_;
    return true;
  }

 private:
  [[nodiscard]] static std::int64_t interval_of(std::uint32_t per_second) noexcept {
    PINION_ASSERT(per_second >= 1);
    PINION_ASSERT(per_second <= kMostPerSecond);
    return 1'000'000'000 / per_second;
  }

  static constexpr std::uint64_t kDoubleOneIn = 8;

  std::int64_t interval_;
  std::int64_t depth_;
  std::int64_t spent_until_ = 0;  ///< When the bucket is full again.
  Random random_;
};

}  // namespace pinion

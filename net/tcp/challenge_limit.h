#pragma once

#include <cstdint>

#include <pinion/lib/random.h>
#include <pinion/lib/time.h>

/// How many challenge acknowledgements go out (RFC 5961, 5 and 7): at most ten in five seconds for
/// a connection, and at most a random number, around a thousand, in each second for all of them. A
/// record of SYN-RECEIVED or TIME-WAIT sends one in a second. All of these have a budget of their
/// own, just as large: whoever floods them silences no connection.
///
/// Only what a connection sends in answer to a RST, SYN or acknowledgement that doesn't fit is
/// counted here. Data, probes and FINs are answered without asking.
///
/// A bound that all connections share, and that is known, tells a stranger who uses it up whether a
/// packet of his hit a connection (CVE-2016-5696). So the shared one is drawn anew each second and
/// stands far above a connection's own.
///
/// Ownership:  values: 4 bytes in a connection, 5 bits in a record, two budgets for each lcore.
/// Threading:  one lcore.
/// Cost:       a division by a constant and a few compares; one random number a second.
/// Errors:     none. "No" means: drop the segment, and count it.

namespace pinion {

/// What all connections of an lcore may send, or all records.
class ChallengeBudget {
 public:
  /// About `per_second` of them, 2 and more: half of it, and a random number below it beside.
  explicit constexpr ChallengeBudget(std::uint32_t per_second) noexcept : per_second_(per_second) {}

  [[nodiscard]] constexpr bool take(Instant now, Random& random) noexcept {
    const std::int64_t second = now.time_since_epoch().count() / 1'000'000'000;
    if (second != second_) {
      second_ = second;
      left_ = per_second_ / 2 + static_cast<std::uint32_t>(random.below(per_second_));
    }
    if (left_ == 0) return false;
    --left_;
    return true;
  }

 private:
  std::uint32_t per_second_;
  std::uint32_t left_ = 0;
  std::int64_t second_ = -1;
};

inline constexpr std::uint32_t kChallengesPerSecond = 1'000;

/// The second of a record's last challenge: in another one it may send the next. Comes again after
/// 32 seconds; then it blocks for one at most.
[[nodiscard]] constexpr std::uint8_t challenge_second(Instant now) noexcept {
  return static_cast<std::uint8_t>(now.time_since_epoch().count() / 1'000'000'000 & 0x1f);
}

/// What a new record has, which has sent none.
[[nodiscard]] constexpr std::uint8_t no_challenge_second(Instant now) noexcept {
  return (challenge_second(now) - 1U) & 0x1fU;
}

/// What one connection may send.
class ChallengeLimit {
 public:
  /// Whether a challenge acknowledgement may go out now, which is then counted.
  [[nodiscard]] constexpr bool allow(ChallengeBudget& budget, Instant now,
                                     Random& random) noexcept {
    const auto window = static_cast<std::uint16_t>(now.time_since_epoch().count() / kWindowNs);
    if (window != window_) {
      window_ = window;
      sent_ = 0;
    }
    if (sent_ == kPerWindow || !budget.take(now, random)) return false;
    ++sent_;
    return true;
  }

 private:
  static constexpr std::int64_t kWindowNs = 5'000'000'000;
  static constexpr std::uint16_t kPerWindow = 10;

  std::uint16_t window_ = 0;  ///< Comes again after 91 hours; then it blocks for 5 s at most.
  std::uint16_t sent_ = 0;
};

static_assert(sizeof(ChallengeLimit) == 4);

}  // namespace pinion

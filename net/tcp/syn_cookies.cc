#include "syn_cookies.h"

#include <array>

namespace pinion {

namespace {

/// The usual sizes: of paths with tunnels, of Ethernet with and without timestamps' twelve bytes or
/// IPv6, of jumbo frames. The first is for whoever asks for less than the others.
constexpr std::array<std::uint16_t, 8> kSizes = {64, 536, 1220, 1360, 1400, 1440, 1460, 8940};

constexpr unsigned kPeriodShift = 31;
constexpr unsigned kSizeShift = 28;
constexpr std::uint32_t kHashMask = (std::uint32_t{1} << kSizeShift) - 1;

constexpr std::uint32_t kOptionsMask = 0x3f;
constexpr std::uint32_t kScaleMask = 0x0f;
constexpr std::uint32_t kNoScale = 0x0f;
constexpr std::uint32_t kSack = 0x10;
constexpr std::uint32_t kEcn = 0x20;

std::uint64_t period_of(Instant now) noexcept {
  constexpr std::uint64_t kPeriodNs = 64'000'000'000;
  return static_cast<std::uint64_t>(now.time_since_epoch().count()) / kPeriodNs;
}

}  // namespace

std::uint32_t SynCookies::cookie(const FourTuple& tuple, wire::SequenceNumber peer,
                                 std::uint64_t period, std::uint32_t mss_index) const noexcept {
  SipHasher24 hasher(secret_);
  add_addresses(hasher, tuple);
  hasher.add(std::uint64_t{tuple.local_port} << 48 | std::uint64_t{tuple.remote_port} << 32 |
             peer.value());
  hasher.add(period);
  const std::uint64_t length = tuple.is_v4() ? 25 : 49;
  const auto hash = static_cast<std::uint32_t>(hasher.finish(length << 56 | mss_index));
  return static_cast<std::uint32_t>(period & 1U) << kPeriodShift | mss_index << kSizeShift |
         (hash & kHashMask);
}

wire::SequenceNumber SynCookies::make(const FourTuple& tuple, wire::SequenceNumber peer,
                                      std::uint16_t mss, Instant now) const noexcept {
  std::uint32_t index = 0;
  while (index + 1 < kSizes.size() && kSizes[index + 1] <= mss) ++index;
  return wire::SequenceNumber(cookie(tuple, peer, period_of(now), index));
}

std::optional<std::uint16_t> SynCookies::check(const FourTuple& tuple, wire::SequenceNumber peer,
                                               wire::SequenceNumber cookie,
                                               Instant now) const noexcept {
  // The last bit says which one of the two periods it can be from.
  const std::uint64_t current = period_of(now);
  const std::uint64_t age = (current ^ (cookie.value() >> kPeriodShift)) & 1U;
  const std::uint32_t index = (cookie.value() >> kSizeShift) & (kSizes.size() - 1);
  if (this->cookie(tuple, peer, current - age, index) != cookie.value()) return std::nullopt;
  return kSizes[index];
}

std::uint32_t SynCookies::stamp(std::uint32_t timestamp, const CookieOptions& options) noexcept {
  std::uint32_t bits = options.window_scale ? *options.window_scale & kScaleMask : kNoScale;
  if (options.sack) bits |= kSack;
  if (options.ecn) bits |= kEcn;
  // Not ahead of the clock: what is sent next must not seem older.
  const std::uint32_t behind = (timestamp - bits) & kOptionsMask;
  return timestamp - behind;
}

CookieOptions SynCookies::options_in(std::uint32_t echoed) noexcept {
  CookieOptions options;
  const std::uint32_t scale = echoed & kScaleMask;
  if (scale != kNoScale) options.window_scale = static_cast<std::uint8_t>(scale);
  options.sack = (echoed & kSack) != 0;
  options.ecn = (echoed & kEcn) != 0;
  return options;
}

}  // namespace pinion

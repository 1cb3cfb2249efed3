#include <pinion/timers/counter_clock.h>

#include <algorithm>
#include <limits>

namespace pinion {
namespace {

constexpr std::int64_t kEveryNs = CounterClock::kCompareEvery.count();
/// Two readings less far apart give no rate.
constexpr std::int64_t kLeastApartNs = kEveryNs / 2;
/// Readings whose uncertainty leaves more than this part of the rate open, as interrupted ones do,
/// give no rate either, unless the one in use is out of the question.
constexpr std::uint64_t kMostOpen = 1000;
/// A counter of less than 1 MHz is none that this clock can use.
constexpr std::uint64_t kMostRate = std::uint64_t{1} << 42;

/// Whether two rates may both be the kernel's on one counter: Linux slews by at most 10 % either
/// way, so that they differ by less than 11/9.
bool near(std::uint64_t one, std::uint64_t other) noexcept {
  return one - one / 4 <= other && other - other / 4 <= one;
}

/// Nanoseconds per count, times 2^32.
std::uint64_t rate_of(std::int64_t ns, std::uint64_t counts) noexcept {
  const detail::Wide rate = (static_cast<detail::Wide>(ns) << 32) / counts;
  return static_cast<std::uint64_t>(std::clamp<detail::Wide>(rate, 1, kMostRate));
}

}  // namespace

/// Whether both clocks went on in between, so that a rate can be told.
bool CounterClock::comparable(const Reading& from, const Reading& to) noexcept {
  return to.ns > from.ns && to.before > from.after && to.after >= to.before;
}

CounterClock::Rates CounterClock::rates(const Reading& from, const Reading& to) noexcept {
  const std::int64_t ns = to.ns - from.ns;
  return {rate_of(ns, to.after - from.before), rate_of(ns, to.before - from.after)};
}

void CounterClock::start(const Reading& from, const Reading& to) noexcept {
  PINION_ASSERT(comparable(from, to));
  measured_ = rates(from, to);
  longest_ = (static_cast<std::uint64_t>(kEveryNs) << kRateBits) / measured_.lowest;
  last_ = to;
  take_rate(measured_);
  last_ns_ = to.ns;
  set_base(to);
}

/// A jump of the counter looks like another rate in one comparison, a move to another machine from
/// then on. So a rate that the kernel can't have slewed to counts once it was measured twice;
/// until then the lower of the two is in use, for the shorter time.
void CounterClock::take_rate(const Rates& measured) noexcept {
  const bool plausible = near(measured.lowest, measured_.lowest);
  const std::uint64_t lowest =
      plausible ? measured.lowest : std::min(measured.lowest, measured_.lowest);
  const std::uint64_t highest = std::max(measured.lowest, measured_.lowest);
  rate_ = std::max<std::uint64_t>(lowest - lowest / (1'000'000 / kSlackPerMillion), 1);
  const std::uint64_t every = (static_cast<std::uint64_t>(kEveryNs) << kRateBits) / highest;
  compare_after_ = std::min(every, longest_);
  measured_ = measured;
}

/// Goes on from `to` with the rate in use.
Instant CounterClock::set_base(const Reading& to) noexcept {
  base_ = to.after;
  base_ns_ = to.ns;
  const std::uint64_t highest = std::max(measured_.highest, rate_);
  const detail::Wide lag = static_cast<detail::Wide>(to.after - to.before) * highest +
                           static_cast<detail::Wide>(compare_after_) * (highest - rate_);
  constexpr auto kMost = static_cast<detail::Wide>(std::numeric_limits<std::int64_t>::max());
  error_bound_ns_ = static_cast<std::int64_t>(std::min((lag >> kRateBits) + 2, kMost));
  return advanced_to(base_ns_);
}

Instant CounterClock::compare(const Reading& reading) noexcept {
  if (!comparable(last_, reading)) {
    last_ = reading;
  } else if (reading.ns - last_.ns >= kLeastApartNs) {
    const Rates measured = rates(last_, reading);
    const bool vague = measured.highest - measured.lowest > measured.lowest / kMostOpen;
    const bool contradicts =
        measured_.highest < measured.lowest || measured_.lowest > measured.highest;
    if (!vague || contradicts) {
      take_rate(measured);
      last_ = reading;
    }
  }
  return set_base(reading);
}

double CounterClock::frequency() const noexcept {
  return 1e9 * static_cast<double>(std::uint64_t{1} << kRateBits) /
         static_cast<double>(measured_.lowest);
}

bool CounterClock::rate_changed(const Reading& first, const Reading& second,
                                const Reading& third) noexcept {
  if (!comparable(first, second) || !comparable(second, third)) return true;
  const Rates one = rates(first, second);
  const Rates other = rates(second, third);
  constexpr std::uint64_t kPart = 1000;
  return one.lowest > other.highest + other.highest / kPart ||
         other.lowest > one.highest + one.highest / kPart;
}

}  // namespace pinion

#include <pinion/timers/time_source.h>

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/// The comparison of the CPU's counter with CLOCK_MONOTONIC.

namespace pinion {
namespace {

constexpr std::int64_t kCompareEveryNs = 100'000'000;
constexpr std::int64_t kCalibrateNs = 2'000'000;
/// A rate serves for so many times as long as it was measured.
constexpr std::int64_t kServes = 4;
/// Readings per comparison; the narrowest counts. One that was interrupted is wide.
constexpr int kReadings = 8;
/// More than NTP ever slews (500 ppm): a rate that differs by more is another counter.
constexpr double kMostDrift = 0.001;

std::int64_t kernel_ns() noexcept {
  return MonotonicTime::read().time_since_epoch().count();
}

/// Keeps the counter from being read before what stands above has been done.
void read_barrier() noexcept {
#if defined(__x86_64__)
  asm volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Whether the CPU says that its counter runs at one rate in all power states.
bool invariant_counter() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kPowerLeaf = 0x80000007;
  constexpr unsigned kInvariantTsc = 1U << 8;
  return __get_cpuid(kPowerLeaf, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
#elif defined(__aarch64__)
  return true;  // by the architecture
#else
  return false;
#endif
}

/// Whether the kernel has found the counter unusable: then it has taken it off its list. A guest's
/// list may have the hypervisor's clock instead, which is made of the counter. A list that can't be
/// read says nothing.
bool kernel_refuses_counter() {
#if defined(__x86_64__)
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  std::string line;
  if (!std::getline(file, line)) return false;
  for (const char* const name : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"}) {
    if (line.find(name) != std::string::npos) return false;
  }
  return true;
#else
  return false;
#endif
}

tl::unexpected<Error> refuse(std::string why) {
  return fail(ErrorCode::unsupported, std::move(why), "use MonotonicTime");
}

}  // namespace

TscTime::Sample TscTime::sample() noexcept {
  Sample best{};
  for (int reading = 0; reading < kReadings; ++reading) {
    const std::uint64_t before = counter();
    read_barrier();
    const std::int64_t ns = kernel_ns();
    read_barrier();
    const std::uint64_t after = counter();
    if (reading == 0 || after - before < best.after - best.before) best = {before, after, ns};
  }
  return best;
}

/// The least nanoseconds per count, times 2^32, that two comparisons allow.
std::uint64_t TscTime::lowest_rate(const Sample& from, const Sample& to) noexcept {
  const auto ns = static_cast<detail::Wide>(to.ns - from.ns);
  return static_cast<std::uint64_t>((ns << kRateBits) / (to.after - from.before));
}

double TscTime::highest_rate(const Sample& from, const Sample& to) noexcept {
  return static_cast<double>(to.ns - from.ns) / static_cast<double>(to.before - from.after);
}

/// Goes on from `to` with the rate in use.
void TscTime::set_base(const Sample& to) noexcept {
  base_ = to.after;
  base_ns_ = to.ns;
  const double width = static_cast<double>(to.after - to.before) * 1e9 / frequency_;
  error_bound_ns_ = static_cast<std::int64_t>(width + drift_ns_) + 2;
}

/// Takes the lowest rate that two comparisons allow.
void TscTime::set_rate(const Sample& from, const Sample& to) noexcept {
  last_ = to;
  rate_ = lowest_rate(from, to);
  const double per_count = static_cast<double>(rate_) / static_cast<double>(1ULL << kRateBits);
  const auto every = static_cast<double>(std::min(kCompareEveryNs, (to.ns - from.ns) * kServes));
  frequency_ = 1e9 / per_count;
  compare_after_ = static_cast<std::uint64_t>(every / per_count);
  drift_ns_ = (highest_rate(from, to) / per_count - 1) * every;
}

Result<> TscTime::calibrate() {
  if (!invariant_counter()) return refuse("this CPU's counter does not run at a constant rate");
  if (kernel_refuses_counter()) return refuse("the kernel has found this CPU's counter unstable");
  Sample samples[3];
  for (Sample& taken : samples) {
    const std::int64_t until = kernel_ns() + kCalibrateNs;
    while (kernel_ns() < until) {
    }
    taken = sample();
    if (&taken == samples) continue;
    const Sample& before = *(&taken - 1);
    if (taken.ns <= before.ns || taken.before <= before.after) {
      return refuse("this CPU's counter stands still or runs backwards");
    }
  }
  const double one = highest_rate(samples[0], samples[1]);
  const double other = static_cast<double>(lowest_rate(samples[1], samples[2])) /
                       static_cast<double>(1ULL << kRateBits);
  if (one > other * (1 + kMostDrift) || other > one * (1 + kMostDrift)) {
    return refuse("this CPU's counter was measured to change its rate");
  }
  set_rate(samples[0], samples[2]);
  set_base(samples[2]);
  last_ns_ = base_ns_;
  return {};
}

/// After a suspension, or a move to another machine, the counter may have jumped in either
/// direction: then the rate is kept, and measured anew from here.
Instant TscTime::resynchronise() noexcept {
  const Sample from = last_;
  const Sample to = sample();
  if (to.ns <= from.ns || to.before <= from.after) {
    last_ = to;
  } else if (to.ns - from.ns >= kCalibrateNs * 2) {
    const double change = static_cast<double>(lowest_rate(from, to)) / static_cast<double>(rate_);
    if (change < 1 + kMostDrift && change > 1 - kMostDrift) {
      set_rate(from, to);
    } else {
      last_ = to;
    }
  }
  set_base(to);
  return advanced_to(base_ns_);
}

}  // namespace pinion

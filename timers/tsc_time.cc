#include <pinion/timers/time_source.h>

#include <array>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/// Reads the CPU's counter together with CLOCK_MONOTONIC.

namespace pinion {
namespace {

constexpr std::int64_t kCalibrateNs = 2'000'000;
/// How many are taken before calibration gives up.
constexpr int kMostReadings = 8;
/// Each of them is the narrowest of so many: one that was interrupted is wide.
constexpr int kReadings = 4;

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

CounterClock::Reading TscTime::read() noexcept {
  CounterClock::Reading best{};
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

Result<> TscTime::check() {
  if (!invariant_counter()) return refuse("this CPU's counter does not run at a constant rate");
  if (kernel_refuses_counter()) return refuse("the kernel has found this CPU's counter unstable");
  return {};
}

/// Until three successive readings agree on the rate: the kernel may begin to slew meanwhile.
Result<> TscTime::calibrate() {
  if (Result<> checked = check(); !checked) return checked;
  std::array<CounterClock::Reading, 3> readings{};
  for (int taken = 1; taken <= kMostReadings; ++taken) {
    const std::int64_t until = kernel_ns() + kCalibrateNs;
    while (kernel_ns() < until) {
    }
    readings = {readings[1], readings[2], read()};
    const auto& [first, second, third] = readings;
    if (taken < 3 || CounterClock::rate_changed(first, second, third)) continue;
    clock_.start(first, third);
    return {};
  }
  return refuse("this CPU's counter was measured to change its rate, or to stand still");
}

Instant TscTime::resynchronise() noexcept {
  return clock_.compare(read());
}

}  // namespace pinion

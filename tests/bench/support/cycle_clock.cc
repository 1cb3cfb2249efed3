#include "support/cycle_clock.h"

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace pinion::bench {
namespace {

double clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Pairs a counter value with a clock value as closely as three tries allow.
std::pair<double, double> read_both() {
  double best_gap = 1e18;
  std::pair<double, double> best{};
  for (int i = 0; i < 3; ++i) {
    const auto before = static_cast<double>(read_cycles_fenced());
    const double now = clock_ns(CLOCK_MONOTONIC);
    const auto after = static_cast<double>(read_cycles_fenced());
    if (after - before < best_gap) {
      best_gap = after - before;
      best = {before + best_gap / 2, now};
    }
  }
  return best;
}

/// Without the slowest tenth.
double trimmed_mean(std::vector<std::uint64_t>& cycles) {
  const std::size_t kept = cycles.size() - cycles.size() / 10;
  const auto end = cycles.begin() + static_cast<std::ptrdiff_t>(kept);
  std::nth_element(cycles.begin(), end - 1, cycles.end());
  const std::uint64_t sum = std::accumulate(cycles.begin(), end, std::uint64_t{0});
  return static_cast<double>(sum) / static_cast<double>(kept);
}

}  // namespace

CycleClock CycleClock::calibrate() {
  CycleClock clock;
  const auto [cycles_begin, ns_begin] = read_both();
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
  nanosleep(&pause, nullptr);
  const auto [cycles_end, ns_end] = read_both();
  clock.ns_per_cycle_ = (ns_end - ns_begin) / (cycles_end - cycles_begin);

  constexpr std::size_t kReads = 100'000;
  std::vector<std::uint64_t> pairs(kReads);
  std::vector<std::uint64_t> singles(kReads);
  for (std::uint64_t& pair : pairs) {
    const std::uint64_t begin = read_cycles_fenced();
    keep_memory();
    pair = read_cycles_fenced() - begin;
  }
  std::uint64_t last = read_cycles();
  for (std::uint64_t& single : singles) {
    const std::uint64_t now = read_cycles();
    single = now - last;
    last = now;
  }
  clock.fenced_pair_cost_ = trimmed_mean(pairs);
  clock.read_cost_ = trimmed_mean(singles);
  return clock;
}

double CycleClock::trimmed_mean_ns(std::vector<std::uint64_t> cycles) const {
  return std::max(0.0, ns(trimmed_mean(cycles) - fenced_pair_cost_));
}

double CycleClock::elapsed_ns(std::uint64_t begin, std::uint64_t end) const noexcept {
  return std::max(0.0, ns(static_cast<double>(end - begin) - fenced_pair_cost_));
}

Stretch::Stretch(const CycleClock& clock)
    : clock_(clock),
      cpu_begin_ns_(clock_ns(CLOCK_THREAD_CPUTIME_ID)),
      begin_(read_cycles_fenced()) {}

double Stretch::ns() const {
  const double wall = clock_.elapsed_ns(begin_, read_cycles_fenced());
  const double cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begin_ns_;
  // What the two clocks differ by without a switch is the calls themselves and their rates.
  constexpr double kLeastSwitchNs = 20'000;
  return wall - cpu > kLeastSwitchNs ? cpu : wall;
}

}  // namespace pinion::bench

#include "clocks.h"

#include <fmt/format.h>

#include <algorithm>

#include <pinion/timers/time_source.h>

namespace pinion::detail {
namespace {

/// The vDSO takes 20 to 60 ns, the time of a hypervisor included; a system call that reads the
/// chipset's timer 600 ns and more.
constexpr Delay kSlowReading = std::chrono::nanoseconds{250};

}  // namespace

ClockChoice choose_clock(bool counter, Delay kernel_reading) noexcept {
  if (counter) return ClockChoice::tsc;
  return kernel_reading > kSlowReading ? ClockChoice::metronome : ClockChoice::monotonic;
}

Delay kernel_reading_cost() noexcept {
  constexpr int kBatches = 20;
  constexpr int kReadings = 16;
  Delay best = kNoTimeout;
  for (int batch = 0; batch < kBatches; ++batch) {
    const Instant begin = MonotonicTime::read();
    Instant end = begin;
    for (int i = 0; i < kReadings; ++i) end = MonotonicTime::read();
    best = std::min(best, saturating_sub(end, begin));
  }
  return std::chrono::nanoseconds{best.count() / kReadings};
}

Result<> Clocks::prepare(const RuntimeOptions& options) {
  asked_for_ = options.clock != ClockChoice::automatic;
  choice_ = options.clock;
  if (!asked_for_) choice_ = choose_clock(TscTime::check().has_value(), kernel_reading_cost());
  if (choice_ != ClockChoice::metronome) return {};
  auto started = Metronome::start(options.metronome, Metronome::kMaxLcores);
  if (!started) return tl::unexpected(std::move(started.error()));
  metronome_ = std::move(*started);
  return {};
}

Result<std::unique_ptr<TimeSource>> Clocks::make(std::size_t lcore) const {
  if (metronome_ != nullptr) {
    if (lcore < Metronome::kMaxLcores) return std::make_unique<MetronomeTime>(*metronome_, lcore);
    return fail(ErrorCode::resource_exhausted,
                fmt::format("a metronome shows the time to {} lcores", Metronome::kMaxLcores),
                "another clock");
  }
  if (choice_ == ClockChoice::tsc) {
    Result<TscTime> tsc = TscTime::create();
    if (tsc) return std::make_unique<TscTime>(*tsc);
    // Measured, against a clock that the kernel makes of the same counter: that is a vDSO call.
    if (asked_for_) return tl::unexpected(tsc.error());
  }
  return std::make_unique<MonotonicTime>();
}

}  // namespace pinion::detail

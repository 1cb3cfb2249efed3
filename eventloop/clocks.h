#pragma once

#include <cstddef>
#include <memory>

#include <pinion/eventloop/metronome.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/result.h>

/// The clocks of a runtime's lcores.
///
/// Ownership:  the runtime keeps it until its lcores are gone; an lcore owns its clock.
/// Threading:  prepare() before the lcores start, make() on each.
/// Errors:     a metronome that can't be had; a counter that is asked for and can't be used.

namespace pinion::detail {

/// What `automatic` means: the counter if it can be trusted. If not, then nothing is better than
/// the kernel's clock, unless it is a system call.
[[nodiscard]] ClockChoice choose_clock(bool counter, Delay kernel_reading) noexcept;

/// How long it takes to read CLOCK_MONOTONIC, at best.
[[nodiscard]] Delay kernel_reading_cost() noexcept;

class Clocks {
 public:
  /// Chooses, and starts the metronome when that is the choice.
  Result<> prepare(const RuntimeOptions& options);

  Result<std::unique_ptr<TimeSource>> make(std::size_t lcore) const;

  /// nullptr: there is none.
  [[nodiscard]] const Metronome* metronome() const noexcept { return metronome_.get(); }

 private:
  bool asked_for_ = false;  // A counter that is not may be missing.
  ClockChoice choice_ = ClockChoice::monotonic;
  std::unique_ptr<Metronome> metronome_;
};

}  // namespace pinion::detail

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <pthread.h>

#include <pinion/eventloop/metronome_board.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/timers/time_source.h>

/// A clock for hosts where reading the time is a system call: one thread reads CLOCK_MONOTONIC and
/// shows it to each lcore in a cache line of its own.
///
///   auto metronome = pinion::Metronome::start({}, 2);
///   pinion::MetronomeTime time(**metronome, 0);  // One for each lcore.
///   auto loop = pinion::Loop::create({}, time);
///
/// Ownership:  the caller owns both. The metronome outlives its clocks, they outlive their loops.
/// Threading:  the metronome's thread, `pinion-clock`, runs where the one that started it may, with
///             all signals blocked. A MetronomeTime is one lcore's; stats() on any thread.
/// Cost:       now() is a load; in a clock that doesn't move, one of kMostTrusted readings asks the
///             kernel. A beat is a wake-up of the thread. While all lcores sleep there are none,
///             and an lcore that wakes for a few turns starts none.
/// Error:      now() is behind CLOCK_MONOTONIC, never ahead: while the thread gets its CPU, by what
///             lies between two beats (`resolution`, `widest` under load) and what its wake-up
///             takes. When it doesn't get it, lcores notice in kMostTrusted readings at the latest
///             and read the kernel's clock until it does. What is armed relative to fresh() is
///             never early. docs/decisions/metronome.md has the measurements.

namespace pinion {

class Metronome {
 public:
  static constexpr std::size_t kMaxLcores = 1024;

  /// For so many lcores at most, whose slots take 128 bytes each. `invalid_argument`, or what the
  /// system says of one more thread.
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Metronome>> start(
      const MetronomeOptions& options, std::size_t lcores);

  /// Ends the thread. No MetronomeTime may be left.
  PINION_EXPORT ~Metronome();
  Metronome(const Metronome&) = delete;
  Metronome& operator=(const Metronome&) = delete;

  [[nodiscard]] MetronomeStats stats() const noexcept { return board_.stats(); }

 private:
  friend class MetronomeTime;

  Metronome(const MetronomeOptions& options, std::size_t lcores) : board_(options, lcores) {}
  void run() noexcept;

  detail::MetronomeBoard board_;
  std::atomic<bool> stopping_{false};
  pthread_t thread_{};
};

/// One lcore's clock. `index` is below the number of lcores, and no other clock's (asserted).
class MetronomeTime final : public TimeSource {
 public:
  /// After so many readings of a clock that hasn't moved, the kernel's is read.
  static constexpr std::uint32_t kMostTrusted = 256;
  /// The same when that has just found it to stand still; it doubles each time that it doesn't.
  static constexpr std::uint32_t kLeastTrusted = 8;
  /// Readings after a sleep, all of the kernel's clock, until a metronome that pauses is resumed.
  static constexpr std::uint32_t kReadingsToResume = 16;

  MetronomeTime(Metronome& metronome, std::size_t index) : MetronomeTime(metronome.board_, index) {}

  /// On a board that someone else beats, by a clock that is the kernel's unless told.
  PINION_EXPORT MetronomeTime(detail::MetronomeBoard& board, std::size_t index,
                              TimeSource* real = nullptr);

  PINION_EXPORT ~MetronomeTime() override;
  MetronomeTime(const MetronomeTime&) = delete;
  MetronomeTime& operator=(const MetronomeTime&) = delete;

  [[nodiscard]] Instant now() noexcept override {
    const Instant published = slot_.published();
    if (published > latest_) {
      latest_ = published;
      left_ = trusted_;
      return latest_;
    }
    if (--left_ > 0) [[likely]]
      return latest_;
    return look_up();
  }

  [[nodiscard]] PINION_EXPORT Instant fresh() noexcept override;
  [[nodiscard]] Delay resolution() const noexcept override { return board_.options().resolution; }
  void note_sleep(Instant until, int doorbell_fd) noexcept override {
    doubts_ = 0;
    slot_.sleep(until, doorbell_fd);
  }
  void note_wake() noexcept override { slot_.wake(); }

  /// How far now() is behind CLOCK_MONOTONIC at most, by the widest gap between beats of late,
  /// while the metronome has a CPU. Without one now() may stand for 256 readings before it looks
  /// itself.
  [[nodiscard]] PINION_EXPORT Delay error_bound() const noexcept;

  /// How often the kernel's clock was read.
  [[nodiscard]] std::uint64_t kernel_readings() const noexcept { return kernel_readings_; }

 private:
  PINION_EXPORT Instant look_up() noexcept;

  detail::MetronomeBoard& board_;
  detail::MetronomeSlot& slot_;
  TimeSource& real_;
  Instant latest_;
  std::uint32_t trusted_ = kMostTrusted;
  std::uint32_t left_ = 1;    // Readings until the kernel's clock is read.
  std::uint32_t doubts_ = 0;  // Times that it was, and the slot was too far behind.
  std::uint64_t kernel_readings_ = 0;
};

}  // namespace pinion

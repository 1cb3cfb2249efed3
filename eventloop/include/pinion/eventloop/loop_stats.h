#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pinion/eventloop/running.h>
#include <pinion/eventloop/submission.h>
#include <pinion/eventloop/task_group.h>
#include <pinion/lib/export.h>
#include <pinion/lib/histogram.h>
#include <pinion/lib/time.h>

/// What a loop counts about itself.
///
/// Ownership:  plain values, part of the loop; 59 KiB.
/// Threading:  read on the loop's thread; copy to publish (LoopSnapshot).
/// Cost:       always on. The clock readings that a turn takes anyway, and additions; one turn in
///             kTurnsPerTimed reads the clock after each phase besides. Times of phases, names of
///             overlong turns and the watch for preemptions took 17 instructions more for a turn
///             (callgrind, -O2: an idle one from 313 to 330, one with a message from 400 to 416).

namespace pinion {

/// The parts of a turn, in their order.
enum class Phase : std::uint8_t { messages, completions, pollers, tasks, timers, submit };
inline constexpr std::size_t kPhaseCount = 6;

[[nodiscard]] PINION_EXPORT std::string_view to_string(Phase phase) noexcept;

/// Overlong turns after which the same had run last.
struct OverlongTurns {
  Running last;  ///< When it ran alone, the culprit.
  std::uint64_t count = 0;
  Delay worst;
};

struct LoopStats {
  /// A prime, so that what repeats every few turns doesn't hide between the samples.
  static constexpr std::uint32_t kTurnsPerTimed = 61;
  static constexpr std::size_t kOverlongNames = 8;
  static constexpr std::size_t kMaxGroups = 16;

  std::uint64_t turns = 0;
  std::uint64_t busy_ns = 0;    ///< Turns that did something.
  std::uint64_t idle_ns = 0;    ///< Turns that found nothing to do.
  std::uint64_t parked_ns = 0;  ///< Asleep, and handing over the last few operations before.

  std::uint64_t parks = 0;         ///< Sleeps that slept.
  std::uint64_t failed_parks = 0;  ///< Announced, and called off because something had arrived.
  std::uint64_t dozes = 0;         ///< Sleeps cut short for a poller that can't be waited on.

  std::uint64_t preempted_spins = 0;  ///< Idle turns in which somebody else had the CPU.
  std::uint64_t spins_given_up = 0;   ///< Times it stopped spinning, which did not pay.

  std::uint64_t wakes_by_timer = 0;
  std::uint64_t wakes_by_completion = 0;
  std::uint64_t wakes_by_message = 0;
  std::uint64_t wakes_by_signal = 0;  ///< From sleeps that had nothing to submit.
  std::uint64_t doorbells = 0;        ///< System calls that senders made to wake the loop.

  std::uint64_t completions = 0;
  std::uint64_t messages = 0;
  std::uint64_t resumptions = 0;
  std::uint64_t timers_fired = 0;

  std::uint64_t overlong_turns = 0;
  Delay worst_turn;                  ///< The longest of them, without sleeping.
  Running worst_turn_last;           ///< What ran last in it; when it ran alone, the culprit.
  std::uint32_t worst_turn_ran = 0;  ///< How many things ran in it.

  /// The worst by what ran last, in no order; count 0: unused. When a ninth is worse than one of
  /// them, it takes the place of the least bad.
  std::array<OverlongTurns, kOverlongNames> overlong_by_name;

  /// Nanoseconds that a phase took in those of the timed turns in which it did something.
  /// Submissions that are part of a sleep aren't in it.
  std::array<CoarseHistogram, kPhaseCount> phases;

  SubmissionStats submission;

  std::uint64_t tasks_live = 0;
  std::uint64_t tasks_spawned = 0;
  std::uint64_t tasks_refused = 0;  ///< No room for the frame or the task.

  /// The first is the loop's default group.
  std::array<GroupStats, kMaxGroups> groups;

  /// Nanoseconds from the earliest due tick to the turn that fired it: the lateness of the most
  /// belated timer, once per turn that fired any.
  Histogram timer_lateness;
};
static_assert((sizeof(LoopStats) + 1023) / 1024 == 59);  // As it says above.

}  // namespace pinion

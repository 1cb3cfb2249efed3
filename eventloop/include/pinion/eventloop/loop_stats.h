#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/eventloop/running.h>
#include <pinion/lib/histogram.h>
#include <pinion/lib/time.h>

/// What a loop counts about itself.
///
/// Ownership: plain values, part of the loop. Threading: read on the loop's thread; copy to
/// publish. Cost: the clock readings that a turn takes anyway, and additions.

namespace pinion {

struct LoopStats {
  std::uint64_t turns = 0;
  std::uint64_t busy_ns = 0;    ///< Turns that did something.
  std::uint64_t idle_ns = 0;    ///< Turns that found nothing to do.
  std::uint64_t parked_ns = 0;  ///< Asleep, and handing over the last few operations before.

  std::uint64_t parks = 0;         ///< Sleeps that slept.
  std::uint64_t failed_parks = 0;  ///< Announced, and called off because something had arrived.
  std::uint64_t dozes = 0;         ///< Sleeps cut short for a poller that can't be waited on.

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

  std::uint64_t tasks_live = 0;
  std::uint64_t tasks_spawned = 0;
  std::uint64_t tasks_refused = 0;  ///< No room for the frame or the task.

  /// Nanoseconds from the earliest due tick to the turn that fired it: the lateness of the most
  /// belated timer, once per turn that fired any.
  Histogram timer_lateness;
};

}  // namespace pinion

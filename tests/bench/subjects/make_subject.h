#pragma once

#include <string>

#include "peers/floor_subject.h"
#include "timer_metrics.h"
#include "timer_subjects.h"

namespace pinion::bench {

/// The measurements of timer_metrics.h for one subject.
template <Subject S>
TimerSubject make_subject() {
  return {.name = S::kName,
          .largest_in_full = S::kLargestInFull,
          .largest_at_all = S::kLargestAtAll,
          .fires = std::string(S::kName) != FloorSubject::kName,
          .drain = &drain<S>,
          .steady = [](const Workload& work, const CycleClock& clock,
                       std::uint64_t seed) { return SteadyRun<S>(work, clock, seed).run(); },
          .extend = [](const ExtendWorkload& work,
                       const CycleClock& clock) { return ExtendRun<S>(work, clock).run(); }};
}

}  // namespace pinion::bench

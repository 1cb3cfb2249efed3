#pragma once

#include <string>
#include <vector>

#include "support/cycle_clock.h"
#include "timer_metrics.h"
#include "timer_workload.h"

/// The table of what is measured: each subject's measurements behind plain function pointers, so
/// that the program that drives them is not a template.

namespace pinion::bench {

struct TimerSubject {
  std::string name;
  std::size_t largest_in_full;  ///< beyond this many timers one run only
  std::size_t largest_at_all;   ///< beyond this many none: building it takes minutes
  bool fires;                   ///< false for the floor
  DrainFigures (*drain)(const Workload&, const CycleClock&, bool stamps);
  SteadyFigures (*steady)(const Workload&, const CycleClock&, std::uint64_t seed);
  double (*extend)(const ExtendWorkload&, const CycleClock&);
};

/// Every subject that was built in and can run here, pinion first.
std::vector<TimerSubject> timer_subjects();

/// The names of all that could have been built in.
std::vector<std::string> timer_subject_names();

/// One line for each subject that is left out on this machine, with the reason. Starts what needs
/// starting, on `cpu`.
std::vector<std::string> prepare_subjects(int cpu);

}  // namespace pinion::bench

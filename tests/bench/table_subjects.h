#pragma once

#include <string>
#include <vector>

#include "support/cycle_clock.h"
#include "table_latency.h"
#include "timer_workload.h"

/// What the table bench measures, behind plain function pointers.

namespace pinion::bench {

struct TableSubject {
  std::string name;
  std::size_t largest_in_full;  ///< beyond this many timers one run only
  LatencyFigures (*measure)(const Workload&, CallOrder, std::size_t operations, const CycleClock&,
                            std::uint64_t seed);
};

/// Every subject that was built in and can run here, pinion's table first. The floor is the bare
/// wheel with entries of the caller's, which is what the table adds ids to.
std::vector<TableSubject> table_subjects();

/// The names of all that could have been built in.
std::vector<std::string> table_subject_names();

/// One line for each subject that is left out on this machine, with the reason. Starts what needs
/// starting, on `cpu`.
std::vector<std::string> prepare_table_subjects(int cpu);

}  // namespace pinion::bench

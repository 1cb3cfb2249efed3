#pragma once

#include <functional>
#include <string>
#include <vector>

#include "echo_subjects.h"

/// How long the first request takes after a server had nothing to do for a second.

namespace pinion::bench {

struct IdleFigures {
  std::string error;                              ///< empty: all replies were right
  std::vector<std::vector<double>> latencies_ns;  ///< of each subject, sorted
};

/// Asks each subject `samples` times, on the server cpu `cpu`; blocks until it knows. All servers
/// live at once, two of each subject, and are asked in turn, in a new order every two seconds, so
/// that nobody waits for a second that others can use. `progress` hears how far it is.
IdleFigures measure_first_after_idle(const std::vector<EchoSubject>& subjects, int cpu,
                                     std::size_t samples,
                                     const std::function<void(const std::string&)>& progress);

}  // namespace pinion::bench

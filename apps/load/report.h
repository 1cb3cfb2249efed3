#pragma once

#include <string>

#include <pinion/lib/result.h>

#include "load/plan.h"
#include "load/results.h"

/// What pinion-load says: its first line, its progress, its summary, and the same as JSON.
///
/// Threading and cost: pure functions off the lcores.

namespace pinion::apps {

/// How a run ended, when it wasn't at its end.
struct Breakoff {
  bool interrupted = false;  ///< By a signal.
  bool early = false;        ///< No connection was left but silent ones.
};

[[nodiscard]] std::string first_line(const LoadOptions& options);

/// One line without a newline. `bar` asks for a progress bar of `width` columns.
[[nodiscard]] std::string progress_line(const LoadPlan& plan, Instant now,
                                        const LoadResults& results, double requests_per_second,
                                        bool bar, std::size_t width);

[[nodiscard]] std::string summary(const LoadPlan& plan, const LoadResults& results,
                                  const Breakoff& broken);

[[nodiscard]] std::string json(const LoadPlan& plan, const LoadResults& results,
                               const Breakoff& broken);

/// Nothing when the run was a success: no byte wrong, something answered (or, with silent
/// connections only, connected), and connections to the end.
[[nodiscard]] Result<> verdict(const LoadPlan& plan, const LoadResults& results,
                               const Breakoff& broken);

}  // namespace pinion::apps

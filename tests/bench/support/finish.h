#pragma once

#include <vector>

#include "support/options.h"
#include "support/report.h"
#include "support/targets.h"

/// What every bench begins and ends with.

namespace pinion::bench {

/// Binds the process to the cpu that was asked for, or to the last one. Returns it; -1 when that
/// can't be, which it has said: then the program exits with 2.
int bind_to_cpu(const Options& options);

/// Prints what became of the targets, and writes the JSON that was asked for. `whole`: everything
/// was measured. Returns the exit code.
int finish(const Options& options, const Report& report, const std::vector<TargetOutcome>& outcomes,
           bool whole = true);

/// The same for a bench without targets.
int finish(const Options& options, const Report& report, bool whole);

}  // namespace pinion::bench

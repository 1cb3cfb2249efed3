#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What the wheel promises of its speed, as ratios to peers of the same run.

namespace pinion::bench {

std::vector<TargetOutcome> check_targets(const Report& report);

}  // namespace pinion::bench

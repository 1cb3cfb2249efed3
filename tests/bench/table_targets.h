#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What a TimerTable promises.

namespace pinion::bench {

inline constexpr const char* kTableCase = "uniform_60s";

std::vector<TargetOutcome> check_table_targets(const Report& report);

}  // namespace pinion::bench

#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What a TimerTable promises.

namespace pinion::bench {

inline constexpr const char* kChurn = "churn";    ///< The case of single calls in turn,
inline constexpr const char* kBursts = "bursts";  ///< and of many of one kind.

std::vector<TargetOutcome> check_table_targets(const Report& report);

}  // namespace pinion::bench

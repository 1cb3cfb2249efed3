#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What messages between threads promise, as ratios and counts of the same run.

namespace pinion::bench {

inline constexpr const char* kSpinning = "spinning";  ///< The case of targets that never sleep,
inline constexpr const char* kParked = "parked";      ///< and of those that sleep at once.

std::vector<TargetOutcome> check_wake_targets(const Report& report);

}  // namespace pinion::bench

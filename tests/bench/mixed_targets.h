#pragma once

#include <cstddef>
#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What groups of tasks and maybe_yield() promise beside tasks that compute.

namespace pinion::bench {

inline constexpr const char* kMixedCase = "echo_beside_1ms_tasks";
inline constexpr std::size_t kMixedConnections = 8;

std::vector<TargetOutcome> check_mixed_targets(const Report& report);

}  // namespace pinion::bench

#pragma once

#include <cstddef>
#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What tasks promise, as ratios of the same run, and in bytes. There are two floors: with an
/// allocation for each task (`floor`), and the bare ring of function pointers (`bare_floor`).

namespace pinion::bench {

inline constexpr const char* kSpawnCase = "spawn";
inline constexpr const char* kYieldCase = "yield";
inline constexpr const char* kWaitingCase = "waiting";
inline constexpr std::size_t kFewTasks = 100;
inline constexpr std::size_t kManyTasks = 10'000;
inline constexpr std::size_t kWaitingTasks = 100'000;

std::vector<TargetOutcome> check_task_targets(const Report& report);

}  // namespace pinion::bench

#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What pinion promises of its echo server beside the floor and its peers, of the same run.

namespace pinion::bench {

std::vector<TargetOutcome> check_echo_targets(const Report& report);

}  // namespace pinion::bench

#pragma once

#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What the adaptive submission mode promises beside the fixed ones, of the same run: in each case
/// and metric at most 1.05 times the better fixed mode, by the median of the paired quotients.
/// Where it is more, but not in 4 of 5 pairs above 1, the pairs don't agree that there is a
/// difference: then it is undecided. Of a rate, the quotient is the other way round.

namespace pinion::bench {

std::vector<TargetOutcome> check_submission_targets(const Report& report);

}  // namespace pinion::bench

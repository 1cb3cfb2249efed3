#pragma once

#include <string>
#include <vector>

#include "support/report.h"

/// What the wheel promises of its speed, as ratios to peers of the same run.

namespace pinion::bench {

struct TargetOutcome {
  enum class State { met, missed, not_measured };
  State state;
  std::string text;  ///< one line: the promise and the figures
};

std::vector<TargetOutcome> check_targets(const Report& report);

/// The closing block of the bench's output.
std::string to_string(const std::vector<TargetOutcome>& outcomes);

}  // namespace pinion::bench

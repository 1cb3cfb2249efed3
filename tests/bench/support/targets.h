#pragma once

#include <string>
#include <vector>

/// What a bench promises, and whether this run kept it.

namespace pinion::bench {

struct TargetOutcome {
  /// Undecided: the figures say missed, but their pairs don't agree that there is a difference.
  enum class State { met, missed, undecided, not_measured };
  State state;
  std::string text;  ///< one line: the promise and the figures
};

/// The closing block of a bench's output.
std::string to_string(const std::vector<TargetOutcome>& outcomes);

bool any_missed(const std::vector<TargetOutcome>& outcomes);

}  // namespace pinion::bench

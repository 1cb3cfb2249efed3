#include "support/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pinion::bench {

std::string to_string(const std::vector<TargetOutcome>& outcomes) {
  std::size_t met = 0;
  std::size_t missed = 0;
  std::string lines;
  for (const TargetOutcome& outcome : outcomes) {
    const char* word = "-";
    if (outcome.state == TargetOutcome::State::met) {
      ++met;
      word = "met";
    } else if (outcome.state == TargetOutcome::State::missed) {
      ++missed;
      word = "MISSED";
    }
    fmt::format_to(std::back_inserter(lines), "  {:<7} {}\n", word, outcome.text);
  }
  return fmt::format("\ntargets: {} met, {} missed, {} not measured in this run\n{}", met, missed,
                     outcomes.size() - met - missed, lines);
}

bool any_missed(const std::vector<TargetOutcome>& outcomes) {
  return std::ranges::any_of(outcomes, [](const TargetOutcome& outcome) {
    return outcome.state == TargetOutcome::State::missed;
  });
}

}  // namespace pinion::bench

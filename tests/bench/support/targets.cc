#include "support/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pinion::bench {

std::string to_string(const std::vector<TargetOutcome>& outcomes) {
  std::size_t met = 0;
  std::size_t missed = 0;
  std::size_t undecided = 0;
  std::string lines;
  for (const TargetOutcome& outcome : outcomes) {
    const char* word = "-";
    if (outcome.state == TargetOutcome::State::met) {
      ++met;
      word = "met";
    } else if (outcome.state == TargetOutcome::State::missed) {
      ++missed;
      word = "MISSED";
    } else if (outcome.state == TargetOutcome::State::undecided) {
      ++undecided;
      word = "open";
    }
    fmt::format_to(std::back_inserter(lines), "  {:<7} {}\n", word, outcome.text);
  }
  const std::string open = undecided > 0 ? fmt::format("{} undecided, ", undecided) : "";
  return fmt::format("\ntargets: {} met, {} missed, {}{} not measured in this run\n{}", met, missed,
                     open, outcomes.size() - met - missed - undecided, lines);
}

bool any_missed(const std::vector<TargetOutcome>& outcomes) {
  return std::ranges::any_of(outcomes, [](const TargetOutcome& outcome) {
    return outcome.state == TargetOutcome::State::missed;
  });
}

}  // namespace pinion::bench

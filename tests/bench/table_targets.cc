#include "table_targets.h"

#include <fmt/format.h>

#include <string>

namespace pinion::bench {

std::vector<TargetOutcome> check_table_targets(const Report& report) {
  constexpr double kMostNs = 100;
  const std::string text = fmt::format("insert p99, 100k live, at most {:.0f} ns", kMostNs);
  const Row* const row = report.find({kTableCase, 100'000, "insert_p99", "pinion"});
  if (row == nullptr) return {{TargetOutcome::State::not_measured, text}};
  const Summary& ours = row->summary;
  return {{ours.median <= kMostNs ? TargetOutcome::State::met : TargetOutcome::State::missed,
           fmt::format("{}: {:.1f} [{:.1f}, {:.1f}] of {} runs", text, ours.median, ours.min,
                       ours.max, ours.runs)}};
}

}  // namespace pinion::bench

#include "table_targets.h"

#include <fmt/format.h>

#include <string>

namespace pinion::bench {

namespace {

TargetOutcome insert_below(const Report& report, const char* case_name, double bound_ns) {
  const std::string text =
      fmt::format("{:<6} insert p99, 100k live, less than {:.0f} ns", case_name, bound_ns);
  const Row* const row = report.find({case_name, 100'000, "insert_p99", "pinion"});
  if (row == nullptr) return {TargetOutcome::State::not_measured, text};
  const Summary& ours = row->summary;
  return {ours.median < bound_ns ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: {:.1f} [{:.1f}, {:.1f}] of {} runs", text, ours.median, ours.min,
                      ours.max, ours.runs)};
}

}  // namespace

std::vector<TargetOutcome> check_table_targets(const Report& report) {
  return {insert_below(report, kChurn, 100), insert_below(report, kBursts, 100)};
}

}  // namespace pinion::bench

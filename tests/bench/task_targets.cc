#include "task_targets.h"

#include <fmt/format.h>

#include <string>

namespace pinion::bench {
namespace {

/// Pinion's rate over a peer's, and its time over the floor's, by pairs.
TargetOutcome at_least(const Report& report, const char* case_name, std::size_t n, double least) {
  const std::string text =
      fmt::format("{:<7} {:>6} tasks: at least {} x asio's rate", case_name, n, least);
  const Row* const ours = report.find({case_name, n, "step", "pinion"});
  const Row* const theirs = report.find({case_name, n, "step", "asio"});
  if (ours == nullptr || theirs == nullptr) return {TargetOutcome::State::not_measured, text};
  const Summary ratio = Report::ratio(theirs, ours);
  return {ratio.median >= least ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: {:.1f} [{:.1f}, {:.1f}]  ({:.1f} and {:.1f} ns)", text, ratio.median,
                      ratio.min, ratio.max, ours->summary.median, theirs->summary.median)};
}

TargetOutcome at_most(const Report& report, const char* case_name, std::size_t n, double most,
                      const char* floor_name) {
  const std::string text =
      fmt::format("{:<7} {:>6} tasks: at most {} x the time of {}", case_name, n, most, floor_name);
  const Row* const ours = report.find({case_name, n, "step", "pinion"});
  const Row* const floor = report.find({case_name, n, "step", floor_name});
  if (ours == nullptr || floor == nullptr) return {TargetOutcome::State::not_measured, text};
  const Summary ratio = Report::ratio(ours, floor);
  return {ratio.median <= most ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: {:.1f} [{:.1f}, {:.1f}]  ({:.1f} and {:.1f} ns)", text, ratio.median,
                      ratio.min, ratio.max, ours->summary.median, floor->summary.median)};
}

TargetOutcome overhead(const Report& report) {
  const std::string text =
      "waiting task: under 100 bytes beside its frame, whatever its size up to 512";
  const Row* const row = report.find({kWaitingCase, kWaitingTasks, "overhead", "pinion"});
  if (row == nullptr) return {TargetOutcome::State::not_measured, text};
  return {row->summary.max < 100 ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: {:.0f}", text, row->summary.max)};
}

}  // namespace

std::vector<TargetOutcome> check_task_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const char* const case_name : {kSpawnCase, kYieldCase}) {
    for (const std::size_t n : {kFewTasks, kManyTasks}) {
      outcomes.push_back(at_least(report, case_name, n, 5));
      outcomes.push_back(at_most(report, case_name, n, 3, "floor"));
      outcomes.push_back(at_most(report, case_name, n, 3, "bare_floor"));
    }
  }
  outcomes.push_back(overhead(report));
  return outcomes;
}

}  // namespace pinion::bench

#include "wake_targets.h"

#include <fmt/format.h>

#include <string>

namespace pinion::bench {
namespace {

/// No round may exceed `most`.
TargetOutcome at_most(const Report& report, const RowKey& key, double most, const char* what) {
  const std::string text = fmt::format("{:<9} {:<12} {}", key.case_name, key.subject, what);
  const Row* const row = report.find(key);
  if (row == nullptr) return {TargetOutcome::State::not_measured, text};
  const bool met = row->summary.max <= most;
  return {met ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: at most {:.3g} of {} runs", text, row->summary.max, row->summary.runs)};
}

TargetOutcome latency(const Report& report, const char* subject, const char* peer) {
  const std::string text =
      fmt::format("{:<9} {:<12} p50 at most 0.5 x {}", kSpinning, subject, peer);
  const Row* const ours = report.find({kSpinning, 1, "latency_p50", subject});
  const Row* const theirs = report.find({kSpinning, 1, "latency_p50", peer});
  if (ours == nullptr || theirs == nullptr) return {TargetOutcome::State::not_measured, text};
  const Summary ratio = Report::ratio(ours, theirs);
  return {ratio.median <= 0.5 ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{}: {:.2f} [{:.2f}, {:.2f}]  ({:.0f} and {:.0f} ns)", text, ratio.median,
                      ratio.min, ratio.max, ours->summary.median, theirs->summary.median)};
}

}  // namespace

std::vector<TargetOutcome> check_wake_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const char* subject : {"pinion", "pinion_lcore"}) {
    for (const std::size_t batch : {1U, 100U}) {
      outcomes.push_back(at_most(report, {kSpinning, batch, "sender_calls", subject}, 0,
                                 "no system call while the target is awake"));
      outcomes.push_back(at_most(report, {kParked, batch, "calls_per_sleep", subject}, 1,
                                 "at most one doorbell per sleep"));
    }
    outcomes.push_back(latency(report, subject, "eventfd_poll"));
  }
  return outcomes;
}

}  // namespace pinion::bench

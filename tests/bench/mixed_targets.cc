#include "mixed_targets.h"

#include <fmt/format.h>

#include <string>

namespace pinion::bench {
namespace {

/// The median, over the rounds, of the other's over pinion's; of a rate the other way round.
TargetOutcome against(const char* other, const Report& report, const char* metric, const char* what,
                      double bound) {
  const Row* const ours = report.find({kMixedCase, kMixedConnections, metric, "pinion"});
  const Row* const without = report.find({kMixedCase, kMixedConnections, metric, other});
  if (ours == nullptr || without == nullptr) return {TargetOutcome::State::not_measured, what};
  const Summary ratio = Report::ratio(without, ours);
  return {
      ratio.median >= bound ? TargetOutcome::State::met : TargetOutcome::State::missed,
      fmt::format("{}: {:.3g} [{:.3g}, {:.3g}]  ({:.4g} and {:.4g} {})", what, ratio.median,
                  ratio.min, ratio.max, ours->summary.median, without->summary.median, ours->unit)};
}

}  // namespace

std::vector<TargetOutcome> check_mixed_targets(const Report& report) {
  return {against("neither", report, "latency_p99",
                  "p99 of the echo at least 5 times lower than with neither", 5),
          against("maybe_yield", report, "latency_p99",
                  "p99 of the echo with groups no higher than with maybe_yield alone", 1),
          against("neither", report, "computed", "what is computed falls by 5 % at most", 0.95)};
}

}  // namespace pinion::bench

#include "timer_targets.h"

#include <fmt/format.h>

#include <array>

namespace pinion::bench {
namespace {

struct Target {
  const char* case_name;
  std::size_t n;
  const char* metric;
  const char* subject;
  double ratio;  ///< the median of the peer's figures over ours must reach this
};

constexpr std::size_t kMillion = 1'000'000;

constexpr std::array kTargets = {
    Target{"extend_10s", kMillion, "extend", "heap4", 1.5},
    Target{"extend_10s", kMillion, "extend", "rte_timer", 6},
    Target{"extend_10s", kMillion, "extend", "libuv", 6},
    Target{"extend_10s", kMillion, "extend", "asio", 6},
    Target{"extend_10s", kMillion, "extend", "multimap", 6},
    Target{"uniform_60s", kMillion, "expire", "plain_wheel", 1 / 0.3},
    Target{"uniform_60s", kMillion, "expire", "heap4", 2},
    Target{"uniform_60s", kMillion, "insert", "plain_wheel", 1 / 1.2},
    Target{"uniform_60s", kMillion, "cancel", "plain_wheel", 1 / 1.2},
    Target{"uniform_60s", kMillion, "worst_advance", "plain_wheel", 20},
    Target{"uniform_60s", 10 * kMillion, "worst_advance", "plain_wheel", 20},
};

TargetOutcome check_target(const Report& report, const Target& target) {
  const std::string what =
      fmt::format("{:<14} {:>2}M  {:<12} at least {:>5.2f} times ours", target.metric,
                  target.n / kMillion, target.subject, target.ratio);
  const Row* ours = report.find({target.case_name, target.n, target.metric, "pinion"});
  const Row* theirs = report.find({target.case_name, target.n, target.metric, target.subject});
  if (ours == nullptr || theirs == nullptr) {
    return {TargetOutcome::State::not_measured, what};
  }
  const Summary ratio = report.ratio(*theirs);
  const bool met = ratio.median >= target.ratio;
  return {
      met ? TargetOutcome::State::met : TargetOutcome::State::missed,
      fmt::format("{}: {:>6.2f} [{:.2f}, {:.2f}]  ({:.1f} and {:.1f} {})", what, ratio.median,
                  ratio.min, ratio.max, theirs->summary.median, ours->summary.median, ours->unit)};
}

}  // namespace

std::vector<TargetOutcome> check_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const Target& target : kTargets) outcomes.push_back(check_target(report, target));
  return outcomes;
}

}  // namespace pinion::bench

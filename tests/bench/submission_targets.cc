#include "submission_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "submission_cases.h"

namespace pinion::bench {
namespace {

constexpr double kBound = 1.05;
constexpr double kAgreement = 0.8;

/// Whether enough of the pairs say that the one is more than the other; without pairs: yes.
bool pairs_agree(const Row& row, const Row& base) {
  const std::size_t pairs = std::min(row.samples.size(), base.samples.size());
  std::size_t more = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (row.samples[i] > base.samples[i]) ++more;
  }
  return static_cast<double>(more) >= kAgreement * static_cast<double>(pairs);
}

TargetOutcome check(const Report& report, const std::string& case_name, std::size_t n,
                    const std::string& metric) {
  const auto row_of = [&](const char* subject) {
    return report.find({case_name, n, metric, subject});
  };
  const std::string what =
      fmt::format("{:<16} {:<19} pinion_adaptive at most {:.2f} x the better fixed mode", case_name,
                  metric, kBound);
  const Row* adaptive = row_of("pinion_adaptive");
  const Row* low_latency = row_of("pinion_low_latency");
  const Row* throughput = row_of("pinion_throughput");
  if (adaptive == nullptr || low_latency == nullptr || throughput == nullptr) {
    return {TargetOutcome::State::not_measured, what};
  }
  const bool rate = adaptive->unit == "1/s";
  const bool low_latency_is_less = low_latency->summary.median <= throughput->summary.median;
  const Row& better = low_latency_is_less != rate ? *low_latency : *throughput;
  const Row& more = rate ? better : *adaptive;
  const Row& less = rate ? *adaptive : better;
  const Summary ratio = Report::ratio(adaptive, &better);
  using State = TargetOutcome::State;
  const State beyond = pairs_agree(more, less) ? State::missed : State::undecided;
  return {ratio.median > kBound ? beyond : State::met,
          fmt::format("{} ({}) {:>5.2f} [{:.2f}, {:.2f}]  ({:.2f} and {:.2f} {})", what,
                      better.key.subject, ratio.median, ratio.min, ratio.max,
                      adaptive->summary.median, better.summary.median, adaptive->unit)};
}

}  // namespace

std::vector<TargetOutcome> check_submission_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const SubmissionLoad& load : submission_loads()) {
    outcomes.push_back(check(report, load.name, kSubmissionConnections, "cpu_per_request"));
    if (load.rate <= 0) {
      outcomes.push_back(check(report, load.name, kSubmissionConnections, "requests_per_second"));
      continue;
    }
    outcomes.push_back(check(report, load.name, kSubmissionConnections, "latency_p50"));
    outcomes.push_back(check(report, load.name, kSubmissionConnections, "latency_p99"));
  }
  outcomes.push_back(check(report, kSubmissionIdleCase, 1, "latency_p50"));
  outcomes.push_back(check(report, kSubmissionIdleCase, 1, "latency_p99"));
  outcomes.push_back(check(report, kShortTurnsCase, 1, "cpu_per_request"));
  return outcomes;
}

}  // namespace pinion::bench

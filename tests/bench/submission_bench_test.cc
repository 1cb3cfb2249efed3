#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "submission_cases.h"
#include "submission_targets.h"

/// Whether the verdicts of the submission bench point the right way.

namespace pinion::bench {
namespace {

using State = TargetOutcome::State;

/// The state of the first case's CPU target, with so many rounds of such figures.
State state_of(const std::vector<double>& low_latency, const std::vector<double>& throughput,
               const std::vector<double>& adaptive) {
  Report report("submission", Machine{});
  const auto add = [&](const char* subject, const std::vector<double>& values) {
    for (const double value : values) {
      report.add_sample(
          {submission_loads().front().name, kSubmissionConnections, "cpu_per_request", subject},
          "us", value);
    }
  };
  add("pinion_low_latency", low_latency);
  add("pinion_throughput", throughput);
  add("pinion_adaptive", adaptive);
  return check_submission_targets(report).front().state;
}

TEST(SubmissionTargets, AdaptiveIsHeldAgainstTheBetterMode) {
  EXPECT_EQ(state_of({1, 1}, {2, 2}, {1.04, 1.04}), State::met);
  EXPECT_EQ(state_of({1, 1}, {2, 2}, {1.1, 1.1}), State::missed);
  EXPECT_EQ(state_of({2, 2}, {1, 1}, {1.1, 1.1}), State::missed);
  EXPECT_EQ(state_of({2, 2}, {1, 1}, {0.5, 0.5}), State::met);
  EXPECT_EQ(state_of({1, 1}, {2, 2}, {}), State::not_measured);
}

TEST(SubmissionTargets, PairsThatDisagreeShowNoDifference) {
  EXPECT_EQ(state_of({1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {1.2, 1.2, 1.2, 0.9, 0.9}), State::met);
  EXPECT_EQ(state_of({1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {1.2, 1.2, 1.2, 1.1, 0.9}), State::missed);
}

}  // namespace
}  // namespace pinion::bench

#include <gtest/gtest.h>

#include <string>
#include <utility>
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

TEST(SubmissionTargets, ARateIsToBeHigh) {
  const auto rate_state = [](double low_latency, double throughput, double adaptive) {
    Report report("submission", Machine{});
    const auto add = [&](const char* subject, double value) {
      report.add_sample({"steady_closed", kSubmissionConnections, "requests_per_second", subject},
                        "1/s", value);
    };
    add("pinion_low_latency", low_latency);
    add("pinion_throughput", throughput);
    add("pinion_adaptive", adaptive);
    for (const TargetOutcome& outcome : check_submission_targets(report)) {
      if (outcome.state != State::not_measured) return outcome.state;
    }
    return State::not_measured;
  };
  EXPECT_EQ(rate_state(100, 50, 99), State::met);
  EXPECT_EQ(rate_state(100, 50, 60), State::missed);
  EXPECT_EQ(rate_state(50, 100, 60), State::missed);
  EXPECT_EQ(rate_state(50, 100, 300), State::met);
}

TEST(SubmissionTargets, TheTailAfterIdlenessIsHeldAgainstTheModesToo) {
  Report report("submission", Machine{});
  for (const auto& [subject, value] :
       {std::pair{"pinion_low_latency", 1.0}, std::pair{"pinion_throughput", 2.0},
        std::pair{"pinion_adaptive", 1.5}}) {
    report.add_sample({kSubmissionIdleCase, 1, "latency_p99", subject}, "us", value);
  }
  EXPECT_TRUE(any_missed(check_submission_targets(report)));
}

TEST(SubmissionTargets, PairsThatDisagreeShowNoDifference) {
  EXPECT_EQ(state_of({1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {1.2, 1.2, 1.2, 0.9, 0.9}),
            State::undecided);
  EXPECT_EQ(state_of({1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {1.2, 1.2, 1.2, 1.1, 0.9}), State::missed);
}

}  // namespace
}  // namespace pinion::bench

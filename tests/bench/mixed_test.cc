#include <gtest/gtest.h>

#include <string>

#include "echo_load.h"
#include "mixed_server.h"
#include "mixed_targets.h"
#include "support/machine.h"

/// The server of the mixed bench answers and computes, however its tasks share the lcore.

namespace pinion::bench {
namespace {

TEST(MixedBench, ItAnswersAndComputesInEveryWay) {
  const TwoCpus cpus = choose_two_cpus(-1);
  if (!cpus.error.empty()) GTEST_SKIP() << cpus.error;
  for (const Sharing sharing : {Sharing::groups, Sharing::maybe_yield, Sharing::neither}) {
    const MixedServer server(sharing, cpus.server);
    EchoLoad load;
    ASSERT_EQ(load.connect(server.port(), kMixedConnections), "");
    for (int i = 0; i < 5; ++i) EXPECT_EQ(load.run_on_each(64), "");
    EXPECT_GT(server.pieces(), 0U);
    EXPECT_GT(server.cpu_ns(), 0);
  }
}

TEST(MixedBench, TargetsAreJudgedByPairs) {
  Report report("mixed", {});
  for (const double value : {1.0, 2.0}) {
    report.add_sample({kMixedCase, kMixedConnections, "latency_p99", "pinion"}, "us", value);
    report.add_sample({kMixedCase, kMixedConnections, "latency_p99", "neither"}, "us", 6 * value);
    report.add_sample({kMixedCase, kMixedConnections, "latency_p99", "maybe_yield"}, "us",
                      value / 2);
    report.add_sample({kMixedCase, kMixedConnections, "computed", "pinion"}, "1/s", 0.9 * value);
    report.add_sample({kMixedCase, kMixedConnections, "computed", "neither"}, "1/s", value);
  }
  const auto outcomes = check_mixed_targets(report);
  EXPECT_EQ(outcomes[0].state, TargetOutcome::State::met);
  EXPECT_EQ(outcomes[1].state, TargetOutcome::State::missed) << "groups are worth nothing here";
  EXPECT_EQ(outcomes[2].state, TargetOutcome::State::missed);
}

}  // namespace
}  // namespace pinion::bench

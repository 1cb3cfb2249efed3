#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "table_subjects.h"
#include "table_targets.h"

/// The table bench measures every subject, and reckons as it says. That the subjects do the same is
/// peers_test.cc's.

namespace pinion::bench {
namespace {

TEST(TableBench, PercentilesAreTheCallsOfTheirRank) {
  const CycleClock clock;                    // one cycle is a nanosecond, and reading costs none
  std::vector<std::uint64_t> cycles(2'000);  // 1 to 2,000 in another order
  for (std::size_t i = 0; i < cycles.size(); ++i) cycles[i] = i * 617 % 2'000 + 1;
  const Percentiles figures = percentiles(cycles, clock);
  EXPECT_EQ(figures.p50, 1'000);
  EXPECT_EQ(figures.p99, 1'980);
  EXPECT_EQ(figures.p999, 1'998);
  EXPECT_EQ(percentiles({42}, clock).p50, 42);
  EXPECT_EQ(percentiles({42}, clock).p999, 42);
  EXPECT_EQ(percentiles({}, clock).p999, 0);
}

TEST(TableBench, EverySubjectIsMeasured) {
  prepare_table_subjects(0);
  const CycleClock clock = CycleClock::calibrate();
  const Workload work(Distribution::uniform_60s, 1'000, 1);
  for (const TableSubject& subject : table_subjects()) {
    SCOPED_TRACE(subject.name);
    for (const CallOrder order : {CallOrder::churn, CallOrder::bursts}) {
      const LatencyFigures figures = subject.measure(work, order, 2'000, clock, 1);
      for (const Percentiles& one : {figures.insert, figures.cancel}) {
        EXPECT_GT(one.p999, 0);
        EXPECT_LE(one.p50, one.p99);
        EXPECT_LE(one.p99, one.p999);
      }
    }
  }
}

/// Loses one timer of a hundred.
class LosingTimers {
 public:
  static constexpr const char* kName = "losing";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 1'000'000;
  static constexpr std::size_t kLargestAtAll = 1'000'000;

  LosingTimers(std::size_t, Tick) {}
  void arm(std::uint32_t, Tick) { live_ += ++calls_ % 100 == 0 ? 0U : 1U; }
  void extend(std::uint32_t, Tick) {}
  void cancel(std::uint32_t) { --live_; }
  void touch(std::uint32_t) {}
  void advance(Tick) {}
  Tick next_expiry() const { return kNeverTick; }
  std::size_t live() const { return live_; }

 private:
  std::size_t live_ = 0;
  std::size_t calls_ = 0;
};

TEST(TableBenchDeathTest, ASubjectThatLosesTimersIsNotMeasured) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Workload work(Distribution::uniform_60s, 1'000, 1);
  LatencyRun<LosingTimers> run(work, 1);
  EXPECT_DEATH(run.run(CallOrder::churn, 2'000, CycleClock()), "every_call_worked");
}

TEST(TableBench, TargetsAreJudgedByTheMedianOfTheRounds) {
  const auto state_after = [](std::vector<double> rounds) {
    Report report("table", {});
    for (const double p99 : rounds) {
      report.add_sample({kBursts, 100'000, "insert_p99", "pinion"}, "ns", p99);
    }
    const std::vector<TargetOutcome> outcomes = check_table_targets(report);
    EXPECT_EQ(outcomes.at(0).state, TargetOutcome::State::not_measured);
    return outcomes.at(1).state;
  };
  EXPECT_EQ(state_after({60, 99, 300}), TargetOutcome::State::met);
  EXPECT_EQ(state_after({60, 100, 300}), TargetOutcome::State::missed);
  EXPECT_EQ(state_after({}), TargetOutcome::State::not_measured);
}

}  // namespace
}  // namespace pinion::bench

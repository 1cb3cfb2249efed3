#include <gtest/gtest.h>

#include <sched.h>

#include <cstddef>
#include <string>

#include "wake_channel.h"
#include "wake_targets.h"

/// The subjects of the wake bench deliver, and count what they say they count.

namespace pinion::bench {
namespace {

constexpr std::size_t kRounds = 50;
constexpr std::size_t kBatch = 100;

TEST(WakeBench, EverySubjectDeliversEveryMessageAndCountsItsCalls) {
  for (const WakeSubject& subject : wake_subjects()) {
    SCOPED_TRACE(subject.name + (subject.spins ? " spinning" : " parked"));
    Arrivals arrivals;
    const auto channel = subject.make(arrivals, -1);
    std::uint64_t sent = 0;
    for (std::size_t i = 0; i < kRounds; ++i) {
      const std::size_t messages = i % 2 == 0 ? 1 : kBatch;
      channel->send(messages);
      sent += messages;
      while (arrivals.count() < sent) sched_yield();
    }
    const WakeCounts counts = channel->end();
    EXPECT_EQ(arrivals.count(), sent);
    if (subject.spins && subject.name != "eventfd_poll") {
      EXPECT_EQ(counts.sender_calls, 0U);
    } else {
      EXPECT_GT(counts.target_calls, 0U);
    }
    if (!subject.spins) {
      EXPECT_GT(counts.sender_calls, 0U);
      EXPECT_LE(counts.sender_calls, counts.sleeps + 1);  // One ended the target.
    }
  }
}

TEST(WakeBench, TargetsAreJudgedByTheWorstRoundAndByPairs) {
  Report report("wake", {});
  for (const double calls : {0.0, 3.0}) {
    report.add_sample({kSpinning, 1, "sender_calls", "pinion"}, "1/M", calls);
    report.add_sample({kParked, 1, "calls_per_sleep", "pinion"}, "", calls / 4);
    report.add_sample({kSpinning, 1, "latency_p50", "pinion"}, "ns", 600 + calls);
    report.add_sample({kSpinning, 1, "latency_p50", "eventfd_poll"}, "ns", 1300);
  }
  std::string states;
  for (const TargetOutcome& outcome : check_wake_targets(report)) {
    states += outcome.state == TargetOutcome::State::met      ? 'y'
              : outcome.state == TargetOutcome::State::missed ? 'n'
                                                              : '-';
  }
  EXPECT_EQ(states, "ny--y-----");
}

}  // namespace
}  // namespace pinion::bench

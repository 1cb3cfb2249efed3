#include <gtest/gtest.h>

#include <cstdint>

#include <pinion/eventloop/runtime.h>
#include <pinion/test/running_lcores.h>

/// Groups of tasks of lcores that come and go: each life of a loop begins with the default group.

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kOtherShares = 700;

/// What a set-up found and made, looked at when no lcore runs any more.
struct Lives {
  int begun = 0;
  int with_both_groups = 0;
  int with_standard_shares = 0;
  int with_first_mode = 0;
};

Task<> wait_long() {
  co_await sleep_for(1h);
}

/// Two groups with a task each, other shares, another mode.
Result<> set_up(Lcore& lcore, Lives& lives) {
  Loop& loop = lcore.loop();
  const auto& stats = loop.stats();
  ++lives.begun;
  lives.with_standard_shares += stats.groups.front().shares == TaskGroup::kStandardShares ? 1 : 0;
  lives.with_first_mode += stats.submission.mode == SubmissionMode::throughput ? 1 : 0;
  const Result<TaskGroup> batch = loop.make_group("batch");
  const Result<TaskGroup> requests = loop.make_group("requests");
  if (!batch || !requests) return {};
  ++lives.with_both_groups;
  loop.spawn(wait_long(), "batch", *batch);
  loop.spawn(wait_long(), "requests", *requests);
  loop.default_group().set_shares(kOtherShares);
  loop.set_submission_mode(SubmissionMode::low_latency);
  return {};
}

RuntimeOptions two_lcores() {
  RuntimeOptions options = test::lcores_on_one_cpu(2);
  options.loop.submission.mode = SubmissionMode::throughput;
  options.loop.drain_timeout = 1ms;  // The tasks wait for longer.
  return options;
}

TEST(GroupLcores, EachLifeBeginsWithTheDefaultGroupAndTheModeOfTheOptions) {
  constexpr int kAgain = 20;
  Lives lives;
  test::RunningLcores lcores(two_lcores(), [&](Lcore& lcore) {
    return lcore.index() == 1 ? set_up(lcore, lives) : Result<>();
  });
  for (int i = 0; i < kAgain; ++i) {
    ASSERT_TRUE(lcores.drain(1));
    ASSERT_TRUE(lcores.add());
  }
  lcores.stop();
  EXPECT_EQ(lives.begun, kAgain + 1);
  EXPECT_EQ(lives.with_both_groups, lives.begun);
  EXPECT_EQ(lives.with_standard_shares, lives.begun);
  EXPECT_EQ(lives.with_first_mode, lives.begun);
}

}  // namespace
}  // namespace pinion

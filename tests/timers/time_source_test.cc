#include <pinion/timers/time_source.h>

#include <chrono>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace pinion {
namespace {

using namespace std::chrono_literals;

TEST(ManualTime, StandsWhereItWasSet) {
  ManualTime time(Instant{5ns});
  EXPECT_EQ(time.now(), Instant{5ns});
  time.advance(10ms);
  EXPECT_EQ(time.now(), Instant{10ms + 5ns});
  time.set(Instant{1ns});
  EXPECT_EQ(time.now(), Instant{1ns});
  time.advance(kNoTimeout);
  EXPECT_EQ(time.now(), kNever);
}

TEST(MonotonicTime, IsTheSteadyClock) {
  MonotonicTime time;
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  const auto now = time.now().time_since_epoch();
  const auto after = std::chrono::steady_clock::now().time_since_epoch();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

/// Whether the two clocks agree at this moment: `time` was read between two readings of the
/// kernel's, is not ahead, and lags by no more than its bound.
testing::AssertionResult agrees(TscTime& time) {
  MonotonicTime kernel;
  const Instant before = kernel.now();
  const Instant now = time.now();
  const Instant after = kernel.now();
  // 500 ppm of 100 ms: what a slewing kernel clock may put it ahead.
  if (now > after + 50us)
    return testing::AssertionFailure() << "ahead by " << (now - after).count();
  const auto lag = before - now;
  const auto bound = time.error_bound().to_nanoseconds();
  if (lag > bound) {
    return testing::AssertionFailure()
           << "behind by " << lag.count() << ", bound " << bound.count();
  }
  return testing::AssertionSuccess();
}

TEST(TscTime, FollowsTheKernelWithinItsBoundAndNeverStepsBack) {
  Result<TscTime> made = TscTime::create();
  if (!made) GTEST_SKIP() << made.error().what;
  TscTime time = std::move(*made);
  EXPECT_GT(time.frequency(), 1e6);
  Instant last = time.now();
  MonotonicTime kernel;
  const Instant end = kernel.now() + 400ms;  // several comparisons
  while (kernel.now() < end) {
    ASSERT_TRUE(agrees(time));
    const Instant now = time.now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_LT(time.error_bound(), Delay(1ms));
}

TEST(TscTime, IsRightAfterALongSleepAndAfterEachResynchronisation) {
  Result<TscTime> made = TscTime::create();
  if (!made) GTEST_SKIP() << made.error().what;
  TscTime time = std::move(*made);
  std::this_thread::sleep_for(250ms);
  ASSERT_TRUE(agrees(time));
  for (int round = 0; round < 200; ++round) {
    const Instant before = time.now();
    EXPECT_GE(time.resynchronise(), before);
    ASSERT_TRUE(agrees(time));
    if (round % 50 == 0) std::this_thread::sleep_for(5ms);
  }
}

}  // namespace
}  // namespace pinion

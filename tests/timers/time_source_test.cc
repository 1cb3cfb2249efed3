#include <pinion/timers/time_source.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <time.h>

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

/// Compares a TscTime with the kernel's clock. A kernel that changes its clock's rate by more than
/// 500 ppm may put it ahead; whether it did is told by CLOCK_MONOTONIC_RAW, which no slew changes.
class Comparison {
 public:
  explicit Comparison(TscTime& time) : time_(time) {}

  void look() {
    const Instant before = MonotonicTime::read();
    const Instant now = time_.now();
    const Instant after = MonotonicTime::read();
    ASSERT_GE(now, last_) << "stepped back";
    last_ = now;
    ahead_ = std::max(ahead_, now - after);
    ASSERT_LE(before - now, time_.error_bound().to_nanoseconds())
        << "behind by more than its bound";
    if (after - window_.kernel >= 20ms) end_window();
  }

  void finish() {
    end_window();
    if (highest_ - lowest_ < 500e-6) {
      EXPECT_LE(ahead_, 0ns);
    }
    EXPECT_LT(ahead_, 1ms);
  }

 private:
  struct Moment {
    Instant kernel = MonotonicTime::read();
    std::chrono::nanoseconds raw = read_raw();
  };

  static std::chrono::nanoseconds read_raw() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  }

  void end_window() {
    const Moment end;
    const auto raw = static_cast<double>((end.raw - window_.raw).count());
    const double rate = static_cast<double>((end.kernel - window_.kernel).count()) / raw;
    lowest_ = std::min(lowest_, rate);
    highest_ = std::max(highest_, rate);
    window_ = end;
  }

  TscTime& time_;
  Instant last_{};
  std::chrono::nanoseconds ahead_{0};
  Moment window_;
  double lowest_ = 2;
  double highest_ = 0;
};

TEST(TscTime, FollowsTheKernelWithinItsBoundAndNeverStepsBack) {
  Result<TscTime> made = TscTime::create();
  if (!made) GTEST_SKIP() << made.error().what;
  TscTime time = std::move(*made);
  EXPECT_GT(time.frequency(), 1e6);
  Comparison comparison(time);
  const Instant end = MonotonicTime::read() + 400ms;  // several hundred comparisons
  while (MonotonicTime::read() < end) ASSERT_NO_FATAL_FAILURE(comparison.look());
  comparison.finish();
}

TEST(TscTime, IsRightAfterALongSleepAndAfterEachResynchronisation) {
  Result<TscTime> made = TscTime::create();
  if (!made) GTEST_SKIP() << made.error().what;
  TscTime time = std::move(*made);
  Comparison comparison(time);
  std::this_thread::sleep_for(250ms);
  ASSERT_NO_FATAL_FAILURE(comparison.look());
  for (int round = 0; round < 200; ++round) {
    const Instant before = time.now();
    EXPECT_GE(time.resynchronise(), before);
    ASSERT_NO_FATAL_FAILURE(comparison.look());
    if (round % 50 == 0) std::this_thread::sleep_for(5ms);
  }
  comparison.finish();
}

}  // namespace
}  // namespace pinion

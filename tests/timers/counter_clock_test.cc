#include <pinion/timers/counter_clock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

/// The clock made of a counter, on a counter and a kernel that follow a script.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// What the kernel's clock does to real time: 1 is right, 1.0833 chronyd's fastest slew.
constexpr double kSlews[] = {1.0, 1 + 500e-6, 1 - 500e-6, 1.0833, 1 - 0.0833, 1.1, 0.9};
/// In counts per nanosecond: the counters of arm64 boards and of x86.
constexpr double kCounters[] = {0.024, 0.0625, 1.0, 2.1, 3.7};

/// A machine: real time passes, a counter counts it, and the kernel's clock follows, both at rates
/// that may change. Whoever asks for the time compares first where that is due.
class Machine {
 public:
  Machine(double counts_per_ns, double kernel_rate, std::uint64_t seed)
      : random_(seed), counts_per_ns_(counts_per_ns), kernel_rate_(kernel_rate) {
    const CounterClock::Reading from = reading();
    pass(4'000'000);
    clock_.start(from, reading());
    last_ = clock_.at(counter());
  }

  void set_counter_rate(double counts_per_ns) { counts_per_ns_ = counts_per_ns; }
  void set_kernel_rate(double rate) { kernel_rate_ = rate; }
  void jump(std::int64_t counts) { counts_ += counts; }
  /// How long a reading takes: each from `least` to `most`, one in `one_in` `interrupted`.
  void set_reading(std::int64_t least, std::int64_t most, std::int64_t interrupted,
                   std::uint64_t one_in) {
    least_ = least;
    most_ = most;
    interrupted_ = interrupted;
    one_in_ = one_in;
  }

  void pass(std::int64_t ns) {
    counts_ += static_cast<long double>(ns) * counts_per_ns_;
    kernel_ns_ += static_cast<long double>(ns) * kernel_rate_;
  }

  /// Polls for `ns`, every `step` at most, and notes how far ahead and behind the clock was.
  void run(std::int64_t ns, std::int64_t step = 2'000) {
    ahead_ = beyond_bound_ = 0;
    for (std::int64_t left = ns; left > 0;) {
      const std::int64_t next = random_.between<std::int64_t>(1, step);
      pass(next);
      left -= next;
      look();
    }
  }

  /// Asks for the time once, after what compare() may take.
  void look() {
    const bool compared = clock_.stale(counter());
    const Instant now = compared ? clock_.compare(reading()) : clock_.at(counter());
    if (compared) ++comparisons_;
    ASSERT_GE(now, last_) << "stepped back";
    last_ = now;
    const auto kernel = static_cast<std::int64_t>(kernel_ns_);
    const std::int64_t count = now.time_since_epoch().count();
    ahead_ = std::max(ahead_, count - kernel);
    beyond_bound_ =
        std::max(beyond_bound_, kernel - count - clock_.error_bound().count() - granularity());
  }

  void compare() {
    const Instant now = clock_.compare(reading());
    ASSERT_GE(now, last_);
    last_ = now;
  }

  /// Since run() began: nanoseconds ahead of the kernel's clock, and beyond the stated bound
  /// behind it.
  std::int64_t ahead() const { return ahead_; }
  std::int64_t beyond_bound() const { return beyond_bound_; }
  std::uint64_t comparisons() const { return comparisons_; }
  /// What a whole number of counts can't tell, and one nanosecond.
  std::int64_t granularity() const { return static_cast<std::int64_t>(1.2 / counts_per_ns_) + 1; }
  CounterClock& clock() { return clock_; }

 private:
  std::uint64_t counter() const { return static_cast<std::uint64_t>(counts_); }

  CounterClock::Reading reading() {
    const auto half = [&] {
      return random_.below(one_in_) == 0 ? interrupted_ : random_.between(least_, most_);
    };
    const std::uint64_t before = counter();
    pass(half());
    const auto ns = static_cast<std::int64_t>(kernel_ns_);
    pass(half());
    return {before, counter(), ns};
  }

  Random random_;
  double counts_per_ns_;
  double kernel_rate_;
  long double counts_ = 1e15L;
  long double kernel_ns_ = 5e12L;
  std::int64_t least_ = 10;
  std::int64_t most_ = 40;
  std::int64_t interrupted_ = 0;
  std::uint64_t one_in_ = 1'000'000'000;
  CounterClock clock_;
  Instant last_{};
  std::int64_t ahead_ = 0;
  std::int64_t beyond_bound_ = 0;
  std::uint64_t comparisons_ = 0;
};

TEST(CounterClock, StaysBehindTheKernelByNoMoreThanItsBound) {
  for (const double counter : kCounters) {
    for (const double slew : kSlews) {
      Machine machine(counter, slew, seed());
      machine.run(50'000'000);
      EXPECT_LE(machine.ahead(), machine.granularity()) << counter << ' ' << slew;
      EXPECT_LE(machine.beyond_bound(), 0) << counter << ' ' << slew;
      EXPECT_LT(machine.clock().error_bound(), Delay(1us + nanoseconds(9 * machine.granularity())));
      EXPECT_GE(machine.comparisons(), 40U);
      EXPECT_NEAR(machine.clock().frequency(), counter / slew * 1e9, counter * 1e6);
    }
  }
}

/// The kernel begins and ends to slew, at any moment between two comparisons.
TEST(CounterClock, IsAheadForOneIntervalAtMostWhenTheKernelsRateChanges) {
  Random random(seed());
  for (const double before : kSlews) {
    for (const double after : kSlews) {
      Machine machine(2.1, before, random.next());
      machine.run(5'000'000 + random.between<std::int64_t>(0, 1'000'000));
      machine.set_kernel_rate(after);
      machine.run(3'000'000);
      const double change = std::max(0.0, 1 - after / before - 500e-6);
      EXPECT_LE(machine.ahead(), 1e6 * change + 10) << before << " to " << after;
      machine.run(20'000'000);
      EXPECT_LE(machine.ahead(), 2) << before << " to " << after;
      EXPECT_LE(machine.beyond_bound(), 0) << before << " to " << after;
      EXPECT_LT(machine.clock().error_bound(), Delay(1us));
    }
  }
}

TEST(CounterClock, DoesNotTakeASuspensionForARate) {
  constexpr std::int64_t kHour = 3'600'000'000'000;
  for (const std::int64_t counts :
       {2 * kHour, 700'000L, -700'000L, -1'700'000L, -5'000'000L, -400'000'000'000L}) {
    Machine machine(2.0, 1.0, seed());
    machine.run(5'500'000);
    machine.jump(counts);
    machine.run(4'000'000);
    // A jump that can't be told from time is time until the next comparison.
    EXPECT_LE(machine.ahead(), counts == 700'000 ? 350'000 : 2) << counts;
    machine.run(20'000'000);
    EXPECT_LE(machine.ahead(), 2) << counts;
    EXPECT_LE(machine.beyond_bound(), 0) << counts;
  }
}

/// Each comparison sees a counter that has jumped: the clock goes on all the same.
TEST(CounterClock, IsNotStoppedBySuspensionsInARow) {
  for (const std::int64_t counts : {1'000'000'000'000L, -1'000'000'000L}) {
    Machine machine(2.0, 1.0, seed());
    for (int round = 0; round < 50; ++round) {
      machine.run(1'200'000);
      machine.jump(counts);
    }
    machine.run(4'000'000);
    machine.run(10'000'000);
    EXPECT_LE(machine.ahead(), 2);
    EXPECT_LE(machine.beyond_bound(), 0);
  }
}

TEST(CounterClock, FollowsAMoveToAMachineWithAnotherCounter) {
  for (const double other : {1.0, 1.4, 2.9, 6.0}) {
    Machine machine(2.0, 1.0, seed());
    machine.run(5'000'000);
    machine.set_counter_rate(other);
    machine.run(5'000'000);
    EXPECT_LE(machine.ahead(), 1'000'000) << other;
    machine.run(20'000'000);
    EXPECT_LE(machine.ahead(), 2) << other;
    EXPECT_LE(machine.beyond_bound(), 0) << other;
    EXPECT_LT(machine.clock().error_bound(), Delay(2us)) << other;
    EXPECT_NEAR(machine.clock().frequency(), other * 1e9, other * 1e6);
  }
}

TEST(CounterClock, BearsReadingsThatAreInterruptedOrSlow) {
  Machine machine(2.1, 1.0, seed());
  machine.set_reading(10, 40, 3'000'000, 10);
  machine.run(200'000'000);
  EXPECT_LE(machine.ahead(), 2);
  EXPECT_LE(machine.beyond_bound(), 0);
  machine.set_reading(2'000, 6'000, 0, 1'000'000);  // a counter whose reading is trapped
  machine.run(200'000'000);
  EXPECT_LE(machine.ahead(), 2);
  EXPECT_LE(machine.beyond_bound(), 0);
  EXPECT_LT(machine.clock().error_bound(), Delay(40us));
  machine.set_kernel_rate(1 - 0.0833);
  machine.run(3'000'000);
  EXPECT_LE(machine.ahead(), 2 * 83'300);
  machine.run(20'000'000);
  EXPECT_LE(machine.ahead(), 2);
}

TEST(CounterClock, ForgetsAnInterruptedReadingAtTheNextComparison) {
  Machine machine(2.1, 1.0, seed());
  machine.run(5'000'000);
  machine.set_reading(3'000'000, 3'000'000, 0, 1'000'000'000);
  machine.compare();
  EXPECT_GT(machine.clock().error_bound(), Delay(3ms));
  machine.set_reading(10, 40, 0, 1'000'000'000);
  machine.run(1'100'000);
  EXPECT_LT(machine.clock().error_bound(), Delay(1us));
}

/// As uncertain as a reading may be and still give a rate.
TEST(CounterClock, TakesTheLowestRateThatReadingsAllow) {
  Machine machine(2.1, 1.0, seed());
  machine.set_reading(200, 240, 0, 1'000'000'000);
  machine.run(500'000'000, 20'000);
  EXPECT_LE(machine.ahead(), 2);
  EXPECT_LE(machine.beyond_bound(), 0);
}

TEST(CounterClock, IsRightAfterSleepsAndAfterComparisonsOfAnyNumber) {
  Random random(seed());
  for (const double counter : kCounters) {
    Machine machine(counter, 1 + 50e-6, random.next());
    for (int round = 0; round < 200; ++round) {
      machine.pass(random.between<std::int64_t>(0, std::int64_t{1} << (round % 44)));
      for (std::uint64_t extra = random.below(5); extra != 0; --extra) {
        machine.pass(random.between<std::int64_t>(0, 300));
        machine.compare();
      }
      machine.look();
      machine.run(100'000);
      ASSERT_LE(machine.ahead(), machine.granularity()) << round;
      ASSERT_LE(machine.beyond_bound(), 0) << round;
    }
  }
}

TEST(CounterClock, TellsACounterThatChangesItsRateFromReadingsThatAreVague) {
  using Reading = CounterClock::Reading;
  const auto reading = [](std::uint64_t at, std::uint64_t width, std::int64_t ns) {
    return Reading{at, at + width, ns};
  };
  const Reading first = reading(0, 100, 0);
  const Reading second = reading(4'000'000, 100, 2'000'000);
  EXPECT_FALSE(CounterClock::rate_changed(first, second, reading(8'000'000, 100, 4'000'000)));
  EXPECT_TRUE(CounterClock::rate_changed(first, second, reading(8'010'000, 100, 4'000'000)));
  EXPECT_TRUE(CounterClock::rate_changed(first, second, reading(7'990'000, 100, 4'000'000)));
  EXPECT_FALSE(CounterClock::rate_changed(first, second, reading(7'990'000, 20'000, 4'000'000)));
  EXPECT_TRUE(CounterClock::rate_changed(first, second, second)) << "stands still";
  EXPECT_TRUE(CounterClock::rate_changed(second, first, reading(8'000'000, 100, 4'000'000)));
}

}  // namespace
}  // namespace pinion::test

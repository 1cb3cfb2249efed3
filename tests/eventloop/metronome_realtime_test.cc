#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pinion/eventloop/metronome.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "loop_fixture.h"

/// A metronome's thread and loops that live by it. The bounds are generous: a busy machine must
/// pass.

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr Delay kGenerous = 2s;

Instant real_now() {
  return MonotonicTime::read();
}

LoopOptions with_policy(IdlePolicy policy) {
  LoopOptions options;
  options.idle = policy;
  return options;
}

Task<> measure_sleep(Delay delay, std::optional<Delay>& slept) {
  const Instant begin = real_now();
  co_await sleep_for(delay);
  slept = saturating_sub(real_now(), begin);
}

// The design asks for it: an idle program has no periodic tick.
TEST(MetronomeThread, DoesNotBeatWhileEveryLcoreSleeps) {
  const auto metronome = Metronome::start({}, 2);
  ASSERT_TRUE(metronome);
  MetronomeTime first(**metronome, 0);
  const MetronomeTime second(**metronome, 1);
  const auto loop = test::make_loop(first, with_policy(IdlePolicy::park));
  loop->run_until([] { return false; }, 500ms);
  const MetronomeStats stats = (*metronome)->stats();
  EXPECT_EQ(stats.pauses, 1U);
  EXPECT_LE(stats.beats, 2U * detail::MetronomeBoard::kQuietBeats);  // 2000 in 500 ms otherwise.
}

// Nor has one that a timer wakes for a moment.
TEST(MetronomeThread, IsNotResumedByTimersThatTakeATurn) {
  const auto metronome = Metronome::start({}, 1);
  ASSERT_TRUE(metronome);
  MetronomeTime time(**metronome, 0);
  const auto loop = test::make_loop(time, with_policy(IdlePolicy::park));
  bool over = false;
  const auto body = [](bool& out) -> Task<> {
    for (int i = 0; i < 50; ++i) co_await sleep_for(10ms);
    out = true;
  };
  loop->spawn(body(over));
  ASSERT_TRUE(loop->run_until([&] { return (*metronome)->stats().pauses > 0; }, 20s));
  const std::uint64_t beats = (*metronome)->stats().beats;
  ASSERT_TRUE(loop->run_until([&] { return over; }, 20s));
  EXPECT_EQ((*metronome)->stats().pauses, 1U);
  EXPECT_LE((*metronome)->stats().beats, beats + 1);
}

TEST(MetronomeThread, IsResumedByALoopThatSpinsAndSparesItTheKernelsClock) {
  const auto metronome = Metronome::start({}, 1);
  ASSERT_TRUE(metronome);
  MetronomeTime time(**metronome, 0);
  const auto loop = test::make_loop(time, with_policy(IdlePolicy::spin));
  // Until it has been awake for a few beats, whatever else the machine has to do.
  const auto beaten = [&] { return (*metronome)->stats().beats >= 200; };
  ASSERT_TRUE(loop->run_until(beaten, 20s));
  const LoopStats& stats = loop->stats();
  EXPECT_LT(time.kernel_readings(), stats.turns / 2);
  EXPECT_GE(time.error_bound(), Delay{250us});
}

/// Says that it wants to be woken earlier than the loop does.
class Impatient final : public TimeSource {
 public:
  explicit Impatient(MetronomeTime& time) : time_(time) {}
  Instant now() noexcept override { return time_.now(); }
  Instant fresh() noexcept override { return time_.fresh(); }
  void note_sleep(Instant /*until*/, int doorbell_fd) noexcept override {
    time_.note_sleep(sleeps_++ == 0 ? time_.fresh() : kNever, doorbell_fd);
  }
  void note_wake() noexcept override { time_.note_wake(); }

 private:
  MetronomeTime& time_;
  int sleeps_ = 0;
};

// What the kernel doesn't wake, the metronome does.
TEST(MetronomeThread, RingsALoopThatSleepsPastItsTime) {
  const auto metronome = Metronome::start({}, 1);
  ASSERT_TRUE(metronome);
  MetronomeTime time(**metronome, 0);
  Impatient impatient(time);
  const auto loop = test::make_loop(impatient, with_policy(IdlePolicy::park));
  const Instant begin = real_now();
  const auto woken = [&] { return loop->stats().parks > 0; };
  ASSERT_TRUE(loop->run_until(woken, 20s));
  EXPECT_LT(saturating_sub(real_now(), begin), Delay{10s});
  EXPECT_EQ((*metronome)->stats().rings, 1U);
  EXPECT_EQ(loop->stats().wakes_by_completion, 1U);
}

class Starved : public ::testing::TestWithParam<IdlePolicy> {};

INSTANTIATE_TEST_SUITE_P(Idle, Starved,
                         ::testing::Values(IdlePolicy::spin, IdlePolicy::adaptive,
                                           IdlePolicy::park),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// A loop's timers don't wait for a thread that gets no CPU: here it never gets any.
TEST_P(Starved, TimersFireInTimeWithoutTheMetronomesThread) {
  detail::MetronomeBoard board({}, 1);
  MetronomeTime time(board, 0);
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  for (int i = 0; i < 5; ++i) {
    std::optional<Delay> slept;
    loop->spawn(measure_sleep(20ms, slept));
    ASSERT_TRUE(loop->run_until([&] { return slept.has_value(); }, kGenerous));
    EXPECT_GE(*slept, Delay{20ms});
  }
}

TEST_P(Starved, ATaskThatComputesYieldsAllTheSame) {
  detail::MetronomeBoard board({}, 1);
  MetronomeTime time(board, 0);
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  std::optional<Delay> slept;
  const auto computing = [](std::optional<Delay>& other) -> Task<> {
    while (!other) co_await maybe_yield();
  };
  const TaskHandle task = loop->spawn(computing(slept));
  loop->spawn(measure_sleep(20ms, slept));
  ASSERT_TRUE(loop->run_until([&] { return task.done(); }, kGenerous));
  EXPECT_GE(slept.value_or(0s), Delay{20ms});
}

/// A timer that is armed again and again for a random while, relative and absolute in turns.
struct Wanderer : TimerEntry {
  Wanderer(Loop& owner, std::uint64_t seed) : TimerEntry(&on_timer), loop(owner), random(seed) {
    arm();
  }
  void arm() {
    const Delay delay = std::chrono::nanoseconds{random.below(20'000'000)};
    due = real_now() + delay;
    fired % 2 == 0 ? loop.arm_after(*this, delay) : loop.wheel().arm(*this, due);
  }
  static void on_timer(TimerEntry& entry) {
    Wanderer& self = static_cast<Wanderer&>(entry);
    if (real_now() < self.due) ++self.early;
    const Instant now = self.loop.now();
    if (now < self.last || now > real_now()) ++self.wrong_time;
    self.last = now;
    if (++self.fired < kRounds) self.arm();
  }
  static constexpr int kRounds = 50;

  Loop& loop;
  Random random;
  Instant due;
  Instant last{};
  int fired = 0;
  int early = 0;
  int wrong_time = 0;
};

Task<> watch(std::vector<std::unique_ptr<Wanderer>>& wanderers, std::atomic<std::uint64_t>& left,
             Runtime& runtime) {
  while (true) {
    bool over = true;
    for (const auto& wanderer : wanderers) over = over && wanderer->fired == Wanderer::kRounds;
    if (over) break;
    co_await sleep_for(5ms);
  }
  for (const auto& wanderer : wanderers) {
    EXPECT_EQ(wanderer->early, 0);
    EXPECT_EQ(wanderer->wrong_time, 0);
  }
  if (left.fetch_sub(1) == 1) runtime.request_stop();
}

class OnMetronome : public ::testing::TestWithParam<IdlePolicy> {};

INSTANTIATE_TEST_SUITE_P(Idle, OnMetronome,
                         ::testing::Values(IdlePolicy::adaptive, IdlePolicy::park),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(OnMetronome, RandomTimersOfTwoLcoresAreNeverEarlyNorLost) {
  const unsigned cpu = first_cpus(1)->front();
  const auto cpus = first_cpus(2);
  RuntimeOptions options;
  options.cpus = cpus ? *cpus : std::vector<unsigned>{cpu, cpu};
  options.allow_shared_cpus = true;
  options.clock = ClockChoice::metronome;
  options.loop.idle = GetParam();
  const auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime);
  std::atomic<std::uint64_t> left{options.cpus.size()};
  const std::uint64_t seed = test::seed();
  const std::uint64_t count = test::scaled(300);
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    auto& mine = lcore.keep(std::make_unique<std::vector<std::unique_ptr<Wanderer>>>());
    for (std::uint64_t i = 0; i < count; ++i) {
      mine.push_back(std::make_unique<Wanderer>(lcore.loop(), seed + 2 * i + lcore.index()));
    }
    lcore.loop().spawn(watch(mine, left, **runtime));
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_EQ(left, 0U);
}

}  // namespace
}  // namespace pinion

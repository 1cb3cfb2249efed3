#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include <pinion/eventloop/runtime.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>

#include "loop_fixture.h"

/// More lcores than CPUs: whoever spins there takes the time of whoever has something to do.

namespace pinion {
namespace {

using namespace std::chrono_literals;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Goes back and forth between two lcores until it has made its rounds.
struct Ball : Message {
  explicit Ball(std::uint64_t count) : Message(&on_message), left(count) {}
  static void on_message(Message& message) noexcept {
    Ball& self = static_cast<Ball&>(message);
    if (--self.left == 0) {
      for (const auto& loop : self.loops) loop.load()->stop();
      return;
    }
    self.loops[self.left % 2].load()->post(self);
  }
  std::array<std::atomic<Loop*>, 2> loops{};
  std::uint64_t left;
};

/// Keeps the counts of a loop that has ended.
struct Counts {
  Counts(Loop& of, std::array<LoopStats, 2>& all, unsigned index) : loop(of), kept(all[index]) {}
  ~Counts() { kept = loop.stats(); }
  Loop& loop;
  LoopStats& kept;
};

struct Game {
  double seconds_per_round = 0;
  std::array<LoopStats, 2> stats;
};

RuntimeOptions two_on_one_cpu(IdlePolicy policy) {
  const unsigned cpu = first_cpus(1)->front();
  RuntimeOptions options;
  options.cpus = {cpu, cpu};
  options.loop.idle = policy;
  options.allow_shared_cpus = true;
  options.handle_signals = false;
  return options;
}

/// In CPU time of both lcores: nobody else runs in this process.
void play(IdlePolicy policy, std::uint64_t rounds, Game& game) {
  const auto runtime = Runtime::create(two_on_one_cpu(policy));
  ASSERT_TRUE(runtime);
  const auto ball = std::make_unique<Ball>(rounds);
  std::atomic<int> ready{0};
  double before = 0;
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<Counts>(lcore.loop(), game.stats, lcore.index()));
    ball->loops[lcore.index()] = &lcore.loop();
    if (++ready < 2) return {};
    before = cpu_seconds();
    lcore.loop().post(*ball);
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_EQ(ball->left, 0U);
  game.seconds_per_round = (cpu_seconds() - before) / static_cast<double>(rounds);
}

TEST(SharedCpu, TwoAdaptiveLoopsOnOneCpuDoNotBurnItSpinning) {
  const std::uint64_t rounds = test::scaled(20'000);
  const auto parking = std::make_unique<Game>();
  const auto adaptive = std::make_unique<Game>();
  play(IdlePolicy::park, rounds, *parking);
  play(IdlePolicy::adaptive, rounds, *adaptive);
  EXPECT_LE(adaptive->seconds_per_round, 3 * parking->seconds_per_round);
  EXPECT_GE(adaptive->stats[0].spins_given_up + adaptive->stats[1].spins_given_up, 1U);
}

// L22: waker and loop on the same CPU.
TEST(SharedCpu, L22_ALoopNoticesThatSomebodyElseRunsOnItsCpu) {
  cpu_set_t before;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first_cpus(1)->front(), &one);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
  std::atomic<bool> over{false};
  std::thread other([&over] {  // It inherits the CPU, as another process would have it.
    while (!over) {
    }
  });
  MonotonicTime time;
  LoopOptions options;
  options.spin_max = 1s;
  const auto loop = test::make_loop(time, options);
  EXPECT_TRUE(loop->run_until([&] { return loop->stats().spins_given_up > 0; }, 60s));
  EXPECT_GE(loop->stats().preempted_spins, 4U);
  const std::uint64_t turns = loop->stats().turns;
  loop->run_until([] { return false; }, 50ms);
  EXPECT_LE(loop->stats().turns - turns, 10U);  // It sleeps instead.
  over = true;
  other.join();
  pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
}

}  // namespace
}  // namespace pinion

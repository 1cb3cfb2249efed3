#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <pinion/eventloop/call.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

/// Calls among three lcores that spin, sleep and end as it comes. An answer that is lost shows as a
/// run that doesn't end.

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLcores = 3;
constexpr std::size_t kTasks = 8;

/// What an lcore owns. Not atomic: only functions that run on its thread touch it.
struct Shard {
  explicit Shard(Random seeded) : random(seeded) {}
  std::uint64_t ran = 0;
  std::uint64_t refused = 0;
  std::uint64_t answered = 0;
  bool stopped = false;
  std::optional<CallLane> lane;  // To the next lcore, for all tasks of this one.
  Random random;
};

class CallThreads : public ::testing::TestWithParam<IdlePolicy> {
 protected:
  void SetUp() override {
    if (!first_cpus(2)) GTEST_SKIP() << "one CPU only";
    Random random(test::seed());
    for (auto& shard : shards) shard = std::make_unique<Shard>(Random(random.next()));
    RuntimeOptions options;
    options.cpus = *first_cpus(2);
    options.cpus.push_back(options.cpus[0]);
    options.allow_shared_cpus = true;
    options.handle_signals = false;
    options.loop.idle = GetParam();
    auto created = Runtime::create(options);
    ASSERT_TRUE(created);
    runtime = std::move(*created);
  }

  /// Lets each lcore run `make_task(index)` so many times.
  template <class MakeTask>
  void run(std::size_t tasks, MakeTask make_task) {
    const auto report = runtime->run([&](Lcore& lcore) -> Result<> {
      loops.at(lcore.index()) = &lcore.loop();
      ++set_up;
      while (set_up < kLcores) std::this_thread::yield();
      Shard& mine = *shards.at(lcore.index());
      mine.lane.emplace(*loops.at(after(lcore.index())).load(), 1 + mine.random.below(4));
      for (std::size_t i = 0; i < tasks; ++i) lcore.loop().spawn(make_task(lcore.index()));
      return {};
    });
    EXPECT_TRUE(report);
  }

  static std::size_t after(std::size_t index) { return (index + 1) % kLcores; }

  /// Calls an lcore at random, perhaps its own, or through the lane, and compares what comes back.
  Task<bool> call_somebody(std::size_t own) {
    Shard& mine = *shards.at(own);
    const bool limited = mine.random.chance(0.5);
    const std::size_t to = limited ? after(own) : mine.random.below(kLcores);
    Shard& theirs = *shards.at(to);
    Loop& loop = *loops.at(to).load();
    const std::uint64_t sent = mine.random.next();
    const auto work = [&theirs, sent] {
      ++theirs.ran;
      return ~sent;
    };
    CallResult<std::uint64_t> got = tl::unexpected(CallError::full);
    if (limited) {
      got = co_await mine.lane->on(work);
    } else {
      got = co_await on(loop, work);
    }
    if (!got) {
      ++mine.refused;
      co_return false;
    }
    ++mine.answered;
    if (*got != ~sent) ADD_FAILURE() << "another call's result";
    co_return true;
  }

  std::uint64_t sum(std::uint64_t Shard::* figure) const {
    std::uint64_t total = 0;
    for (const auto& shard : shards) total += (*shard).*figure;
    return total;
  }

  std::array<std::unique_ptr<Shard>, kLcores> shards;
  std::array<std::atomic<Loop*>, kLcores> loops{};
  std::atomic<std::size_t> set_up{0};
  std::atomic<std::size_t> ended{0};
  std::unique_ptr<Runtime> runtime;
};

INSTANTIATE_TEST_SUITE_P(Idle, CallThreads,
                         ::testing::Values(IdlePolicy::adaptive, IdlePolicy::park),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(CallThreads, EveryCallIsAnsweredOnceWithItsOwnResult) {
  SCOPED_TRACE(testing::Message() << "PINION_SEED=" << test::seed());
  const std::uint64_t calls = test::scaled(100'000) / kLcores / kTasks;
  const auto work = [&](std::size_t own) -> Task<> {
    Shard& mine = *shards.at(own);
    for (std::uint64_t i = 0; i < calls; ++i) {
      const bool answered = co_await call_somebody(own);
      EXPECT_TRUE(answered);
      if (mine.random.chance(0.002)) co_await sleep_for(50us);
    }
    if (++ended == kLcores * kTasks) runtime->request_stop();
  };
  run(kTasks, work);
  EXPECT_EQ(sum(&Shard::answered), calls * kLcores * kTasks);
  EXPECT_EQ(sum(&Shard::ran), calls * kLcores * kTasks);
  EXPECT_EQ(sum(&Shard::refused), 0U);
}

TEST_P(CallThreads, LoopsEndAtAnyMomentAndLeaveNobodyWaiting) {
  SCOPED_TRACE(testing::Message() << "PINION_SEED=" << test::seed());
  const std::uint64_t rounds = test::scaled(20);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    set_up = 0;
    ended = 0;
    for (auto& shard : shards) shard = std::make_unique<Shard>(Random(shard->random.next()));
    const auto work = [&](std::size_t own) -> Task<> {
      Shard& mine = *shards.at(own);
      const std::uint64_t most = mine.random.below(300);
      for (std::uint64_t i = 0; i < most && !cancelled(); ++i) {
        static_cast<void>(co_await call_somebody(own));
      }
      // The first that is through ends its loop; the others are called on, and call.
      if (!std::exchange(mine.stopped, true)) Loop::current().stop();
      ++ended;
    };
    run(kTasks, work);
    EXPECT_EQ(ended, kLcores * kTasks);
    EXPECT_EQ(sum(&Shard::answered), sum(&Shard::ran));
  }
}

class CallLate : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Lcore, CallLate, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "drained_alone" : "stopped");
});

/// The called loop takes longer than the tasks of the other one have to end.
TEST_P(CallLate, TasksThatWaitForALateAnswerEndBeforeWhatIsKeptDies) {
  if (!first_cpus(2)) GTEST_SKIP() << "one CPU only";
  struct Kept {
    explicit Kept(std::atomic<bool>& flag) : alive(flag) { alive = true; }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    ~Kept() { alive = false; }
    std::atomic<bool>& alive;
  };
  RuntimeOptions options;
  options.cpus = *first_cpus(2);
  options.handle_signals = false;
  options.loop.wind_down = 1ms;
  const auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime);
  std::atomic<Loop*> target{nullptr};
  std::atomic<Loop*> home{nullptr};
  std::atomic<bool> alive{false};
  bool answered = false;
  bool was_alive = false;
  const auto ask = [&](Loop& loop) -> Task<> {
    const CallResult<void> result = co_await on(loop, [&home, &runtime] {
      if (GetParam()) {
        (*runtime)->drain_lcore(0, [&runtime](const auto&) { (*runtime)->request_stop(); });
      } else {
        home.load()->stop();
        Loop::current().stop();
      }
      std::this_thread::sleep_for(50ms);  // Time for the caller's loop to give its tasks up.
    });
    answered = result.has_value();
    was_alive = alive;
  };
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    if (lcore.index() == 1) {
      target = &lcore.loop();
      return {};
    }
    home = &lcore.loop();
    while (target == nullptr) std::this_thread::yield();
    lcore.keep(std::make_unique<Kept>(alive));
    lcore.loop().spawn(ask(*target));
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_TRUE(answered);
  EXPECT_TRUE(was_alive);
  EXPECT_FALSE(alive);
}

}  // namespace
}  // namespace pinion

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pinion/eventloop/runtime.h>
#include <pinion/lib/random.h>
#include <pinion/test/running_lcores.h>
#include <pinion/test/seed.h>

/// Lcores that come and go while others serve.

namespace pinion {
namespace {

using namespace std::chrono_literals;

using test::Answer;
using test::any_cpu;

RuntimeOptions on_one_cpu(std::size_t lcores) {
  RuntimeOptions options = test::lcores_on_one_cpu(lcores);
  options.loop.drain_timeout = 10s;
  return options;
}

/// Asks a loop something and waits for its answer.
struct Question : Message {
  Question() : Message(&on_message) {}
  static void on_message(Message& message) noexcept {
    Question& self = static_cast<Question&>(message);
    self.thread = pthread_self();
    self.answered.store(true);
    self.answered.notify_one();
  }
  void ask(Loop& loop) {
    answered.store(false);
    loop.post(*this);
    answered.wait(false);
  }
  std::atomic<bool> answered{false};
  pthread_t thread{};
};

/// What the lcores of a test have kept, and which loops there are.
struct World {
  struct Kept {
    Kept(World& its, Lcore& lcore) : world(its), index(lcore.index()), thread(pthread_self()) {
      ++world.alive.at(index);
    }
    ~Kept() {
      EXPECT_TRUE(pthread_equal(thread, pthread_self()));
      --world.alive.at(index);
    }
    World& world;
    unsigned index;
    pthread_t thread;
  };

  Runtime::Setup setup() {
    return [this](Lcore& lcore) -> Result<> {
      loops.at(lcore.index()) = &lcore.loop();
      cpus.at(lcore.index()) = sched_getcpu();
      lcore.keep(std::make_unique<Kept>(*this, lcore));
      ++set_ups;
      if (refuses) return fail(ErrorCode::already_exists, "port 7007 is in use", "--listen :7008");
      return {};
    };
  }

  std::array<std::atomic<Loop*>, 16> loops{};
  std::array<std::atomic<int>, 16> cpus{};
  std::array<std::atomic<int>, 16> alive{};
  std::atomic<int> set_ups{0};
  std::atomic<bool> refuses{false};
};

TEST(Lcores, OneIsAddedWhileOthersServeAndSetUpAsTheyWere) {
  World world;
  test::RunningLcores runtime(on_one_cpu(1), world.setup());
  const Result<unsigned> added = runtime.add();
  ASSERT_TRUE(added) << to_string(added.error());
  EXPECT_EQ(*added, 1U);
  EXPECT_EQ(world.cpus[1], static_cast<int>(any_cpu()));
  EXPECT_EQ(world.alive[1], 1);
  Question question;
  question.ask(*world.loops[1]);
  EXPECT_EQ(runtime.stop().ending, Ending::stopped);
  EXPECT_EQ(world.alive[0] + world.alive[1], 0);
}

TEST(Lcores, OneDrainsAloneAndWhatItKeptIsGoneWhenThatIsTold) {
  World world;
  test::RunningLcores runtime(on_one_cpu(2), world.setup());
  const Result<Ending> ending = runtime.drain(1);
  ASSERT_TRUE(ending) << to_string(ending.error());
  EXPECT_EQ(*ending, Ending::drained);
  EXPECT_EQ(world.alive[0], 1);
  EXPECT_EQ(world.alive[1], 0);
  Question question;
  question.ask(*world.loops[0]);
}

TEST(Lcores, ALoopThatIsLeftStillHandlesMessagesOnItsThread) {
  for (const IdlePolicy policy : {IdlePolicy::park, IdlePolicy::adaptive}) {
    World world;
    RuntimeOptions options = on_one_cpu(2);
    options.loop.idle = policy;
    test::RunningLcores runtime(options, world.setup());
    Question before;
    before.ask(*world.loops[1]);
    ASSERT_TRUE(runtime.drain(1));
    Question after;
    for (int i = 0; i < 100; ++i) after.ask(*world.loops[1]);
    EXPECT_TRUE(pthread_equal(before.thread, after.thread));
  }
}

/// Asks a loop how many turns it has made.
struct TurnsQuestion : Message {
  explicit TurnsQuestion(Loop& of) : Message(&on_message), loop(of) {}
  static void on_message(Message& message) noexcept {
    TurnsQuestion& self = static_cast<TurnsQuestion&>(message);
    self.turns = self.loop.stats().turns;
    self.answered.store(true);
    self.answered.notify_one();
  }
  std::uint64_t ask() {
    answered.store(false);
    loop.post(*this);
    answered.wait(false);
    return turns;
  }
  Loop& loop;
  std::atomic<bool> answered{false};
  std::uint64_t turns = 0;
};

TEST(Lcores, ALoopThatIsLeftSleepsWhateverItsPolicyAndComesBackWithIt) {
  World world;
  RuntimeOptions options = on_one_cpu(2);
  options.loop.idle = IdlePolicy::adaptive;
  options.loop.spin_max = 1s;
  test::RunningLcores runtime(options, world.setup());
  ASSERT_TRUE(runtime.drain(1));
  TurnsQuestion question(*world.loops[1]);
  const std::uint64_t before = question.ask();
  std::this_thread::sleep_for(50ms);  // In which a loop that spins makes thousands of turns.
  EXPECT_LE(question.ask() - before, 10U);
}

TEST(Lcores, OneThatIsAddedOnACpuWhoseLcoreWasDrainedGoesOnInItsPlace) {
  World world;
  test::RunningLcores runtime(on_one_cpu(2), world.setup());
  Loop* const loop = world.loops[1];
  for (int life = 2; life < 20; ++life) {
    ASSERT_TRUE(runtime.drain(1));
    EXPECT_EQ(world.alive[1], 0);
    const Result<unsigned> added = runtime.add();
    ASSERT_TRUE(added) << to_string(added.error());
    EXPECT_EQ(*added, 1U);
    EXPECT_EQ(world.loops[1], loop);
    EXPECT_EQ(world.alive[1], 1);
    EXPECT_EQ(world.set_ups, life + 1);
  }
}

TEST(Lcores, ASetUpThatFailsIsToldAndTheOthersGoOn) {
  World world;
  test::RunningLcores runtime(on_one_cpu(1), world.setup());
  for (int i = 0; i < 3; ++i) {
    world.refuses = true;
    const Result<unsigned> refused = runtime.add();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "port 7007 is in use");
    EXPECT_EQ(world.alive[1], 0);
    EXPECT_FALSE(runtime.drain(1));  // It doesn't serve.
    world.refuses = false;
    ASSERT_TRUE(runtime.add());
    ASSERT_TRUE(runtime.drain(1));
  }
  EXPECT_EQ(runtime.stop().ending, Ending::stopped);
}

TEST(Lcores, OneOfTheFirstThatComesBackToASetUpThatFailsMayComeBackAgain) {
  World world;
  test::RunningLcores runtime(on_one_cpu(2), world.setup());
  ASSERT_TRUE(runtime.drain(1));
  world.refuses = true;
  EXPECT_FALSE(runtime.add());
  world.refuses = false;
  EXPECT_EQ(runtime.add().value_or(0), 1U);
  Question question;
  question.ask(*world.loops[1]);
}

/// Leaves the process no descriptor while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Lcores, OneThatGetsNoLoopIsToldAndLeavesNothing) {
  World world;
  test::RunningLcores runtime(on_one_cpu(1), world.setup());
  {
    const NoDescriptors scarce;
    EXPECT_FALSE(runtime.add());
  }
  EXPECT_EQ(world.set_ups, 1);
  EXPECT_EQ(runtime.add().value_or(0), 1U);
  EXPECT_EQ(runtime.stop().ending, Ending::stopped);
}

TEST(Lcores, OneThatGetsNoLoopWhileTheLastOneEndsHoldsUpNobody) {
  for (int i = 0; i < 200; ++i) {
    World world;
    Answer<unsigned> added;
    test::RunningLcores runtime(on_one_cpu(1), world.setup());
    const NoDescriptors scarce;
    runtime->add_lcore(any_cpu(), added.taker());
    runtime->request_stop();
    runtime.join();
    EXPECT_FALSE(added.wait());
  }
}

TEST(Lcores, AnAdditionThatFailedDoesNotChangeHowTheRunEnded) {
  World world;
  test::RunningLcores runtime(on_one_cpu(1), world.setup());
  world.refuses = true;
  EXPECT_FALSE(runtime.add());
  runtime->request_drain();
  EXPECT_EQ(runtime.join().ending, Ending::drained);
}

TEST(Lcores, WhatCannotBeDoneIsRefusedWithTheReason) {
  World world;
  RuntimeOptions options = on_one_cpu(1);
  options.allow_shared_cpus = false;
  test::RunningLcores runtime(options, world.setup());
  const Result<unsigned> taken = runtime.add();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().what, "two lcores on CPU " + std::to_string(any_cpu()));
  const Result<unsigned> unknown = runtime.add(1023);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().what, "this process may not use CPU 1023");
  const Result<Ending> nobody = runtime.drain(7);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().what, "no lcore 7 serves");
  EXPECT_EQ(nobody.error().code, ErrorCode::not_found);
}

TEST(Lcores, TheDrainOfTheLastOneEndsTheRunAndWhatIsAskedLaterIsRefused) {
  World world;
  test::RunningLcores runtime(on_one_cpu(2), world.setup());
  ASSERT_TRUE(runtime.drain(0));
  const Result<Ending> last = runtime.drain(1);
  ASSERT_TRUE(last);
  EXPECT_EQ(*last, Ending::drained);
  const RunReport report = runtime.join();
  EXPECT_EQ(report.ending, Ending::drained);
  EXPECT_EQ(report.exit_code(), 0);
}

TEST(Lcores, RequestsThatTheEndOvertakesAreToldSo) {
  World world;
  RuntimeOptions options = on_one_cpu(1);
  for (int i = 0; i < 50; ++i) {
    Answer<unsigned> added;
    Answer<Ending> drained;
    {
      test::RunningLcores runtime(options, world.setup());
      runtime->request_stop();
      runtime->add_lcore(any_cpu(), added.taker());
      runtime->drain_lcore(0, drained.taker());
    }
    // Whatever it was, it was told.
    static_cast<void>(added.wait());
    static_cast<void>(drained.wait());
  }
}

TEST(Lcores, AnAddedOneDrainsWithAllOthers) {
  World world;
  test::RunningLcores runtime(on_one_cpu(1), world.setup());
  ASSERT_TRUE(runtime.add());
  runtime->request_drain();
  EXPECT_EQ(runtime.join().ending, Ending::drained);
  EXPECT_EQ(world.alive[1], 0);
}

struct Lasting : Drainable {
  void on_drain() override { ++drains; }
  void on_drain_expired() override { expired = true; }
  [[nodiscard]] bool drained() const override { return expired; }
  std::atomic<int> drains{0};
  std::atomic<bool> expired{false};
};

TEST(Lcores, WhatDoesNotFinishIsEndedAtTheTimeoutInEachLifeAnew) {
  RuntimeOptions options = on_one_cpu(2);
  options.loop.drain_timeout = 20ms;
  std::atomic<int> expired{0};
  test::RunningLcores runtime(options, [&](Lcore& lcore) -> Result<> {
    struct Kept {
      Kept(Lcore& its, std::atomic<int>& out) : lcore(its), count(out) {
        lcore.loop().add_drainable(lasting);
      }
      ~Kept() {
        EXPECT_EQ(lasting.drains, 1);
        if (lasting.expired) ++count;
        lcore.loop().remove_drainable(lasting);
      }
      Lcore& lcore;
      std::atomic<int>& count;
      Lasting lasting;
    };
    lcore.keep(std::make_unique<Kept>(lcore, expired));
    return {};
  });
  for (int life = 1; life <= 3; ++life) {
    const Result<Ending> ending = runtime.drain(1);
    ASSERT_TRUE(ending);
    EXPECT_EQ(*ending, Ending::drain_expired);
    EXPECT_EQ(expired, life);
    ASSERT_TRUE(runtime.add());
  }
  runtime->request_drain();
  runtime.join();
}

TEST(Lcores, AReportNamesTheOnesThatWereAdded) {
  std::atomic<int> reports{0};
  std::array<std::atomic<Loop*>, 2> loops{};
  test::RunningLcores runtime(on_one_cpu(1), [&](Lcore& lcore) -> Result<> {
    loops.at(lcore.index()) = &lcore.loop();
    lcore.add_report([&](ReportText&) { ++reports; });
    return {};
  });
  // An lcore that has written its report and not yet said so isn't asked again: each question
  // waits until the one before is answered by a message that comes behind it.
  const auto expect_reports = [&](int count) {
    const int before = reports;
    runtime->request_report();
    while (reports < before + count) std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 2; ++i) {
      Loop* const loop = loops.at(static_cast<std::size_t>(i));
      if (loop != nullptr) Question().ask(*loop);
    }
    EXPECT_EQ(reports, before + count);
  };
  expect_reports(1);
  ASSERT_TRUE(runtime.add());
  expect_reports(2);
  ASSERT_TRUE(runtime.drain(1));
  expect_reports(1);
  ASSERT_TRUE(runtime.add());
  expect_reports(2);
}

/// Goes from loop to loop at random, alive or left, until it is told to come home.
struct Wanderer : Message {
  Wanderer(World& in, std::uint64_t seed) : Message(&on_message), world(in), random(seed) {}
  static void on_message(Message& message) noexcept {
    Wanderer& self = static_cast<Wanderer&>(message);
    ++self.visits;
    if (self.over) {
      self.home = true;
      return;
    }
    for (;;) {
      Loop* const next = self.world.loops.at(self.random.below(4));
      if (next == nullptr) continue;
      next->post(self);
      return;
    }
  }
  World& world;
  Random random;
  std::atomic<bool> over{false};
  std::atomic<bool> home{false};
  std::uint64_t visits = 0;
};

TEST(Lcores, ComeAndGoAtRandomWhileMessagesWanderAndNoneIsLost) {
  const std::uint64_t seed = test::seed();
  Random random(seed);
  World world;
  RuntimeOptions options = on_one_cpu(4);
  const auto two = first_cpus(2);
  if (two) options.cpus = {(*two)[0], (*two)[1], (*two)[0], (*two)[1]};
  test::RunningLcores runtime(options, world.setup());
  std::vector<std::unique_ptr<Wanderer>> wanderers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    wanderers.push_back(std::make_unique<Wanderer>(world, seed + i));
    world.loops[0].load()->post(*wanderers.back());
  }
  std::array<bool, 4> serves = {true, true, true, true};
  for (std::uint64_t step = test::scaled(300); step > 0; --step) {
    const auto index = static_cast<unsigned>(1 + random.below(3));  // 0 always serves.
    if (serves.at(index)) {
      ASSERT_TRUE(runtime.drain(index)) << "seed " << seed;
      serves.at(index) = false;
    } else {
      const Result<unsigned> added = runtime.add(options.cpus.at(index));
      ASSERT_TRUE(added) << "seed " << seed << ": " << to_string(added.error());
      EXPECT_FALSE(serves.at(*added)) << "seed " << seed;
      serves.at(*added) = true;
    }
  }
  for (const auto& wanderer : wanderers) wanderer->over = true;
  for (const auto& wanderer : wanderers) {
    while (!wanderer->home) std::this_thread::sleep_for(1ms);
    EXPECT_GT(wanderer->visits, 1U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pinion

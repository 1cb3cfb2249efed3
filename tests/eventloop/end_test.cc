#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <thread>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/runtime.h>

#include "loop_fixture.h"
#include "ring_wait.h"

/// What is left when a loop or a runtime has gone: nothing.

namespace pinion {
namespace {

using namespace std::chrono_literals;

std::size_t open_descriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

/// What a transport does with a connection: it holds descriptors and itself until the last
/// completion of its read has come.
class Connection : private Completion {
 public:
  Connection(Loop& loop, int& alive) noexcept : Completion(&on_done), loop_(loop), alive_(alive) {
    EXPECT_TRUE(pair_.ok);
    ++alive_;
    io_uring_sqe& sqe = loop_.ring().get_sqe(*this);
    io_uring_prep_read(&sqe, pair_.ends[0], buffer_.data(), kSize, 0);
  }
  void close() noexcept { loop_.ring().cancel(*this); }

 private:
  static constexpr unsigned kSize = 64;

  static void on_done(Completion& completion, std::int32_t, std::uint32_t) noexcept {
    Connection& self = static_cast<Connection&>(completion);
    --self.alive_;
    delete &self;
  }

  Loop& loop_;
  int& alive_;
  test::SocketPair pair_;
  std::array<std::byte, kSize> buffer_{};
};

/// Closes its connections when it dies, and doesn't wait.
struct Transport {
  Transport(Loop& loop, int& alive) {
    for (Connection*& connection : connections) connection = new Connection(loop, alive);
  }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  ~Transport() {
    for (Connection* const connection : connections) connection->close();
  }
  std::array<Connection*, 20> connections{};
};

/// What `use` makes on a loop and counts in its second argument must die with the loop, and so must
/// every descriptor.
template <class Use>
void expect_that_nothing_outlives_a_loop(Use use) {
  const std::size_t before = open_descriptors();
  int alive = 0;
  {
    MonotonicTime time;
    const auto loop = test::make_loop(time);
    use(*loop, alive);
    EXPECT_EQ(alive, 20);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(End, ALoopThatDiesHearsOfEveryOperationAndLeavesNoDescriptor) {
  expect_that_nothing_outlives_a_loop([](Loop& loop, int& alive) {
    const Result<> adopted = loop.adopt_thread();
    ASSERT_TRUE(adopted);
    const Transport transport(loop, alive);
  });
}

TEST(End, ALoopThatDiesEndsOperationsThatNobodyCancelled) {
  expect_that_nothing_outlives_a_loop([](Loop& loop, int& alive) {
    for (int i = 0; i < 20; ++i) new Connection(loop, alive);
    loop.turn();
    loop.stop();
    loop.run();
  });
}

TEST(End, ALoopThatNeverRanEndsWhatIsQueued) {
  expect_that_nothing_outlives_a_loop([](Loop& loop, int& alive) {
    for (int i = 0; i < 20; ++i) new Connection(loop, alive);
  });
}

/// At the end of its operation it does whatever a handler may do.
class Busy : private Completion {
 public:
  explicit Busy(Loop& owner) noexcept
      : Completion(&on_done), loop(owner), timer([](TimerEntry&) { std::abort(); }) {
    start();
  }

  Loop& loop;
  int ends = 0;
  bool posted_back = false;
  std::shared_ptr<int> held = std::make_shared<int>();

 private:
  struct Note : Message {
    explicit Note(Busy& owner) : Message(&on_message), busy(owner) {}
    static void on_message(Message& message) { static_cast<Note&>(message).busy.noted(); }
    Busy& busy;
  };

  void start() { io_uring_prep_poll_add(&loop.ring().get_sqe(*this), loop.ring().fd(), 0); }
  void noted() {
    posted_back = true;
    start();
  }
  static Task<> hold(std::shared_ptr<int> what) {
    co_await yield();
    ++*what;
  }
  static void on_done(Completion& completion, std::int32_t result, std::uint32_t) {
    Busy& self = static_cast<Busy&>(completion);
    EXPECT_EQ(result, -ECANCELED);
    if (++self.ends == 1) self.start();
    if (self.ends != 2) return;
    self.loop.arm_after(self.timer, -1s);
    self.loop.spawn(hold(self.held));
    self.loop.post(self.note);
  }

  TimerEntry timer;
  Note note{*this};
};

TEST(End, WhatHandlersOfADyingLoopStartIsEndedToo) {
  MonotonicTime time;
  for (const int turns : {0, 1, 2}) {  // A loop that never turned has a ring that is not enabled.
    auto loop = test::make_loop(time);
    if (turns > 1) loop->turn();
    Busy busy(*loop);
    if (turns > 0) loop->turn();
    loop.reset();
    EXPECT_EQ(busy.ends, 3);
    EXPECT_TRUE(busy.posted_back);
    EXPECT_EQ(*busy.held, 0);
    EXPECT_EQ(busy.held.use_count(), 1);
  }
}

TEST(End, TasksEndThoughStopEndedRunUntil) {
  MonotonicTime time;
  auto loop = test::make_loop(time);
  bool cancelled = false;
  const auto wait = [&]() -> Task<> {
    const Wake wake = co_await sleep_for(1h);
    cancelled = wake == Wake::cancelled;
  };
  loop->spawn(wait());
  loop->turn();
  loop->stop();
  EXPECT_FALSE(loop->run_until([] { return false; }, 10s));
  loop.reset();
  EXPECT_TRUE(cancelled);
}

// L21: wake-ups and stops during the start; a stop with reads and timers armed.
/// The thread that runs the loop destroys it as soon as run() returns: in stop(), perhaps.
TEST(End, L21_ALoopMayDieBeforeTheStopThatEndedItHasReturned) {
  MonotonicTime time;
  for (int i = 0; i < 500; ++i) {
    LoopOptions options;
    options.idle = IdlePolicy::park;
    auto loop = test::make_loop(time, options);
    Loop& stopped = *loop;
    std::thread runner([&] {
      EXPECT_EQ(loop->run(), Ending::stopped);
      loop.reset();
    });
    stopped.stop();
    runner.join();
  }
}

TEST(EndDeathTest, ALoopWithOperationsInFlightDiesOnItsThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run_here_and_destroy_there = [] {
    MonotonicTime time;
    auto loop = test::make_loop(time);
    int alive = 0;
    new Connection(*loop, alive);
    loop->turn();
    std::thread([&] { loop.reset(); }).join();
  };
  EXPECT_DEATH(run_here_and_destroy_there(), "left_nothing_in_flight");
}

/// When it is cancelled it asks for the end once more, and goes on itself.
Task<> stop_again(Loop& loop) {
  Wake wake = Wake::elapsed;
  while (wake == Wake::elapsed) wake = co_await yield();
  loop.stop();
  for (;;) wake = co_await yield();
}

TEST(End, ASecondStopEndsTheWindingDownAndNoLaterRun) {
  ManualTime time(Instant{1h});
  const auto loop = test::make_loop(time);
  const TaskHandle task = loop->spawn(stop_again(*loop));
  loop->turn();
  loop->stop();
  EXPECT_EQ(loop->run(), Ending::stopped);
  EXPECT_TRUE(task.done());
  EXPECT_LT(loop->stats().turns, 100U);
  const std::uint64_t turns = loop->stats().turns;
  loop->run_until([&] { return loop->stats().turns > turns; }, 1h);
  EXPECT_GT(loop->stats().turns, turns);
}

RuntimeOptions lcores(std::size_t count) {
  RuntimeOptions options;
  options.cpus = *first_cpus(count);
  options.handle_signals = false;
  return options;
}

TEST(End, ARuntimeThatIsRunAgainAndAgainLeavesNoDescriptor) {
  const auto runtime = Runtime::create(lcores(1));
  ASSERT_TRUE(runtime);
  const std::size_t before = open_descriptors();
  int alive = 0;
  for (int i = 0; i < 3; ++i) {
    const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
      lcore.keep(std::make_unique<Transport>(lcore.loop(), alive));
      lcore.loop().stop();
      return {};
    });
    ASSERT_TRUE(report);
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(open_descriptors(), before);
  }
}

TEST(End, WhatLcoresKeepMayPostToOtherLcoresWhenItDies) {
  if (!first_cpus(2)) GTEST_SKIP() << "one CPU only";
  struct GoodBye : Message {
    GoodBye() : Message(&on_message) {}
    static void on_message(Message& message) noexcept {
      static_cast<GoodBye&>(message).heard = true;
    }
    std::atomic<bool> heard{false};
  } good_bye;
  struct Polite {
    Polite(Loop& loop, GoodBye& message) : other(loop), words(message) {}
    Polite(const Polite&) = delete;
    Polite& operator=(const Polite&) = delete;
    ~Polite() {
      std::this_thread::sleep_for(50ms);  // Time for the other loop to go, if it may.
      other.post(words);
    }
    Loop& other;
    GoodBye& words;
  };
  std::array<std::atomic<Loop*>, 2> loops{};
  const auto runtime = Runtime::create(lcores(2));
  ASSERT_TRUE(runtime);
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    loops[lcore.index()] = &lcore.loop();
    lcore.loop().stop();
    if (lcore.index() != 0) return {};
    while (loops[1] == nullptr) std::this_thread::yield();
    lcore.keep(std::make_unique<Polite>(*loops[1], good_bye));
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_TRUE(good_bye.heard);
}

TEST(End, OperationsThatEndWithALoopMayPostToOtherLcores) {
  if (!first_cpus(2)) GTEST_SKIP() << "one CPU only";
  struct GoodBye : Message {
    GoodBye() : Message(&on_message) {}
    static void on_message(Message& message) {
      auto& self = static_cast<GoodBye&>(message);
      self.heard = true;
      Loop::current().spawn(begin(self.task_began));
    }
    static Task<> begin(std::atomic<bool>& began) {
      began = true;
      co_return;
    }
    std::atomic<bool> heard{false};
    std::atomic<bool> task_began{false};
  };
  struct Polite : Completion {
    Polite() : Completion(&on_done) {}
    static void on_done(Completion& completion, std::int32_t, std::uint32_t) {
      Polite& self = static_cast<Polite&>(completion);
      std::this_thread::sleep_for(50ms);  // Time for the other loop to go, if it may.
      self.other->post(self.good_bye);
    }
    Loop* other = nullptr;
    GoodBye good_bye;
  } polite;
  std::array<std::atomic<Loop*>, 2> loops{};
  const auto runtime = Runtime::create(lcores(2));
  ASSERT_TRUE(runtime);
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    loops[lcore.index()] = &lcore.loop();
    lcore.loop().stop();
    if (lcore.index() != 0) return {};
    while (loops[1] == nullptr) std::this_thread::yield();
    polite.other = loops[1];
    Ring& ring = lcore.loop().ring();
    io_uring_prep_poll_add(&ring.get_sqe(polite), ring.fd(), 0);
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_TRUE(polite.good_bye.heard);
  EXPECT_FALSE(polite.good_bye.task_began) << "the other loop had ended, too";
}

/// Starts again whatever happens, so that the kernel is never done with the frame it lies on.
class Endless : public Wait, private Completion {
 public:
  Endless() noexcept : Wait([](Wait&) noexcept {}), Completion(&on_done) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    ring_ = &loop_of(frame.promise()).ring();
    on_done(*this, 0, 0);
    begin(frame);
  }
  void await_resume() const noexcept {}

 private:
  static void on_done(Completion& completion, std::int32_t, std::uint32_t) noexcept {
    Endless& self = static_cast<Endless&>(completion);
    io_uring_prep_poll_add(&self.ring_->get_sqe(self), self.ring_->fd(), 0);
  }
  Ring* ring_ = nullptr;
};

Task<> wait_without_end() {
  Endless endless;
  co_await endless;
}

TEST(End, TheFramesThatTheKernelMayStillUseOutliveTheLoop) {
  const std::size_t before = open_descriptors();
  {
    MonotonicTime time;
    LoopOptions options;
    options.wind_down = 5ms;
    const auto loop = test::make_loop(time, options);
    const TaskHandle task = loop->spawn(wait_without_end());
    loop->turn();
    loop->stop();
    EXPECT_EQ(loop->run(), Ending::stopped);
    EXPECT_FALSE(task.done());
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace pinion

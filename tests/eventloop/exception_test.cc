#include <gtest/gtest.h>
#include <liburing.h>

#include <memory>
#include <stdexcept>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>

#include "loop_fixture.h"

/// An exception that leaves what users wrote ends the process, although whoever turns the loop
/// would catch it, and the message says what it left. The terminate handler adds its text.

namespace pinion {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void throw_it() {
  throw std::runtime_error("from inside");
}

/// Turns a loop that `set_up` has prepared, as a program would that catches exceptions in main().
template <class SetUp>
void turn_it(SetUp set_up) {
  ManualTime time;
  LoopOptions options;
  options.idle = IdlePolicy::park;
  const std::unique_ptr<Loop> loop = test::make_loop(time, options);
  const Result<> adopted = loop->adopt_thread();
  if (!adopted) return;
  try {
    set_up(*loop);
    time.advance(10ms);
    for (int i = 0; i < 3; ++i) loop->turn();
  } catch (const std::runtime_error&) {
  }
}

class ExceptionDeathTest : public ::testing::Test {
 protected:
  ExceptionDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

Task<> throwing() {
  co_await yield();
  throw_it();
}

TEST_F(ExceptionDeathTest, LeavesATask) {
  const auto set_up = [](Loop& loop) { loop.spawn(throwing()); };
  EXPECT_DEATH(turn_it(set_up), "an exception left a task;.*\n.*\n*.*from inside");
}

Task<> with_a_throwing_child() {
  const auto results = co_await when_all(throwing(), throwing());
  EXPECT_TRUE(results);
}

TEST_F(ExceptionDeathTest, LeavesAChild) {
  const auto set_up = [](Loop& loop) { loop.spawn(with_a_throwing_child()); };
  EXPECT_DEATH(turn_it(set_up), "an exception left a task;.*\n.*\n*.*from inside");
}

TEST_F(ExceptionDeathTest, LeavesATimerCallback) {
  const auto set_up = [](Loop& loop) {
    static TimerEntry timer([](TimerEntry&) { throw_it(); });
    loop.arm_after(timer, 5ms);
  };
  EXPECT_DEATH(turn_it(set_up), "an exception left a timer callback;.*\n.*\n*.*from inside");
}

TEST_F(ExceptionDeathTest, LeavesAMessageHandler) {
  const auto set_up = [](Loop& loop) {
    static Message message([](Message&) { throw_it(); });
    loop.post(message);
  };
  EXPECT_DEATH(turn_it(set_up), "an exception left a message handler;.*\n.*\n*.*from inside");
}

TEST_F(ExceptionDeathTest, LeavesACompletionHandler) {
  const auto set_up = [](Loop& loop) {
    static Completion completion([](Completion&, std::int32_t, std::uint32_t) { throw_it(); });
    io_uring_prep_nop(&loop.ring().get_sqe(completion));
  };
  EXPECT_DEATH(turn_it(set_up), "an exception left a completion handler;.*\n.*\n*.*from inside");
}

struct ThrowingPoller : Poller {
  std::size_t poll(Instant, std::size_t) override { throw_it(); }
};

struct ThrowingBeforeSleep : Poller {
  std::size_t poll(Instant, std::size_t) override { return 0; }
  ParkAnswer prepare_park() override { throw_it(); }
};

TEST_F(ExceptionDeathTest, LeavesAPoller) {
  static ThrowingPoller poller;
  EXPECT_DEATH(turn_it([](Loop& loop) { loop.add_poller(poller); }),
               "an exception left a poller;.*\n.*\n*.*from inside");
  static ThrowingBeforeSleep sleeper;
  const auto sleep = [](Loop& loop) {
    loop.add_poller(sleeper);
    loop.run_until([] { return false; }, 1s);
  };
  EXPECT_DEATH(turn_it(sleep), "an exception left a poller;.*\n.*\n*.*from inside");
}

struct ThrowingDrainable : Drainable {
  void on_drain() override { throw_it(); }
  void on_drain_expired() override {}
  [[nodiscard]] bool drained() const override { return true; }
};

TEST_F(ExceptionDeathTest, LeavesADrainable) {
  const auto set_up = [](Loop& loop) {
    static ThrowingDrainable drainable;
    loop.add_drainable(drainable);
    loop.request_drain();
  };
  EXPECT_DEATH(turn_it(set_up), "an exception left a drainable;.*\n.*\n*.*from inside");
}

}  // namespace
}  // namespace pinion

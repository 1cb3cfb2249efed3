#include <gtest/gtest.h>
#include <liburing.h>

#include <cstdint>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"

/// maybe_yield(): when a task that computes goes on, and when it lets others run.

namespace pinion {
namespace {

using namespace std::chrono_literals;

class MaybeYieldTest : public test::ManualLoop {
 protected:
  /// Whether a maybe_yield() after `what` lets others run.
  template <class What>
  bool yields_after(What what) {
    bool suspended = false;
    bool ended = false;
    const auto task = [&]() -> Task<> {
      const Wake before = co_await maybe_yield();
      EXPECT_EQ(before, Wake::elapsed);
      suspended = true;
      what();
      wake_ = co_await maybe_yield();
      ended = true;
    };
    const TaskHandle handle = loop->spawn(task());
    loop->turn();
    EXPECT_TRUE(suspended);
    const bool yielded = !ended;
    loop->turn();
    EXPECT_TRUE(handle.done());
    return yielded;
  }

  Wake wake_ = Wake::elapsed;
};

struct Nothing : Message {
  Nothing() : Message([](Message&) {}) {}
};

TEST_F(MaybeYieldTest, GoesOnWhileNothingIsDue) {
  int calls = 0;
  const auto task = [&]() -> Task<> {
    for (; calls < 10'000; ++calls) co_await maybe_yield();
  };
  loop->spawn(task());
  loop->turn();
  EXPECT_EQ(calls, 10'000);
  EXPECT_EQ(loop->stats().resumptions, 1U);
  EXPECT_FALSE(yields_after([] {}));
}

TEST_F(MaybeYieldTest, YieldsToATimerThatIsDueBeforeTheSliceIsUsedUp) {
  LoopOptions options;
  options.task_slice = 1h;
  loop.reset();
  loop = test::make_loop(time, options);
  TimerEntry timer([](TimerEntry&) {});
  loop->arm_after(timer, 5ms);
  EXPECT_FALSE(yields_after([&] { time.advance(4ms); }));
  EXPECT_TRUE(yields_after([&] { time.advance(1ms); }));
  EXPECT_FALSE(timer.armed());
}

TEST_F(MaybeYieldTest, YieldsWhenTheTurnsSliceIsUsedUp) {
  const Delay slice = loop->options().task_slice;
  EXPECT_FALSE(
      yields_after([&] { time.advance(Delay{std::chrono::nanoseconds{slice.count() - 1}}); }));
  EXPECT_TRUE(yields_after([&] { time.advance(slice); }));
}

TEST_F(MaybeYieldTest, YieldsToAMessage) {
  Nothing message;
  EXPECT_TRUE(yields_after([&] { loop->post(message); }));
}

TEST_F(MaybeYieldTest, YieldsToACompletion) {
  Completion done([](Completion&, std::int32_t, std::uint32_t) {});
  EXPECT_TRUE(yields_after([&] {
    io_uring_prep_nop(&loop->ring().get_sqe(done));
    loop->ring().submit();
  }));
  EXPECT_EQ(done.in_flight(), 0U);
}

TEST_F(MaybeYieldTest, YieldsToARequestToStop) {
  EXPECT_TRUE(yields_after([&] { loop->stop(); }));
}

TEST_F(MaybeYieldTest, TellsACancelledTaskSo) {
  TaskHandle self;
  Wake wake = Wake::elapsed;
  const auto task = [&]() -> Task<> {
    self.cancel();
    wake = co_await maybe_yield();
  };
  self = loop->spawn(task());
  turns(2);
  EXPECT_EQ(wake, Wake::cancelled);
  EXPECT_TRUE(self.done());
}

/// By the CPU's counter, which decides in between: what computes without end holds up no timer and
/// no message of another thread.
TEST(MaybeYield, ATaskThatComputesOnTheCountersClockHoldsUpNobody) {
  Result<TscTime> time = TscTime::create();
  if (!time) GTEST_SKIP() << "no usable counter: " << time.error().what;
  const auto loop = test::make_loop(*time);
  struct Flag : TimerEntry {
    Flag() : TimerEntry([](TimerEntry& entry) { static_cast<Flag&>(entry).set = true; }) {}
    bool set = false;
  } flag;
  std::uint64_t calls = 0;
  bool looks_soon = true;
  const auto compute = [&]() -> Task<> {
    const Instant limit = MonotonicTime::read() + 60s;
    while (!flag.set) {
      if (++calls % 1024 == 0 && MonotonicTime::read() > limit) break;
      co_await maybe_yield();
      looks_soon = looks_soon && detail::go_on_until <= time->counter_after(10us);
    }
  };
  loop->arm_after(flag, 20ms);
  const TaskHandle task = loop->spawn(compute());
  while (!task.done()) loop->turn();
  EXPECT_TRUE(flag.set);
  EXPECT_TRUE(looks_soon);
  EXPECT_GT(calls, loop->stats().resumptions);  // It went on in between.
}

}  // namespace
}  // namespace pinion

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>
#include <unistd.h>

#include "loop_fixture.h"
#include "ring_wait.h"
#include "when_tasks.h"

/// Cancellation of tasks side by side, at every moment, and the loop's end among them.

namespace pinion {
namespace {

using namespace std::chrono_literals;
using test::after;
using test::Counted;
using test::StubbornSleep;

class WhenCancelTest : public test::ManualLoop {};

using Pair = std::optional<std::pair<int, int>>;

Task<> both(Pair& out, Delay first, Delay second) {
  const auto results = co_await when_all(after(first, 1), after(second, 2));
  out = {std::get<0>(*results), std::get<1>(*results)};
}

TEST_F(WhenCancelTest, BeforeTheStart) {
  Pair out;
  loop->spawn(both(out, 1h, 1h)).cancel();
  turns(3);
  EXPECT_EQ(out, std::pair(-1, -2));
}

TEST_F(WhenCancelTest, WhileAllWait) {
  Pair out;
  const TaskHandle task = loop->spawn(both(out, 1h, 1h));
  turns(2);
  task.cancel();
  EXPECT_EQ(loop->wheel().armed_count(), 0U);  // At once.
  EXPECT_FALSE(out);                           // But none runs inside cancel().
  turns(2);
  EXPECT_EQ(out, std::pair(-1, -2));
  EXPECT_TRUE(task.done());
}

TEST_F(WhenCancelTest, AChildThatHasEndedIsSkipped) {
  Pair out;
  const TaskHandle task = loop->spawn(both(out, 1ms, 1h));
  pass(5ms);
  EXPECT_EQ(loop->stats().tasks_live, 2U);
  task.cancel();
  turns(2);
  EXPECT_EQ(out, std::pair(1, -2));
}

/// Both children have slept long enough, and go on in the next turn.
TEST_F(WhenCancelTest, InTheTurnOfTheEnd) {
  Pair out;
  const TaskHandle task = loop->spawn(both(out, 5ms, 5ms));
  loop->turn();
  time.advance(6ms);
  loop->turn();
  EXPECT_FALSE(out);
  task.cancel();
  turns(2);
  EXPECT_EQ(out, std::pair(1, 2));
}

TEST_F(WhenCancelTest, AChildThatIgnoresItIsWaitedFor) {
  std::optional<std::size_t> first;
  std::optional<Instant> end;
  const auto stubborn = []() -> Task<int> {
    co_await StubbornSleep(50ms);
    co_return 50;
  };
  const auto any = [&]() -> Task<> {
    const auto winner = co_await when_any(stubborn(), after(2ms, 2));
    first = winner->first;
    end = loop->now();
    EXPECT_EQ(std::get<0>(winner->results), 50);
    const auto bounded = co_await with_deadline(2ms, stubborn());
    EXPECT_EQ(bounded, tl::unexpected(TaskFailure::deadline));
    EXPECT_EQ(loop->now(), *end + 50ms);
  };
  const TaskHandle task = loop->spawn(any());
  EXPECT_TRUE(run_to_end(task));
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(end, kStart + 50ms);
}

TEST_F(WhenCancelTest, AChildMayCancelWhoWaitsForIt) {
  TaskHandle task;
  bool told = false;
  const auto child = [&]() -> Task<> {
    task.cancel();
    told = cancelled();
    const Wake wake = co_await sleep_for(1h);
    EXPECT_EQ(wake, Wake::cancelled);
  };
  const auto parent = [&]() -> Task<> {
    const auto results = co_await when_all(child(), after(1h, 1));
    EXPECT_EQ(std::get<1>(*results), -1);
    EXPECT_TRUE(cancelled());
  };
  task = loop->spawn(parent());
  turns(3);
  EXPECT_TRUE(told);
  EXPECT_TRUE(task.done());
}

/// Whoever lost is cancelled, not who waits for it.
TEST_F(WhenCancelTest, TheLossOfARaceCancelsTheChildAlone) {
  const auto parent = [&]() -> Task<> {
    const auto race = co_await when_any(after(1h, 1), after(1ms, 2));
    EXPECT_EQ(race->first, 1U);
    EXPECT_FALSE(cancelled());
    const Wake wake = co_await sleep_for(1ms);
    EXPECT_EQ(wake, Wake::elapsed);
  };
  const TaskHandle task = loop->spawn(parent());
  EXPECT_TRUE(run_to_end(task));
}

Task<int> nested(int depth, int& told) {
  if (depth == 0) {
    const Wake wake = co_await sleep_for(1h);
    co_return wake == Wake::cancelled ? 0 : -1'000'000;
  }
  const auto inner = co_await when_all(nested(depth - 1, told));
  if (cancelled()) ++told;
  co_return 1 + std::get<0>(*inner);
}

TEST_F(WhenCancelTest, ReachesAnyDepthWithoutStack) {
  for (const int depth : {1, 100, 150'000}) {
    int told = 0;
    int reached = 0;
    const auto top = [&]() -> Task<> { reached = co_await nested(depth, told); };
    const TaskHandle task = loop->spawn(top());
    while (loop->wheel().armed_count() == 0) loop->turn();
    EXPECT_EQ(loop->stats().tasks_live, static_cast<std::uint64_t>(depth) + 1);
    task.cancel();
    EXPECT_EQ(loop->wheel().armed_count(), 0U);
    while (!task.done()) loop->turn();
    EXPECT_EQ(reached, depth);
    EXPECT_EQ(told, depth);
  }
}

Task<Counted> count_and_wait(Counted, Delay delay) {
  const Counted local;
  if (delay.count() > 0) co_await StubbornSleep(delay);
  co_return local;
}

/// Children that have ended, that can't be cancelled, and that begin only in the next turn.
Task<> crowd() {
  std::vector<Task<Counted>> many;
  for (int i = 0; i < 200; ++i) many.push_back(count_and_wait({}, i % 2 * 1h));
  const auto all = [](std::vector<Task<Counted>>& tasks) -> Task<> {
    const auto done = co_await when_all(std::span(tasks));
    EXPECT_TRUE(done);
  };
  const auto any = co_await when_any(all(many), count_and_wait({}, 1h));
  const auto bounded = co_await with_deadline(1h, count_and_wait({}, 2h));
  EXPECT_TRUE(any && bounded);
}

TEST_F(WhenCancelTest, ChildrenGoWithTheLoopWhateverTheyStandIn) {
  for (const int turns_before : {1, 2, 10, 0}) {
    Counted::reset();
    LoopOptions options;
    options.wind_down = 1ms;
    loop.reset();
    loop = test::make_loop(time, options);
    loop->spawn(crowd());
    if (turns_before == 0) {
      pass(90min, 1min);  // In the last wait.
      EXPECT_GT(Counted::gone, 400);
    }
    turns(turns_before);
    loop.reset();
    EXPECT_GT(Counted::made, 0);
    EXPECT_EQ(Counted::made, Counted::gone);
  }
}

TEST_F(WhenCancelTest, ChildrenGoWithTheRunAndLeaveTheirRoom) {
  LoopOptions options;
  options.max_tasks = 300;
  options.wind_down = 1ms;
  loop.reset();
  loop = test::make_loop(time, options);
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(loop->spawn(crowd()));
    turns(5);
    EXPECT_GT(loop->stats().tasks_live, 100U);
    loop->stop();
    loop->run();
    EXPECT_EQ(loop->stats().tasks_live, 0U);
    EXPECT_EQ(loop->frame_pool().stats().live, 0U);
  }
  EXPECT_EQ(loop->stats().tasks_refused, 0U);
}

/// What the kernel does for the loser ends before when_any() does, and what it had done isn't lost.
Task<int> read_some(int fd, std::byte* buffer, unsigned size) {
  co_return co_await test::ReadAwaiter(fd, buffer, size);
}

TEST(WhenRing, ARaceOfAReadAgainstASleepHasOneOutcomeAndLosesNoByte) {
  MonotonicTime time;
  const auto loop = test::make_loop(time);
  const test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  int sent = 0;
  int received = 0;
  int won = 0;
  bool done = false;
  const auto race = [&]() -> Task<> {
    std::array<std::byte, 4> buffer{};
    for (int i = 0; i < 300; ++i) {
      if (i % 3 != 0)
        sent += static_cast<int>(write(pair.ends[1], "abc", static_cast<std::size_t>(i % 3)));
      const Delay limit = i % 2 == 0 ? Delay{0ms} : Delay{1ms};
      const auto outcome =
          co_await when_any(read_some(pair.ends[0], buffer.data(), 4), after(limit, 1));
      const int got = std::get<0>(outcome->results);
      EXPECT_TRUE(got > 0 || got == -ECANCELED) << got;
      if (outcome->first == 0) ++won;
      if (got > 0) received += got;
    }
    while (received < sent) received += co_await read_some(pair.ends[0], buffer.data(), 4);
    done = true;
  };
  loop->spawn(race());
  EXPECT_TRUE(loop->run_until([&] { return done; }, 60s));
  EXPECT_EQ(received, sent);
  EXPECT_GT(won, 0);
}

}  // namespace
}  // namespace pinion

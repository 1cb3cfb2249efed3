#include <pinion/eventloop/when.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"
#include "when_tasks.h"

/// Tasks side by side: results, order, refusal. Cancellation: when_cancel_test.cc.

namespace pinion {
namespace {

using namespace std::chrono_literals;
using test::after;
using test::Counted;

class WhenTest : public test::ManualLoop {
 protected:
  /// Runs the task that `make` gives to its end; it leaves nothing behind.
  template <class Make>
  void run(Make& make) {
    const TaskHandle task = loop->spawn(make());
    ASSERT_TRUE(task);
    ASSERT_TRUE(run_to_end(task));
    EXPECT_EQ(loop->stats().tasks_live, 0U);
    EXPECT_EQ(loop->frame_pool().stats().live, 0U);
    EXPECT_EQ(loop->wheel().armed_count(), 0U);
  }
};

Task<std::unique_ptr<std::string>> text_after(Delay delay, const char* text) {
  co_await sleep_for(delay);
  co_return std::make_unique<std::string>(text);
}

Task<> nothing_after(Delay delay) {
  co_await sleep_for(delay);
}

TEST_F(WhenTest, AllGivesTheResultsInTheOrderOfTheTasksOnceTheLastHasEnded) {
  Instant end{};
  const auto all = [&]() -> Task<> {
    const auto results =
        co_await when_all(after(3ms, 7), text_after(9ms, "nine"), nothing_after(1ms));
    end = loop->now();
    EXPECT_TRUE(results);
    EXPECT_EQ(std::get<0>(*results), 7);
    EXPECT_EQ(*std::get<1>(*results), "nine");
    EXPECT_EQ(std::get<2>(*results), std::monostate());
  };
  run(all);
  EXPECT_EQ(end, kStart + 9ms);
}

TEST_F(WhenTest, AnyTellsWhichEndedFirstAndLosesNoResult) {
  Instant end{};
  const auto any = [&]() -> Task<> {
    const auto winner = co_await when_any(after(3ms, 7), text_after(2ms, "two"), nothing_after(1h));
    end = loop->now();
    EXPECT_TRUE(winner);
    EXPECT_EQ(winner->first, 1U);
    EXPECT_EQ(std::get<0>(winner->results), -7);  // Was cancelled, and says so.
    EXPECT_EQ(*std::get<1>(winner->results), "two");
  };
  run(any);
  EXPECT_EQ(end, kStart + 2ms);
}

TEST_F(WhenTest, ChildrenStartAtOnceInOrderAndWhoWaitsGoesOnInTheSameTurn) {
  std::vector<int> out;
  const auto note = [](std::vector<int>& to, int value) -> Task<> {
    to.push_back(value);
    co_return;
  };
  const auto all = [&]() -> Task<> {
    out.push_back(0);
    const auto done = co_await when_all(note(out, 1), note(out, 2), note(out, 3));
    out.push_back(done ? 4 : -1);
  };
  loop->spawn(all());
  loop->turn();
  EXPECT_EQ(out, (std::vector{0, 1, 2, 3, 4}));
}

TEST_F(WhenTest, SpansOfAnyLengthKeepTheirTasksAndResults) {
  const auto spans = [&]() -> Task<> {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 1000; ++i) tasks.push_back(after(Delay{1ms * (1 + i % 7)}, i));
    const auto all = co_await when_all(std::span(tasks));
    EXPECT_TRUE(all);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(tasks[static_cast<std::size_t>(i)].take(), i);

    std::array<Task<int>, 3> few = {after(5ms, 5), after(2ms, 2), after(9ms, 9)};
    const auto first = co_await when_any(std::span<Task<int>>(few));
    EXPECT_EQ(first, 1U);
    EXPECT_EQ(few[0].take(), -5);
    EXPECT_EQ(few[1].take(), 2);
    EXPECT_EQ(few[2].take(), -9);
  };
  run(spans);
}

TEST_F(WhenTest, OfNoTasksAllIsDoneAtOnceAndAnyIsRefused) {
  bool done = false;
  const auto none = [&]() -> Task<> {
    const auto all = co_await when_all();
    const auto all_of = co_await when_all(std::span<Task<int>>());
    const auto any_of = co_await when_any(std::span<Task<int>>());
    EXPECT_TRUE(all);
    EXPECT_TRUE(all_of);
    EXPECT_EQ(any_of, tl::unexpected(TaskFailure::refused));
    done = true;
  };
  loop->spawn(none());
  loop->turn();
  EXPECT_TRUE(done);
}

TEST_F(WhenTest, ADeadlineEndsTheTaskAndSaysSo) {
  const auto bounded = [&]() -> Task<> {
    const Instant start = loop->now();
    const auto in_time = co_await with_deadline(10ms, after(4ms, 4));
    EXPECT_EQ(in_time, 4);
    const auto late = co_await with_deadline(10ms, after(1h, 4));
    EXPECT_EQ(late, tl::unexpected(TaskFailure::deadline));
    EXPECT_EQ(loop->now(), start + 14ms);
    const auto until = co_await with_deadline(loop->now() + 3ms, nothing_after(1h));
    EXPECT_EQ(until, tl::unexpected(TaskFailure::deadline));
    EXPECT_EQ(loop->now(), start + 17ms);
    const auto never = co_await with_deadline(kNever, nothing_after(24h));
    EXPECT_TRUE(never);
    const auto no_timeout = co_await with_deadline(kNoTimeout, after(24h, 1));
    EXPECT_EQ(no_timeout, 1);
  };
  run(bounded);
}

TEST_F(WhenTest, WithNoTimeLeftTheTaskStartsCancelled) {
  int runs = 0;
  const auto child = [&]() -> Task<> {
    EXPECT_TRUE(cancelled());
    const Wake wake = co_await sleep_for(1h);
    EXPECT_EQ(wake, Wake::cancelled);
    ++runs;
  };
  const auto bounded = [&]() -> Task<> {
    const auto none = co_await with_deadline(0ms, child());
    const auto past = co_await with_deadline(Instant::min(), child());
    EXPECT_EQ(none, tl::unexpected(TaskFailure::deadline));
    EXPECT_EQ(past, tl::unexpected(TaskFailure::deadline));
  };
  run(bounded);
  EXPECT_EQ(runs, 2);
}

TEST_F(WhenTest, ATaskThatEndsInTheTurnOfItsDeadlineHasOneOutcome) {
  for (const Delay deadline : {Delay{4ms}, Delay{5ms}, Delay{6ms}}) {
    std::optional<TaskResult<int>> outcome;
    const auto bounded = [&]() -> Task<> {
      outcome = co_await with_deadline(deadline, after(5ms, 5));
    };
    run(bounded);
    ASSERT_TRUE(outcome);
    if (deadline != Delay{5ms}) {
      EXPECT_EQ(outcome->has_value(), deadline > Delay{5ms});
    }
    EXPECT_EQ(outcome->value_or(5), 5);  // Never the half of it: in time, yet cancelled.
  }
}

/// After so many calls in one turn the task that waits goes on in the next one only, and the timers
/// of this turn come in between.
TEST_F(WhenTest, ATaskThatHasEndedIsInTimeWhateverTheTurnStillBrings) {
  const auto nothing = []() -> Task<> { co_return; };
  const auto pause = []() -> Task<> { co_await yield(); };
  for (int calls = 0; calls < 70; ++calls) {
    std::uint64_t end = 0;
    const auto child = [&]() -> Task<int> {
      co_await pause();
      for (int i = 0; i < calls; ++i) co_await nothing();
      end = loop->stats().turns;
      co_return calls;
    };
    std::optional<TaskResult<int>> outcome;
    const auto bounded = [&]() -> Task<> { outcome = co_await with_deadline(10ms, child()); };
    const TaskHandle task = loop->spawn(bounded());
    loop->turn();
    const std::uint64_t last = loop->stats().turns + 1;  // Whose timers end the task.
    time.advance(20ms);
    EXPECT_TRUE(run_to_end(task));
    EXPECT_EQ(outcome->has_value(), end == last) << calls << " calls";
  }
}

TEST_F(WhenTest, ADelayCountsFromTheCall) {
  std::optional<TaskResult<int>> outcome;
  const auto bounded = [&]() -> Task<> {
    time.advance(1h);  // It has worked long.
    outcome = co_await with_deadline(10ms, after(9ms, 9));
  };
  run(bounded);
  EXPECT_EQ(outcome, 9);
}

TEST_F(WhenTest, WhatAnExpressionMakesIsDestroyedOnce) {
  Counted::reset();
  const auto child = [](Counted) -> Task<Counted> {
    co_await yield();
    co_return Counted();
  };
  const auto all = [&]() -> Task<> {
    const auto one = co_await when_all(child(Counted()), after(1ms, 1), child({}));
    const int two = std::get<1>(*co_await when_all(child(Counted()), after(1ms, 1)));
    const auto three = co_await when_any(child(Counted()), child(Counted()));
    const auto four = co_await with_deadline(1s, child(Counted()));
    const auto five = co_await with_deadline(0s, child(Counted()));
    EXPECT_TRUE(one && three && four && !five && two == 1);
  };
  run(all);
  EXPECT_GT(Counted::made, 20);
  EXPECT_EQ(Counted::made, Counted::gone);
}

class RefusalTest : public WhenTest {
 protected:
  /// Room for the parent and two children.
  RefusalTest() {
    LoopOptions options;
    options.max_tasks = 3;
    loop.reset();
    loop = test::make_loop(time, options);
    Counted::reset();
  }

  static Task<int> never_runs(Counted) {
    ADD_FAILURE();
    co_return 0;
  }
};

TEST_F(RefusalTest, EitherAllStartOrNone) {
  const auto parent = [&]() -> Task<> {
    const Counted one;
    const auto all = co_await when_all(never_runs(one), never_runs(one), never_runs(one));
    EXPECT_FALSE(all);
    const auto any = co_await when_any(never_runs(one), never_runs(one), never_runs(one));
    EXPECT_EQ(any.error(), TaskFailure::refused);
    const auto empty = co_await when_all(never_runs(one), Task<>());
    EXPECT_FALSE(empty);
    const auto bounded = co_await with_deadline(1s, Task<int>());
    EXPECT_EQ(bounded, tl::unexpected(TaskFailure::refused));
    const auto two = co_await when_all(after(1ms, 1), after(1ms, 2));
    EXPECT_TRUE(two);
  };
  run(parent);
  EXPECT_EQ(loop->stats().tasks_refused, 4U);
  EXPECT_EQ(Counted::made, Counted::gone);
}

TEST_F(RefusalTest, ASpanThatWasRefusedMayBeHandedInAgain) {
  const auto parent = [&]() -> Task<> {
    std::array<Task<int>, 3> tasks = {after(1ms, 1), after(1ms, 2), after(1ms, 3)};
    const auto all = co_await when_all(std::span<Task<int>>(tasks));
    EXPECT_FALSE(all);
    const auto two = co_await when_all(std::span<Task<int>>(tasks).first(2));
    EXPECT_TRUE(two);
    EXPECT_EQ(tasks[1].take(), 2);
  };
  run(parent);
}

using WhenDeathTest = WhenTest;

TEST_F(WhenDeathTest, AwaitingAnEmptyTaskEndsTheProcessWithTheRemedy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto parent = []() -> Task<> { co_await Task<>(); };
  EXPECT_DEATH((loop->spawn(parent()), loop->turn()), "co_await of an empty task.*\n.*fix: ");
}

TEST_F(WhenDeathTest, ATaskStartsOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto parent = []() -> Task<> {
    std::array<Task<int>, 1> task = {after(0ms, 1)};
    for (int i = 0; i < 2; ++i) {
      const auto all = co_await when_all(std::span<Task<int>>(task));
      EXPECT_TRUE(all);
    }
  };
  EXPECT_DEATH((loop->spawn(parent()), turns(5)), "root.context == nullptr");
}

TEST_F(WhenDeathTest, AResultIsThereOnlyOnceTheTaskHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(after(1ms, 1).take()), "has_value");
}

}  // namespace
}  // namespace pinion

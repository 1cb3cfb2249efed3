#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pinion/eventloop/call.h>
#include <pinion/eventloop/when.h>

#include "loop_fixture.h"

/// Calls between two loops that are turned by hand, on one thread each: every state can be held.

namespace pinion {
namespace {

using namespace std::chrono_literals;

/// A loop of another thread, which turns when it is told to.
class Other {
 public:
  Other() : thread_([this] { work(); }) { command(Command::start); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() {
    command(Command::die);
    thread_.join();
  }

  Loop& loop() noexcept { return *loop_; }
  std::thread::id thread() const noexcept { return thread_.get_id(); }
  void turn() { command(Command::turn); }
  /// Lets its run begin and end.
  void run() {
    loop_->stop();
    command(Command::run);
  }
  /// Lets it begin.
  void begin_run() {
    struct Beginning : Message {
      Beginning() noexcept : Message(&on_message) {}
      static void on_message(Message& message) noexcept {
        static_cast<Beginning&>(message).come = true;
      }
      std::atomic<bool> come{false};
    } beginning;
    command_ = Command::run;
    command_.notify_one();
    loop_->post(beginning);
    while (!beginning.come) std::this_thread::yield();
  }
  void end_run() {
    loop_->stop();
    while (command_ != Command::none) std::this_thread::yield();
  }
  void die() { command(Command::reset); }

 private:
  enum class Command : std::uint8_t { none, start, turn, run, reset, die };

  void command(Command what) {
    command_ = what;
    command_.notify_one();
    while (what != Command::die && command_ != Command::none) std::this_thread::yield();
  }

  void work() {
    for (;;) {
      command_.wait(Command::none);
      const Command what = command_;
      if (what == Command::start) loop_ = test::make_loop(time_);
      if (what == Command::turn) loop_->turn();
      if (what == Command::run) loop_->run();
      if (what == Command::reset || what == Command::die) loop_.reset();
      if (what == Command::die) return;
      command_ = Command::none;
    }
  }

  ManualTime time_{Instant{1h}};
  std::unique_ptr<Loop> loop_;
  std::atomic<Command> command_{Command::none};
  std::thread thread_;
};

class CallTest : public test::ManualLoop {
 protected:
  void TearDown() override { loop.reset(); }  // Before the other one, and what tasks refer to.

  Loop& target() noexcept { return other.loop(); }

  Other other;
};

using Table = std::unordered_map<int, int>;

// The example of the header.
Task<> look_up(Loop& owner, Table& table, int key, int& value) {
  const CallResult<int> found = co_await on(owner, [&table, key] { return table.at(key); });
  if (found) value = *found;  // Otherwise nobody has looked: found.error() says why.
}

TEST_F(CallTest, RunsOverThereAndBringsTheResultBack) {
  Table table{{7, 49}};
  int value = 0;
  const TaskHandle task = loop->spawn(look_up(target(), table, 7, value));
  settle();
  EXPECT_FALSE(task.done());
  other.turn();
  EXPECT_FALSE(task.done());
  EXPECT_EQ(value, 0);
  settle();
  EXPECT_TRUE(task.done());
  EXPECT_EQ(value, 49);
}

TEST_F(CallTest, EachSideRunsOnItsOwnThread) {
  std::thread::id there;
  std::thread::id back;
  const auto work = [&]() -> Task<> {
    const CallResult<void> called =
        co_await on(target(), [&] { there = std::this_thread::get_id(); });
    EXPECT_TRUE(called);
    back = std::this_thread::get_id();
  };
  loop->spawn(work());
  settle();
  other.turn();
  settle();
  EXPECT_EQ(there, other.thread());
  EXPECT_EQ(back, std::this_thread::get_id());
}

/// What counts how many of it live. It moves only.
struct Counted {
  explicit Counted(int& count) noexcept : alive(&count) { ++*alive; }
  Counted(Counted&& from) noexcept : alive(from.alive) { ++*alive; }
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive; }
  int* alive;
};

TEST_F(CallTest, ResultsThatOnlyMoveDieOnceEach) {
  int alive = 0;
  std::string text;
  const auto work = [&]() -> Task<> {
    const CallResult<Counted> counted = co_await on(target(), [&] { return Counted(alive); });
    EXPECT_TRUE(counted);
    EXPECT_EQ(alive, 1);
    auto word = co_await on(target(), [] { return std::make_unique<std::string>(100, 'x'); });
    if (word) text = **word;
    static_cast<void>(co_await on(target(), [] { return std::string(100, 'y'); }));
  };
  const TaskHandle task = loop->spawn(work());
  while (!task.done()) {
    settle();
    other.turn();
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(text, std::string(100, 'x'));
}

TEST_F(CallTest, ANamedFunctionIsCalledWhereItLies) {
  std::vector<int> seen;
  const auto work = [&]() -> Task<> {
    auto next = [list = std::vector<int>{1, 2}]() mutable {
      list.push_back(static_cast<int>(list.size()) + 1);
      return static_cast<int>(list.size());
    };
    for (int i = 0; i < 2; ++i) {
      const CallResult<int> size = co_await on(target(), next);
      seen.push_back(size.value_or(-1));
    }
  };
  const TaskHandle task = loop->spawn(work());
  while (!task.done()) {
    settle();
    other.turn();
  }
  EXPECT_EQ(seen, (std::vector{3, 4}));
}

TEST_F(CallTest, CallsRunInTheOrderInWhichTheyWereMade) {
  std::vector<int> order;
  const auto work = [&](int number) -> Task<> {
    static_cast<void>(co_await on(target(), [&order, number] { order.push_back(number); }));
  };
  for (int i = 0; i < 10; ++i) loop->spawn(work(i));
  settle();
  other.turn();
  settle();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(CallTest, OnTheOwnLoopAFunctionRunsAtOnce) {
  std::vector<int> order;
  CallLane lane(*loop, 1);
  const auto work = [&]() -> Task<> {
    order.push_back(1);
    const CallResult<int> got = co_await on(*loop, [&] {
      order.push_back(2);
      return 5;
    });
    order.push_back(got.value_or(-1));
    const CallResult<void> through = co_await lane.try_on([&] { order.push_back(6); });
    EXPECT_TRUE(through);
  };
  const auto after = [&]() -> Task<> {
    order.push_back(7);
    co_return;
  };
  loop->spawn(work());
  loop->spawn(after());
  loop->turn();
  EXPECT_EQ(order, (std::vector{1, 2, 5, 6, 7}));
  EXPECT_EQ(lane.in_flight(), 0U);
}

/// How a call ended: its result, or the error as -1 - error.
constexpr int outcome(const CallResult<int>& result) {
  return result ? *result : -1 - static_cast<int>(result.error());
}
constexpr int kEnded = outcome(tl::unexpected(CallError::ended));
constexpr int kCancelled = outcome(tl::unexpected(CallError::cancelled));
constexpr int kFull = outcome(tl::unexpected(CallError::full));

/// Calls once; counts over there.
Task<> call_once(Loop& target, std::atomic<int>& ran, std::optional<int>& end,
                 bool* told = nullptr) {
  const CallResult<int> got = co_await on(target, [&ran] { return ++ran; });
  if (told != nullptr) *told = cancelled();
  end = outcome(got);
}

TEST_F(CallTest, ACallThatIsUnderWayOutlastsItsCancellation) {
  std::atomic<int> ran{0};
  std::optional<int> end;
  bool told = false;
  const TaskHandle task = loop->spawn(call_once(target(), ran, end, &told));
  settle();
  task.cancel();
  settle();
  EXPECT_FALSE(task.done());
  other.turn();
  settle();
  EXPECT_EQ(end, 1);
  EXPECT_TRUE(told);
  EXPECT_TRUE(task.done());
}

TEST_F(CallTest, ADeadlineIsAsLateAsTheOtherLoop) {
  std::atomic<int> ran{0};
  std::optional<int> end;
  std::optional<bool> late;
  const auto work = [&]() -> Task<> {
    const auto result = co_await with_deadline(1ms, call_once(target(), ran, end));
    late = !result && result.error() == TaskFailure::deadline;
  };
  loop->spawn(work());
  pass(10ms);
  EXPECT_FALSE(late.has_value());
  other.turn();
  settle();
  EXPECT_EQ(late, true);
  EXPECT_EQ(end, 1);
}

TEST_F(CallTest, ACancelledTaskCallsNobodyAndLetsOthersRun) {
  std::atomic<int> ran{0};
  std::optional<int> end;
  int calls = 0;
  const auto insist = [&]() -> Task<> {
    for (int i = 0; i < 5; ++i) {
      const CallResult<int> got = co_await on(target(), [&ran] { return ++ran; });
      EXPECT_EQ(outcome(got), kCancelled);
      ++calls;
    }
    const CallResult<int> here = co_await on(*loop, [&ran] { return ++ran; });
    end = outcome(here);
  };
  const TaskHandle task = loop->spawn(insist());
  task.cancel();
  loop->turn();
  EXPECT_EQ(calls, 0);
  loop->turn();
  EXPECT_EQ(calls, 1) << "one a turn";
  settle();
  other.turn();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(end, kCancelled);
}

TEST_F(CallTest, ALoopWhoseRunHasEndedIsNotWaitedFor) {
  std::atomic<int> ran{0};
  std::array<std::optional<int>, 2> ends;
  loop->spawn(call_once(target(), ran, ends[0]));
  settle();
  other.run();  // It turns once before it stops, and answers.
  settle();
  EXPECT_EQ(ends[0], 1);
  loop->spawn(call_once(target(), ran, ends[1]));
  settle();
  EXPECT_EQ(ends[1], kEnded);
  EXPECT_EQ(ran, 1);
}

TEST_F(CallTest, WhatHasNotRunWhenTheRunEndsIsAnsweredToo) {
  std::map<int, std::optional<int>> ends;
  std::atomic<int> ran{0};
  for (int i = 0; i < 1000; ++i) loop->spawn(call_once(target(), ran, ends[i]));
  settle();
  other.run();
  settle();
  int answered = 0;
  for (const auto& [number, end] : ends) answered += end.has_value() ? 1 : 0;
  EXPECT_EQ(answered, 1000);
  EXPECT_GE(ran, 256) << "a turn's";
  EXPECT_LT(ran, 1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ends[i], i < ran ? i + 1 : kEnded);
}

TEST_F(CallTest, ALoopThatRunsAgainIsCalledAgain) {
  std::atomic<int> ran{0};
  std::array<std::optional<int>, 2> ends;
  other.run();
  loop->spawn(call_once(target(), ran, ends[0]));
  settle();
  EXPECT_EQ(ends[0], kEnded);
  other.begin_run();
  loop->spawn(call_once(target(), ran, ends[1]));
  while (!ends[1]) loop->turn();
  other.end_run();
  EXPECT_EQ(ends[1], 1);
}

TEST_F(CallTest, ALoopThatDiesAnswers) {
  std::atomic<int> ran{0};
  std::optional<int> end;
  loop->spawn(call_once(target(), ran, end));
  settle();
  other.die();
  settle();
  EXPECT_EQ(end, 1);
}

TEST_F(CallTest, ALoopThatGoesDownKeepsTheFramesUntilTheAnswer) {
  std::atomic<int> ran{0};
  std::optional<int> end;
  bool told = false;
  const TaskHandle task = loop->spawn(call_once(target(), ran, end, &told));
  settle();
  loop->stop();
  EXPECT_EQ(loop->run(), Ending::stopped);
  EXPECT_FALSE(task.done()) << "nobody has answered";
  other.turn();
  loop.reset();
  EXPECT_EQ(end, 1);
  EXPECT_TRUE(told);
}

TEST(CallDeathTest, ALoopDoesNotDieWithoutTheAnswers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto die_early = [] {
    std::atomic<int> ran{0};
    std::optional<int> end;
    Other other;
    ManualTime time{Instant{1h}};
    const auto loop = test::make_loop(time);
    loop->spawn(call_once(other.loop(), ran, end));
    loop->turn();
  };
  EXPECT_DEATH(die_early(), "every_call_is_answered");
}

/// Two loops call a third one through the same lane.
void share_a_lane() {
  Other target;
  Other second;
  CallLane lane(target.loop(), 1);
  struct Start : Message {
    Start(Loop& on, CallLane& through) : Message(&on_message), loop(on), lane(through) {}
    static void on_message(Message& message) noexcept {
      const Start& self = static_cast<const Start&>(message);
      self.loop.spawn([](CallLane& shared) -> Task<> {
        static_cast<void>(co_await shared.on([] {}));
      }(self.lane));
    }
    Loop& loop;
    CallLane& lane;
  };
  ManualTime time{Instant{1h}};
  const auto loop = test::make_loop(time);
  Start first_start(*loop, lane);
  Start second_start(second.loop(), lane);
  loop->post(first_start);
  loop->turn();
  second.loop().post(second_start);
  second.turn();
}

TEST(CallDeathTest, ALaneBelongsToOneLoopsTasks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(share_a_lane(), "lane_is_used_from_one_loop");
}

class LaneTest : public CallTest {
 protected:
  static constexpr std::size_t kLimit = 3;

  /// Goes through the lane and notes its number there.
  Task<> pass_through(int number, std::optional<int>& end) {
    const CallResult<int> got = co_await lane->on([this, number] {
      order.push_back(number);
      return number;
    });
    end = outcome(got);
  }

  Task<> try_once(std::optional<int>& end) {
    const CallResult<int> got = co_await lane->try_on([] { return 0; });
    end = outcome(got);
  }

  std::optional<CallLane> lane{std::in_place, target(), kLimit};
  std::vector<int> order;
  std::map<int, std::optional<int>> ends;
};

TEST_F(LaneTest, LetsItsLimitPassAndTheOthersInTurn) {
  for (int i = 0; i < 10; ++i) loop->spawn(pass_through(i, ends[i]));
  settle();
  for (std::size_t passed = 0; passed < 10; passed += kLimit) {
    EXPECT_EQ(order.size(), passed);
    EXPECT_EQ(lane->in_flight(), std::min(kLimit, 10 - passed));
    other.turn();
    settle();
  }
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ends[i], i);
  EXPECT_EQ(lane->in_flight(), 0U);
}

TEST_F(LaneTest, TryOnIsRefusedWhenTheLaneIsFull) {
  for (int i = 0; i < 3; ++i) loop->spawn(pass_through(i, ends[i]));
  std::optional<int> tried;
  loop->spawn(try_once(tried));
  loop->turn();
  EXPECT_EQ(tried, kFull) << "at once";
  other.turn();
  settle();
  loop->spawn(try_once(tried));
  settle();
  other.turn();
  settle();
  EXPECT_EQ(tried, 0);
}

TEST_F(LaneTest, ACallThatIsAwaitedAgainIsMadeAgain) {
  std::vector<int> seen;
  std::vector<std::thread::id> threads;
  const auto insist = [&]() -> Task<> {
    auto call = lane->try_on([&threads] {
      threads.push_back(std::this_thread::get_id());
      return static_cast<int>(threads.size());
    });
    for (int i = 0; i < 3; ++i) {
      const CallResult<int> got = co_await call;
      seen.push_back(outcome(got));
      co_await sleep_for(1ms);
    }
  };
  for (int i = 0; i < 3; ++i) loop->spawn(pass_through(i, ends[i]));
  const TaskHandle task = loop->spawn(insist());
  settle();
  EXPECT_EQ(seen, std::vector{kFull});
  while (!task.done()) {
    other.turn();
    pass(1ms);
  }
  EXPECT_EQ(seen, (std::vector{kFull, 1, 2}));
  EXPECT_EQ(threads, (std::vector{other.thread(), other.thread()}));
}

TEST_F(LaneTest, ACancelledTaskLeavesTheQueue) {
  std::map<int, TaskHandle> tasks;
  for (int i = 0; i < 6; ++i) tasks[i] = loop->spawn(pass_through(i, ends[i]));
  settle();
  tasks[4].cancel();
  settle();
  EXPECT_EQ(ends[4], kCancelled);
  while (!tasks[5].done()) {
    other.turn();
    settle();
  }
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 5}));
}

TEST_F(LaneTest, EveryoneHearsThatTheOtherLoopHasEnded) {
  for (int i = 0; i < 10; ++i) loop->spawn(pass_through(i, ends[i]));
  settle();
  other.run();
  settle();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ends[i], i < 3 ? i : kEnded);
  EXPECT_EQ(lane->in_flight(), 0U);
}

}  // namespace
}  // namespace pinion

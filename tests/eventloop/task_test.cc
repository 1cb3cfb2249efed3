#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"

namespace pinion {
namespace {

using namespace std::chrono_literals;

class TaskTest : public test::ManualLoop {};

Task<> append(std::vector<int>& out, int value) {
  out.push_back(value);
  co_return;
}

TEST_F(TaskTest, StartsInTheNextTurnInTheOrderOfSpawning) {
  std::vector<int> out;
  const TaskHandle first = loop->spawn(append(out, 1));
  const TaskHandle second = loop->spawn(append(out, 2));
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(first.done());
  loop->turn();
  EXPECT_EQ(out, (std::vector{1, 2}));
  EXPECT_TRUE(first.done());
  EXPECT_TRUE(second.done());
  EXPECT_EQ(loop->stats().tasks_live, 0U);
}

TEST_F(TaskTest, AHandleOutlivesItsTaskAndTheNextOneInItsPlace) {
  std::vector<int> out;
  const TaskHandle first = loop->spawn(append(out, 1));
  loop->turn();
  const TaskHandle second = loop->spawn([]() -> Task<> { co_await sleep_for(1s); }());
  EXPECT_TRUE(first.done());
  first.cancel();
  loop->turn();
  EXPECT_FALSE(second.done());
}

Task<> sleep_and_note(Delay delay, Loop& loop, std::optional<Instant>& woke) {
  co_await sleep_for(delay);
  woke = loop.now();
}

TEST_F(TaskTest, SleepsAtLeastAsLongAsAskedAndNotATickMore) {
  for (const Delay delay : {Delay{1ns}, Delay{1ms}, Delay{1ms + 1ns}, Delay{50ms}, Delay{70s}}) {
    time.advance(123'457ns);
    const Instant begin = time.now();
    std::optional<Instant> woke;
    loop->spawn(sleep_and_note(delay, *loop, woke));
    loop->turn();
    while (!woke) pass(1ms);
    EXPECT_GE(*woke, saturating_add(begin, delay));
    EXPECT_LE(*woke, saturating_add(begin, delay) + 3ms);
  }
}

TEST_F(TaskTest, NoDelayAndPastDeadlinesTakeOneTurn) {
  std::vector<Wake> wakes;
  const auto sleeper = [](std::vector<Wake>& out) -> Task<> {
    out.push_back(co_await sleep_for(0s));
    out.push_back(co_await sleep_for(-1h));
    out.push_back(co_await sleep_until(Loop::current().now()));
    out.push_back(co_await sleep_until(Instant::min()));
  };
  loop->spawn(sleeper(wakes));
  for (std::size_t turn = 0; turn < 5; ++turn) {
    loop->turn();
    EXPECT_EQ(wakes, std::vector(turn, Wake::elapsed));
  }
}

/// Until it is cancelled.
Task<> count_yields(int& out) {
  for (Wake wake = Wake::elapsed; wake == Wake::elapsed; wake = co_await yield()) ++out;
}

Task<int> add(int a, int b) {
  co_await yield();
  co_return a + b;
}

Task<std::unique_ptr<std::string>> make_text() {
  co_return std::make_unique<std::string>("a text too long for the small string buffer");
}

Task<> call_children(int& sum, std::string& text) {
  sum = co_await add(co_await add(1, 2), 3);
  const auto made = co_await make_text();
  text = *made;
}

TEST_F(TaskTest, AChildGivesItsResultToWhoAwaitsIt) {
  int sum = 0;
  std::string text;
  const TaskHandle handle = loop->spawn(call_children(sum, text));
  turns(4);
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(text, "a text too long for the small string buffer");
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
}

Task<int> depth(int levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await depth(levels - 1);
}

TEST_F(TaskTest, ACallChainOfAnyDepthNeedsNoStack) {
  constexpr int kLevels = 200'000;
  int reached = 0;
  const auto caller = [](int& out) -> Task<> { out = co_await depth(kLevels); };
  const TaskHandle handle = loop->spawn(caller(reached));
  while (!handle.done()) loop->turn();
  EXPECT_EQ(reached, kLevels);
}

TEST_F(TaskTest, ManyCallsInALoopNeedNoStackAndLeaveOthersTheirTurn) {
  constexpr int kCalls = 100'000;
  int sum = 0;
  int other = 0;
  const auto one = []() -> Task<int> { co_return 1; };
  const auto caller = [](auto& call, int& out) -> Task<> {
    for (int i = 0; i < kCalls; ++i) out += co_await call();
  };
  const TaskHandle handle = loop->spawn(caller(one, sum));
  const TaskHandle counting = loop->spawn(count_yields(other));
  while (!handle.done()) loop->turn();
  finish(counting);
  EXPECT_EQ(sum, kCalls);
  EXPECT_GT(other, 1000);
}

Task<> note_wakes(std::vector<Wake>& out) {
  out.push_back(co_await sleep_for(1h));
  out.push_back(co_await sleep_for(1h));
  out.push_back(co_await yield());
}

TEST_F(TaskTest, CancelEndsThisWaitAndAllThatFollow) {
  std::vector<Wake> wakes;
  const TaskHandle handle = loop->spawn(note_wakes(wakes));
  loop->turn();
  EXPECT_EQ(loop->wheel().armed_count(), 1U);
  handle.cancel();
  handle.cancel();
  EXPECT_EQ(loop->wheel().armed_count(), 0U);
  EXPECT_TRUE(wakes.empty());  // It runs in the next turn, not inside cancel().
  turns(3);
  EXPECT_EQ(wakes, std::vector(3, Wake::cancelled));
  EXPECT_TRUE(handle.done());
}

TEST_F(TaskTest, CancelBeforeTheFirstTurnIsSeenByTheFirstWait) {
  std::vector<Wake> wakes;
  loop->spawn(note_wakes(wakes)).cancel();
  turns(4);
  EXPECT_EQ(wakes, std::vector(3, Wake::cancelled));
}

TEST_F(TaskTest, ATaskInThePlaceOfACancelledOneIsNotCancelled) {
  std::vector<Wake> wakes;
  const auto yielding = [](std::vector<Wake>& out) -> Task<> {
    const Wake wake = co_await yield();
    out.push_back(wake);
  };
  loop->spawn(yielding(wakes)).cancel();
  turns(2);
  loop->spawn(yielding(wakes));
  turns(2);
  EXPECT_EQ(wakes, (std::vector{Wake::cancelled, Wake::elapsed}));
}

TEST_F(TaskTest, AChildSeesTheCancellationOfItsRoot) {
  std::vector<Wake> wakes;
  bool seen_by_child = false;
  const auto child = [](std::vector<Wake>& out, bool& seen) -> Task<> {
    out.push_back(co_await sleep_for(1h));
    seen = cancelled();
  };
  const auto root = [](auto& call, std::vector<Wake>& out, bool& seen) -> Task<> {
    co_await call(out, seen);
    out.push_back(co_await sleep_for(1h));
  };
  const TaskHandle handle = loop->spawn(root(child, wakes, seen_by_child));
  loop->turn();
  EXPECT_FALSE(cancelled());
  handle.cancel();
  turns(3);
  EXPECT_EQ(wakes, std::vector(2, Wake::cancelled));
  EXPECT_TRUE(seen_by_child);
  EXPECT_TRUE(handle.done());
}

TEST_F(TaskTest, ATaskMayCancelItself) {
  std::vector<Wake> wakes;
  TaskHandle handle;
  const auto body = [](TaskHandle& self, std::vector<Wake>& out) -> Task<> {
    self.cancel();
    out.push_back(co_await sleep_for(1h));
  };
  handle = loop->spawn(body(handle, wakes));
  turns(2);
  EXPECT_EQ(wakes, std::vector{Wake::cancelled});
}

// L4: a task that yields for ever holds up no timer.
TEST_F(TaskTest, L4_ATaskThatYieldsForEverDelaysNoTimer) {
  bool fired = false;
  int yields = 0;
  const auto sleeper = [](bool& out) -> Task<> {
    co_await sleep_for(10ms);
    out = true;
  };
  const TaskHandle spinning = loop->spawn(count_yields(yields));
  loop->spawn(sleeper(fired));
  turns(100);
  EXPECT_EQ(yields, 100);  // Others have their turn after each.
  EXPECT_FALSE(fired);
  time.advance(11ms);
  turns(2);  // One fires the timer, one runs the task.
  EXPECT_TRUE(fired);
  finish(spinning);
}

// L6: a callback that arms itself with no delay holds up nothing else.
TEST_F(TaskTest, L6_ATimerThatRearmsItselfWithNoDelayDelaysNobody) {
  struct Rearming : TimerEntry {
    explicit Rearming(Loop& owner) : TimerEntry(&on_timer), loop(owner) {}
    static void on_timer(TimerEntry& entry) {
      Rearming& self = static_cast<Rearming&>(entry);
      ++self.fired;
      self.loop.arm_after(self, 0s);
    }
    Loop& loop;
    int fired = 0;
  };
  Rearming timer(*loop);
  loop->arm_after(timer, 0s);
  int yields = 0;
  const TaskHandle counting = loop->spawn(count_yields(yields));
  pass(100ms);
  EXPECT_GE(timer.fired, 99);
  EXPECT_LE(timer.fired, 102);  // Once per tick, never twice in a turn.
  EXPECT_GE(yields, 99);
  loop->wheel().cancel(timer);
  finish(counting);
}

// L7: a timer that cancels and destroys its neighbour of the same tick.
TEST_F(TaskTest, L7_ATimerThatDestroysItsNeighbourOfTheSameTick) {
  struct Neighbour : TimerEntry {
    explicit Neighbour(int& count) : TimerEntry(&on_timer), fired(count) {}
    static void on_timer(TimerEntry& entry) {
      Neighbour& self = static_cast<Neighbour&>(entry);
      ++self.fired;
      self.other->reset();
    }
    int& fired;
    std::unique_ptr<Neighbour>* other = nullptr;
  };
  int fired = 0;
  auto first = std::make_unique<Neighbour>(fired);
  auto second = std::make_unique<Neighbour>(fired);
  first->other = &second;
  second->other = &first;
  loop->arm_after(*first, 10ms);
  loop->arm_after(*second, 10ms);
  pass(20ms);
  EXPECT_EQ(fired, 1);
}

// L10: times beyond the wheel, stalls of hours, a clock that steps back.
TEST_F(TaskTest, L10_StallsForHoursAndClocksThatStepBackLoseNoTimer) {
  int done = 0;
  const auto sleeper = [](Delay delay, Instant due, Loop& on, int& out) -> Task<> {
    co_await sleep_for(delay);
    EXPECT_GE(on.now(), due);
    ++out;
  };
  const std::vector<Delay> delays = {1ms, 63ms, 64ms, 4s, 5min, 5h, 24h * 13, 24h * 400};
  for (const Delay delay : delays) {
    loop->spawn(sleeper(delay, saturating_add(time.now(), delay), *loop, done));
  }
  loop->turn();
  const auto expect_done = [&](int count) {
    turns(3);
    EXPECT_EQ(done, count);
  };
  time.advance(6h);
  expect_done(6);
  time.set(kStart);
  expect_done(6);
  pass(6h, 1h);
  expect_done(6);
  time.advance(24h * 14);
  expect_done(7);
  time.advance(24h * 400);
  expect_done(8);
}

TEST_F(TaskTest, BeyondTheLimitOfTasksSpawnRefusesAndCounts) {
  LoopOptions options;
  options.max_tasks = 2;
  loop.reset();
  loop = test::make_loop(time, options);
  const auto sleeper = []() -> Task<> { co_await sleep_for(1s); };
  EXPECT_TRUE(loop->spawn(sleeper()));
  EXPECT_TRUE(loop->spawn(sleeper()));
  const TaskHandle refused = loop->spawn(sleeper());
  EXPECT_FALSE(refused);
  EXPECT_TRUE(refused.done());
  refused.cancel();
  EXPECT_FALSE(loop->spawn(Task<>()));
  EXPECT_EQ(loop->stats().tasks_refused, 2U);
}

TEST_F(TaskTest, ATaskThatIsNeverSpawnedGivesItsFrameBack) {
  loop->turn();
  {
    std::vector<int> out;
    const Task<> dropped = append(out, 1);
    EXPECT_EQ(loop->frame_pool().stats().live, 1U);
  }
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
Task<> without_a_variable(int& out) {
  if (co_await yield() == Wake::elapsed) ++out;
}

TEST(TaskDeathTest, ATaskThatGccLaysOutWronglyIsRefusedWithTheRemedy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int out = 0;
  EXPECT_DEATH(static_cast<void>(without_a_variable(out)), "miscompiled.*\n.*fix: name the result");
}
#endif

}  // namespace
}  // namespace pinion

#include <pinion/eventloop/shared_timer_poller.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <pinion/timers/shared_timers.h>

#include "loop_fixture.h"

/// A loop that serves shared timers, on virtual time.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<SharedTimers> make_timers(unsigned shards) {
  auto timers = SharedTimers::create({.capacity = 100, .shards = shards});
  if (!timers) std::abort();
  return std::move(*timers);
}

SharedTimer make_timer(SharedTimers& timers, int& fired) {
  auto timer = timers.make(0, [](void* count) { ++*static_cast<int*>(count); }, &fired);
  if (!timer) std::abort();
  return std::move(*timer);
}

using SharedTimerPollerTest = ManualLoop;

TEST_F(SharedTimerPollerTest, FiresOnTheLoopsWheelInItsTurns) {
  const std::unique_ptr<SharedTimers> timers = make_timers(1);
  SharedTimerPoller poller(*loop, timers->shard(0));
  int fired = 0;
  SharedTimer timer = make_timer(*timers, fired);
  timer.schedule(time.now() + 10ms);
  loop->turn();
  EXPECT_EQ(loop->wheel().armed_count(), 1U);
  pass(9ms);
  EXPECT_EQ(fired, 0);
  pass(1ms);
  EXPECT_EQ(fired, 1);
  timer.schedule(time.now());
  loop->turn();
  EXPECT_EQ(fired, 2) << "what is due already fires in the same turn";
}

TEST_F(SharedTimerPollerTest, ATurnTakesInNoMoreThanItsPollBudget) {
  LoopOptions options;
  options.poll_budget = 3;
  loop = make_loop(time, options);
  const std::unique_ptr<SharedTimers> timers = make_timers(1);
  SharedTimerPoller poller(*loop, timers->shard(0));
  int fired = 0;
  std::vector<SharedTimer> some;
  for (int made = 0; made < 7; ++made) some.push_back(make_timer(*timers, fired));
  for (SharedTimer& timer : some) timer.schedule(time.now());
  for (const int expected : {3, 6, 7}) {
    loop->turn();
    EXPECT_EQ(fired, expected);
  }
  some.clear();
}

TEST_F(SharedTimerPollerTest, ADrainLeavesItsTimersToAnotherLoop) {
  ManualTime time_of_other{kStart};
  const std::unique_ptr<SharedTimers> timers = make_timers(2);
  int fired = 0;
  SharedTimer timer = make_timer(*timers, fired);
  auto poller = std::make_unique<SharedTimerPoller>(*loop, timers->shard(0));
  timer.schedule(time.now() + 10ms);
  loop->turn();
  poller->drain();
  EXPECT_EQ(timer.look().state, SharedTimerState::migrating);
  EXPECT_EQ(loop->wheel().armed_count(), 0U);
  poller.reset();  // has drained already
  pass(1s);
  EXPECT_EQ(fired, 0);
  loop.reset();
  const std::unique_ptr<Loop> other = make_loop(time_of_other);
  const SharedTimerPoller serves(*other, timers->shard(1));
  time_of_other.advance(9ms);
  other->turn();
  EXPECT_EQ(timer.look().state, SharedTimerState::scheduled);
  EXPECT_EQ(fired, 0);
  time_of_other.advance(1ms);
  other->turn();
  EXPECT_EQ(fired, 1);
}

}  // namespace
}  // namespace pinion::test

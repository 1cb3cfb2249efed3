#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/snapshot.h>
#include <pinion/eventloop/when.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "loop_fixture.h"

/// Groups of tasks: which of them runs next, and what becomes of a group and its tasks.

namespace pinion {
namespace {

using namespace std::chrono_literals;

/// By how much a group may be ahead of another one, beside what its task does without asking.
constexpr double kLead = 25'000;

/// Who computed, in order, and how long.
struct Work {
  ManualTime& time;
  std::string order;
  std::array<double, 128> by = {};  // Nanoseconds, by letter.

  void compute(char who, Delay piece) {
    time.advance(piece);
    order += who;
    by[static_cast<std::size_t>(who)] += static_cast<double>(piece.count());
  }
  void forget() {
    order.clear();
    by = {};
  }
};

/// Computes in pieces until it is cancelled.
Task<> compute(Work& work, char who, Delay piece) {
  for (Wake wake = Wake::elapsed; wake == Wake::elapsed;) {
    work.compute(who, piece);
    wake = co_await yield();
  }
}

/// The same, but lets others run only when they wait.
Task<> compute_asking(Work& work, char who, Delay piece) {
  for (Wake wake = Wake::elapsed; wake == Wake::elapsed;) {
    work.compute(who, piece);
    wake = co_await maybe_yield();
  }
}

/// A wait that the test ends.
class Gate : public Wait {
 public:
  Gate() noexcept : Wait([](Wait& wait) noexcept { static_cast<Gate&>(wait).resume(); }) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    begin(frame);
  }
  void await_resume() const noexcept {}
  void open() noexcept { resume(); }
};

Task<> answer_twice(Gate& gate, Work& work) {
  for (int i = 0; i < 2; ++i) {
    co_await gate;
    work.compute('Q', 1us);
  }
}

/// A message that is there again whenever it has been handled.
struct EndlessMessage : Message {
  explicit EndlessMessage(Loop& where) noexcept : Message(&on_message), loop(where) {
    loop.post(*this);
  }
  static void on_message(Message& message) noexcept {
    EndlessMessage& self = static_cast<EndlessMessage&>(message);
    if (!self.over) self.loop.post(self);
  }
  Loop& loop;
  bool over = false;
};

class GroupTest : public test::ManualLoop {
 protected:
  ~GroupTest() override {
    if (loop == nullptr) return;
    end_tasks();
  }

  void end_tasks() {
    for (const TaskHandle& task : tasks_) task.cancel();
    for (const TaskHandle& task : tasks_) {
      while (!task.done()) loop->turn();
    }
    tasks_.clear();
  }

  void make_loop_with(LoopOptions options) {
    loop.reset();
    loop = test::make_loop(time, options);
  }

  TaskGroup make_group(const char* name, std::uint32_t shares = TaskGroup::kStandardShares) {
    Result<TaskGroup> group = loop->make_group(name, shares);
    EXPECT_TRUE(group.has_value());
    return group ? *group : TaskGroup();
  }

  TaskHandle spawn(Task<> task, TaskGroup group) {
    tasks_.push_back(loop->spawn(std::move(task), "test", group));
    return tasks_.back();
  }

  void turns_for(Delay duration) {
    for (const Instant end = time.now() + duration; time.now() < end;) loop->turn();
  }

  const GroupStats& stats_of(const std::string& name) {
    const auto& groups = loop->stats().groups;
    const auto* const found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.shares > 0 && group.name == name;
    });
    PINION_ASSERT(found != groups.end());
    return *found;
  }

  Work work_{time, {}};

 private:
  std::vector<TaskHandle> tasks_;
};

TEST_F(GroupTest, SharesAreRespectedHoweverManyTasksAGroupHas) {
  const TaskGroup small = make_group("small", 100);
  const TaskGroup large = make_group("large", 300);
  for (int i = 0; i < 50; ++i) spawn(compute(work_, 's', 10us), small);
  spawn(compute(work_, 'l', 7us), large);
  turns_for(20ms);
  EXPECT_NEAR(work_.by['s'], 5'000'000, kLead + 10'000);
  EXPECT_NEAR(work_.by['l'], 15'000'000, kLead + 10'000);
  EXPECT_EQ(stats_of("large").run_ns, static_cast<std::uint64_t>(work_.by['l']));
  large.set_shares(100);
  work_.forget();
  turns_for(20ms);
  EXPECT_NEAR(work_.by['s'], 10'000'000, kLead + 10'000);
}

/// Against the rule itself: nobody who is ready is behind anybody by more than a lead and a piece.
TEST_F(GroupTest, RandomGroupsStayWithinALeadAndAPieceOfEachOther) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("PINION_SEED=" + std::to_string(seed));
  Random random(seed);
  for (std::uint64_t round = 0; round < test::scaled(50); ++round) {
    make_loop_with({.ready_budget = random.between<std::size_t>(1, 20)});
    work_.forget();
    std::vector<double> shares;
    double longest = 0;
    for (char who = 'a'; who < static_cast<char>('a' + random.between(2, 6)); ++who) {
      const auto drawn = random.between<std::uint32_t>(1, 1'000);
      shares.push_back(drawn);
      const TaskGroup group = make_group("random", drawn);
      for (int tasks = random.between(1, 4); tasks > 0; --tasks) {
        const std::int64_t piece = random.between(1, 50'000);
        longest = std::max(longest, static_cast<double>(piece));
        const Delay delay = std::chrono::nanoseconds{piece};
        spawn(random.below(2) == 0 ? compute(work_, who, delay) : compute_asking(work_, who, delay),
              group);
      }
    }
    for (int turn = 0; turn < 300; ++turn) {
      loop->turn();
      for (std::size_t one = 0; one < shares.size(); ++one) {
        for (std::size_t other = 0; other < shares.size(); ++other) {
          const double behind = work_.by['a' + other] * shares[one] / shares[other];
          ASSERT_LE(work_.by['a' + one] - behind, kLead + longest + 300)
              << "of " << one << " before " << other << " in turn " << turn;
        }
      }
    }
    end_tasks();
  }
}

TEST_F(GroupTest, NobodyStarvesEvenOnAClockThatStandsStill) {
  make_loop_with({.ready_budget = 4});
  const TaskGroup small = make_group("small", 10);
  const TaskGroup large = make_group("large", 1'000);
  for (int i = 0; i < 4; ++i) spawn(compute(work_, 'l', 0s), large);
  spawn(compute(work_, 's', 0s), small);
  turns(1'000);
  const auto count = std::count(work_.order.begin(), work_.order.end(), 's');
  EXPECT_GE(count, 30);  // Each resumption counts as long: 1 of 101 of some 4,000.
  EXPECT_LE(count, 50);
}

TEST_F(GroupTest, TasksThatYieldForEverRunOncePerTurn) {
  const TaskGroup group = make_group("group");
  for (int i = 0; i < 3; ++i) spawn(compute(work_, 'a', 0s), group);
  for (int i = 0; i < 2; ++i) spawn(compute(work_, 'd', 0s), loop->default_group());
  turns(10);
  EXPECT_EQ(std::count(work_.order.begin(), work_.order.end(), 'a'), 30);
  EXPECT_EQ(std::count(work_.order.begin(), work_.order.end(), 'd'), 20);
}

/// After 2^40 ns of a single share, in resumptions that are charged with as much as one may be.
TEST_F(GroupTest, ShortResumptionsCountHoweverLongTheLoopHasRun) {
  make_loop_with({.ready_budget = 4});
  const TaskGroup old = make_group("old", 1);
  const TaskHandle computing = spawn(compute(work_, 'o', 100ms), old);
  while (work_.by['o'] <= 0x1p40) loop->turn();
  finish(computing);
  work_.forget();
  for (const char who : {'a', 'b'}) {
    const TaskGroup group = make_group("new", TaskGroup::kMostShares);
    for (int i = 0; i < 4; ++i) spawn(compute(work_, who, 0s), group);
  }
  turns(100);
  const auto count = std::count(work_.order.begin(), work_.order.end(), 'a');
  EXPECT_GE(count, 196);
  EXPECT_LE(count, 204);
  EXPECT_EQ(work_.order.size(), 400U);
}

TEST_F(GroupTest, AGroupThatWasIdleHasSavedUpNothing) {
  const TaskGroup busy = make_group("busy");
  const TaskGroup idle = make_group("idle");
  const auto doze = [&]() -> Task<> { co_await sleep_for(1s); };
  spawn(doze(), idle);
  spawn(compute(work_, 'b', 10us), busy);
  turns_for(900ms);
  work_.forget();
  spawn(compute(work_, 'i', 10us), idle);
  turns_for(2ms);
  EXPECT_NEAR(work_.by['i'], 1'000'000, kLead + 10'000);
  EXPECT_NEAR(work_.by['b'], 1'000'000, kLead + 10'000);
}

TEST_F(GroupTest, ANewGroupIsBehindNobodyNorAheadEvenInTheSamePlace) {
  make_loop_with({.ready_budget = 1});
  const TaskGroup busy = make_group("busy");
  const TaskGroup old = make_group("old");
  spawn(compute(work_, 'b', 10us), busy);
  const TaskHandle first = spawn(compute(work_, 'o', 10us), old);
  turns_for(100ms);
  finish(first);
  old.close();
  const TaskGroup fresh = make_group("fresh");
  work_.forget();
  spawn(compute(work_, 'f', 10us), fresh);
  turns_for(2ms);
  EXPECT_NEAR(work_.by['f'], 1'000'000, kLead + 10'000);
}

TEST_F(GroupTest, AProcessThatWasStoppedIsNotHeldAgainstWhoeverRanThen) {
  const TaskGroup unlucky = make_group("unlucky");
  const TaskGroup other = make_group("other");
  spawn(compute(work_, 'o', 10us), other);
  spawn(compute(work_, 'u', 10us), unlucky);
  turns_for(1ms);
  const auto stop = [&]() -> Task<> {
    time.advance(1h);
    co_return;
  };
  spawn(stop(), unlucky);
  turns_for(1h);
  work_.forget();
  turns_for(120ms);
  EXPECT_NEAR(work_.by['u'], 10'000'000, 100'000);  // Behind by the 100 ms that were charged.
}

/// What it wakes goes first, at the very next call, however many tasks of its own group are ready.
TEST_F(GroupTest, AtTheNextMaybeYieldAWokenGroupGoesFirst) {
  const TaskGroup batch = make_group("batch", 100);
  const TaskGroup quick = make_group("quick", 100);
  Gate gate;
  const TaskHandle answering = spawn(answer_twice(gate, work_), quick);
  loop->turn();
  const auto open_it = [&]() -> Task<> {
    for (int i = 0; i < 30; ++i) {
      work_.compute('x', 1us);
      if (i == 10 || i == 13) gate.open();
      if (i == 10 || i == 13) work_.order += '!';
      co_await maybe_yield();
    }
  };
  spawn(open_it(), batch);
  for (int i = 0; i < 3; ++i) spawn(compute_asking(work_, 'b', 1us), batch);
  turns(10);
  EXPECT_TRUE(answering.done());
  end_tasks();
  EXPECT_NE(work_.order.find("x!Q"), std::string::npos) << work_.order;
  EXPECT_NE(work_.order.find("x!Q", work_.order.find("x!Q") + 1), std::string::npos) << work_.order;
}

/// Also when something else makes the task yield, and the woken one has run in this turn already.
TEST_F(GroupTest, UnderEndlessArrivalsAWokenGroupGoesFirst) {
  const TaskGroup batch = make_group("batch", 100);
  const TaskGroup quick = make_group("quick", 100);
  Gate gate;
  const TaskHandle answering = spawn(answer_twice(gate, work_), quick);
  loop->turn();
  const auto open_once = [&]() -> Task<> {
    work_.compute('x', 1us);
    gate.open();
    work_.order += '!';
    co_await maybe_yield();
  };
  for (int i = 0; i < 2; ++i) spawn(open_once(), batch);
  for (int i = 0; i < 3; ++i) spawn(compute_asking(work_, 'b', 1us), batch);
  EndlessMessage message(*loop);
  turns(3);
  EXPECT_TRUE(answering.done());
  EXPECT_EQ(work_.order.substr(0, 6), "x!Qx!Q");
  message.over = true;
  end_tasks();
}

/// Timers and messages come first soon after the next call, too.
TEST_F(GroupTest, TheLoopSeesToWhatIsDueWithinALookAndAPiece) {
  const TaskGroup batch = make_group("batch", 100);
  const TaskGroup quick = make_group("quick", 100);
  std::vector<Instant> woken;
  const auto tick = [&]() -> Task<> {
    for (int i = 0; i < 20; ++i) {
      co_await sleep_for(1ms);
      woken.push_back(time.now());
      work_.order += 'Q';
    }
  };
  const TaskHandle ticking = spawn(tick(), quick);
  for (int i = 0; i < 50; ++i) spawn(compute_asking(work_, 'b', 10us), batch);
  Instant last = time.now();
  while (!ticking.done()) loop->turn();
  for (const Instant at : woken) {
    EXPECT_LE(at - last, 2ms + 25us + 20us);  // The wheel's tick, a look, a piece on either side.
    last = at;
  }
}

/// Each that asks has to yield then, but others go on for as long as those that never ask.
TEST_F(GroupTest, UnderEndlessArrivalsATurnRunsTasksForAsLongAsItRunsThoseThatNeverAsk) {
  const TaskGroup one = make_group("one");
  const TaskGroup other = make_group("other");
  for (int i = 0; i < 100; ++i) {
    spawn(compute_asking(work_, 'a', 200ns), one);
    spawn(compute_asking(work_, 'b', 200ns), other);
  }
  EndlessMessage message(*loop);
  for (int turn = 0; turn < 10; ++turn) {
    loop->turn();
    EXPECT_EQ(work_.order.size(), 125U) << "in turn " << turn;  // 25 us.
    EXPECT_NEAR(work_.by['a'], work_.by['b'], kLead) << "in turn " << turn;
    work_.forget();
  }
  message.over = true;
  turns(2);
}

TEST_F(GroupTest, TasksThatNeverAskHoldUpATurnForASliceAndAPiece) {
  const TaskGroup batch = make_group("batch");
  const TaskGroup quick = make_group("quick");
  for (int i = 0; i < 100; ++i) spawn(compute(work_, 'b', 90us), batch);
  loop->turn();
  EXPECT_EQ(work_.order, "bbb");  // Of 200 us.
  spawn(compute(work_, 'Q', 1us), quick);
  loop->turn();
  EXPECT_EQ(work_.order[3], 'Q');
}

TEST_F(GroupTest, ChildrenAndWhatATaskSpawnsAreInItsGroup) {
  const TaskGroup group = make_group("group");
  const auto child = [&]() -> Task<> { co_await sleep_for(1s); };
  const auto parent = [&]() -> Task<> {
    EXPECT_TRUE(loop->spawn(child(), "grandchild"));
    co_await when_all(child(), child());
  };
  spawn(parent(), group);
  loop->spawn(child(), "other");
  turns(2);
  EXPECT_EQ(stats_of("group").tasks_live, 4U);
  EXPECT_EQ(stats_of("default").tasks_live, 1U);
  EXPECT_EQ(stats_of("group").resumptions, 4U);
  EXPECT_EQ(stats_of("default").resumptions, 1U);
  pass(2s);
  EXPECT_EQ(stats_of("group").tasks_live, 0U);
  EXPECT_EQ(loop->stats().resumptions,
            stats_of("group").resumptions + stats_of("default").resumptions);
}

TEST_F(GroupTest, CancelEndsItsTasksAndTheirChildrenAndNoOthers) {
  const TaskGroup group = make_group("group");
  int cancelled_waits = 0;
  const auto child = [&]() -> Task<> {
    const Wake wake = co_await sleep_for(1h);
    cancelled_waits += wake == Wake::cancelled ? 1 : 0;
  };
  const auto parent = [&]() -> Task<> { co_await when_all(child(), child()); };
  spawn(parent(), group);
  spawn(child(), group);
  spawn(compute(work_, 'a', 0s), group);
  const TaskHandle other = spawn(child(), loop->default_group());
  turns(2);
  group.cancel();
  turns(3);
  EXPECT_EQ(stats_of("group").tasks_live, 0U);
  EXPECT_EQ(cancelled_waits, 3);
  EXPECT_FALSE(other.done());
  EXPECT_TRUE(spawn(compute(work_, 'b', 0s), group));  // It is there for new ones.
  loop->turn();
  EXPECT_EQ(work_.order.back(), 'b');
  end_tasks();
}

TEST_F(GroupTest, AClosedGroupKeepsItsSharesUntilItsLastTaskHasEnded) {
  const TaskGroup group = make_group("group", 300);
  const TaskGroup other = make_group("other", 100);
  spawn(compute(work_, 'o', 10us), other);
  const TaskHandle last = spawn(compute(work_, 'g', 10us), group);
  group.close();
  EXPECT_FALSE(group);
  turns_for(4ms);
  EXPECT_NEAR(work_.by['g'], 3'000'000, kLead + 10'000);
  EXPECT_EQ(stats_of("group").tasks_live, 1U);
  finish(last);
  const auto& groups = loop->stats().groups;
  EXPECT_EQ(std::count_if(groups.begin(), groups.end(), [](const auto& g) { return g.shares > 0; }),
            2);
  group.cancel();  // Of a group that has gone: nothing.
}

TEST_F(GroupTest, BeyondTheMostItIsRefusedAndPlacesAreUsedAgain) {
  std::vector<TaskGroup> groups;
  for (std::size_t i = 1; i < Loop::kMaxGroups; ++i) groups.push_back(make_group("one of many"));
  const Result<TaskGroup> more = loop->make_group("one more");
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, ErrorCode::resource_exhausted);
  for (const TaskGroup& group : groups) spawn(compute(work_, 'a', 1us), group);
  turns(3);
  groups[7].close();  // Its place is free when its task has ended.
  EXPECT_FALSE(loop->make_group("too early").has_value());
  end_tasks();
  const TaskGroup again = make_group("again");
  EXPECT_TRUE(again);
  EXPECT_NE(again, groups[7]);
  EXPECT_FALSE(groups[7]);
}

TEST_F(GroupTest, SharesThatAreNoneOrTooManyAreRefused) {
  EXPECT_EQ(loop->make_group("none", 0).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(loop->make_group("too many", TaskGroup::kMostShares + 1).error().code,
            ErrorCode::invalid_argument);
}

/// With the last group beside it closed, the default group goes on with what was left of the turn.
TEST_F(GroupTest, WhatATurnLeftIsRunWhenTheGroupsHaveGone) {
  make_loop_with({.ready_budget = 3});
  const TaskGroup group = make_group("group");
  std::string order;
  const auto note = [&](char what) -> Task<> {
    order += what;
    if (what == 'c') group.close();
    co_return;
  };
  for (const char what : {'a', 'b', 'c', 'd', 'e', 'f', 'g'}) {
    spawn(note(what), loop->default_group());
  }
  turns(3);
  EXPECT_EQ(order, "abcdefg");
}

/// Chains of calls are as long with groups as without.
TEST_F(GroupTest, CallsWithoutEndLetOtherGroupsRun) {
  const TaskGroup group = make_group("group");
  const auto leaf = []() -> Task<> { co_return; };
  const auto calls = [&]() -> Task<> {
    for (int i = 0; i < 1'000; ++i) {
      co_await leaf();
      work_.order += 'c';
    }
  };
  spawn(calls(), group);
  spawn(compute(work_, 'd', 0s), loop->default_group());
  turns(100);
  EXPECT_EQ(std::count(work_.order.begin(), work_.order.end(), 'c'), 1'000);
  EXPECT_LT(work_.order.find('d'), 100U);
}

TEST_F(GroupTest, ALoopEndsWithTheTasksOfItsGroups) {
  const TaskGroup group = make_group("group");
  const auto wait = []() -> Task<> { co_await sleep_for(1h); };
  const auto ignore = []() -> Task<> {
    for (;;) co_await yield();
  };
  for (int i = 0; i < 3; ++i) loop->spawn(wait(), "waiting", group);
  loop->spawn(ignore(), "ready", group);
  loop->spawn(ignore(), "ready", loop->default_group());
  turns(2);
  loop->spawn(wait(), "unstarted", group);
  group.close();
  loop.reset();
}

TEST_F(GroupTest, AnOverlongTurnBelongsToTheGroupOfWhatRanLast) {
  const TaskGroup slow = make_group("slow");
  make_group("quick");
  const auto compute_long = [&]() -> Task<> {
    time.advance(5ms);
    co_return;
  };
  loop->spawn(compute_long(), "long", slow);
  turns(2);
  EXPECT_EQ(stats_of("slow").overlong_turns, 1U);
  EXPECT_EQ(stats_of("quick").overlong_turns, 0U);
  LoopSnapshot snapshot;
  snapshot.take(*loop);
  EXPECT_NE(to_text(snapshot).find(
                "group     slow: 100 shares, 0 live, 1 resumptions, ran 5ms, 1 overlong"),
            std::string::npos)
      << to_text(snapshot);
}

/// A log line has no room for more. What is usual fits, with as many groups as there may be.
TEST_F(GroupTest, AReportIsBoundedAndHasAllGroups) {
  auto snapshot = std::make_unique<LoopSnapshot>();
  constexpr std::uint64_t kMany = 1'000'000'000'000;
  for (GroupStats& group : snapshot->loop.groups) {
    group = {.name = "a group with a long name that is cut", .shares = 10'000};
    group.tasks_live = 1'000'000;
    group.resumptions = group.run_ns = kMany;
    group.overlong_turns = 1'000'000;
  }
  const auto lines = [&](std::string_view title) {
    const std::string text = "\n" + to_text(*snapshot);
    EXPECT_LE(text.size(), LoopSnapshot::kMostText + 1);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(title, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (auto& phase : snapshot->loop.phases) phase.record(123'456);
  EXPECT_EQ(lines("\ngroup "), Loop::kMaxGroups);
  EXPECT_EQ(lines("group     a group with a long name: "), Loop::kMaxGroups);
  EXPECT_EQ(lines("left out"), 0U);

  const std::string name(500, 'n');
  for (auto& overlong : snapshot->loop.overlong_by_name) {
    overlong = {.last = {.kind = "task", .name = name.c_str()}, .count = kMany, .worst = 1s};
  }
  EXPECT_LT(lines("\noverlong "), 1 + LoopStats::kOverlongNames);
  EXPECT_EQ(lines("\nleft out "), 1U);
}

class GroupDeathTest : public GroupTest {
 protected:
  GroupDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static Task<> nothing() { co_return; }
};

TEST_F(GroupDeathTest, WrongUseIsRefused) {
  const TaskGroup group = make_group("group");
  EXPECT_DEATH(group.set_shares(0), "shares > 0");
  EXPECT_DEATH(loop->default_group().close(), "default_group");
  EXPECT_DEATH(loop->spawn(nothing(), "nothing", TaskGroup()), "group_is_open");
  const auto other = test::make_loop(time);
  EXPECT_DEATH(other->spawn(nothing(), "nothing", group), "queue.loop == this");
  group.close();
  EXPECT_DEATH(group.close(), "group_is_open");
  make_group("in its place");
  EXPECT_DEATH(loop->spawn(nothing(), "nothing", group), "group_is_open");
}

}  // namespace
}  // namespace pinion

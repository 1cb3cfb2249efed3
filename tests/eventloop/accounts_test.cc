#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"

/// What a loop notes about its turns: the times of their phases, and what made them long.

namespace pinion {
namespace {

using namespace std::chrono_literals;

class Accounts : public test::ManualLoop {};

/// Takes its time.
struct Slow : Message {
  Slow(ManualTime& clock, Delay how_long) : Message(&on_message), time(clock), takes(how_long) {}
  static void on_message(Message& message) noexcept {
    Slow& self = static_cast<Slow&>(message);
    self.time.advance(self.takes);
  }
  ManualTime& time;
  Delay takes;
};

Task<> take_time(ManualTime& clock, Delay each, int times) {
  for (int i = 0; i < times; ++i) {
    clock.advance(each);
    co_await yield();
  }
}

const CoarseHistogram& phase(const Loop& loop, Phase which) {
  return loop.stats().phases[static_cast<std::size_t>(which)];
}

TEST_F(Accounts, OneInSoManyTimesItsPhasesThatDoSomething) {
  constexpr int kTurns = 10 * LoopStats::kTurnsPerTimed;
  Slow message(time, 3us);
  loop->spawn(take_time(time, 500us, kTurns), "slow");
  for (int i = 0; i < kTurns; ++i) {
    loop->post(message);
    loop->turn();
  }
  for (const auto& [which, took] : {std::pair{Phase::messages, 3us}, {Phase::tasks, 500us}}) {
    EXPECT_EQ(phase(*loop, which).count(), 10U) << to_string(which);
    EXPECT_EQ(phase(*loop, which).min(), static_cast<std::uint64_t>(took / 1ns));
    EXPECT_EQ(phase(*loop, which).max(), static_cast<std::uint64_t>(took / 1ns));
  }
  for (const Phase which : {Phase::completions, Phase::pollers, Phase::timers, Phase::submit}) {
    EXPECT_EQ(phase(*loop, which).count(), 0U) << to_string(which);
  }
}

/// What alternates with the turns must not always fall between the timed ones.
TEST_F(Accounts, WhatIsTimedIsNotAlwaysTheSameOfTurnsThatAlternate) {
  constexpr int kTurns = 20 * LoopStats::kTurnsPerTimed;
  Slow message(time, 3us);
  for (int i = 0; i < kTurns; ++i) {
    if (i % 2 == 0) loop->post(message);
    loop->turn();
  }
  EXPECT_EQ(phase(*loop, Phase::messages).count(), 10U);
}

/// The counts by name, in the order of how long.
std::vector<std::pair<std::string, std::uint64_t>> overlong(const Loop& loop) {
  std::vector<OverlongTurns> used;
  for (const OverlongTurns& turns : loop.stats().overlong_by_name) {
    if (turns.count > 0) used.push_back(turns);
  }
  std::sort(used.begin(), used.end(),
            [](const auto& one, const auto& other) { return one.worst > other.worst; });
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (const OverlongTurns& turns : used) result.emplace_back(turns.last.name, turns.count);
  return result;
}

TEST_F(Accounts, OverlongOnesAreCountedByWhatRanLast) {
  loop->spawn(take_time(time, 4ms, 3), "slow");
  while (loop->turn() > 0) {
  }
  loop->spawn(take_time(time, 9ms, 1), "slower");
  loop->spawn(take_time(time, 100us, 5), "quick");
  turns(1);
  EXPECT_EQ(loop->stats().overlong_turns, 3U);  // That of the fourth ends with the next turn.
  while (loop->turn() > 0) {
  }
  // "quick" came last in that one.
  EXPECT_EQ(overlong(*loop),
            (std::vector<std::pair<std::string, std::uint64_t>>{{"quick", 1}, {"slow", 3}}));
}

TEST_F(Accounts, TheWorstOfMoreNamesThanThereIsRoomForAreKept) {
  constexpr std::array kNames = {"2", "3", "4", "5", "6", "7", "8", "9", "10", "11"};
  Delay takes = 2ms;
  for (const char* const name : kNames) {
    loop->spawn(take_time(time, takes, 1), name);
    while (loop->turn() > 0) {
    }
    takes = Delay{takes.to_nanoseconds() + 1ms};
  }
  loop->spawn(take_time(time, 1500us, 1), "the least");
  while (loop->turn() > 0) {
  }
  std::vector<std::pair<std::string, std::uint64_t>> expected;
  for (const char* const name : {"11", "10", "9", "8", "7", "6", "5", "4"}) {
    expected.emplace_back(name, 1);
  }
  EXPECT_EQ(overlong(*loop), expected);
  EXPECT_EQ(loop->stats().overlong_turns, kNames.size() + 1);
}

/// Has nothing to do, and takes its time over that.
class IdlePoller : public Poller {
 public:
  IdlePoller(ManualTime& clock, const char* name) : time_(clock), name_(name) {}
  std::size_t poll(Instant, std::size_t) override {
    time_.advance(takes);
    return did;
  }
  [[nodiscard]] const char* name() const override { return name_; }

  Delay takes;
  std::size_t did = 0;

 private:
  ManualTime& time_;
  const char* name_;
};

TEST_F(Accounts, AnIdlePollerIsNotTakenForWhatRanLast) {
  IdlePoller first(time, "first");
  IdlePoller second(time, "second");
  loop->add_poller(first);
  loop->add_poller(second);
  Slow message(time, 5ms);
  loop->post(message);
  turns(2);
  EXPECT_EQ(loop->stats().overlong_turns, 1U);
  EXPECT_STREQ(loop->stats().worst_turn_last.kind, "message");
  EXPECT_EQ(loop->stats().worst_turn_ran, 1U);
  EXPECT_STREQ(loop->running().kind, "message");

  first.takes = 9ms;
  first.did = 1;
  loop->turn();
  first.takes = {};
  first.did = 0;
  loop->turn();
  EXPECT_STREQ(loop->stats().worst_turn_last.kind, "first");
  EXPECT_EQ(loop->stats().worst_turn_last.code, static_cast<Poller*>(&first));
  loop->remove_poller(first);
  loop->remove_poller(second);
}

TEST_F(Accounts, WhileAPollerPollsItIsWhatRuns) {
  struct Looking : Poller {
    explicit Looking(Loop& owner) : loop(owner) {}
    std::size_t poll(Instant, std::size_t) override {
      seen = loop.running().kind;
      return 0;
    }
    [[nodiscard]] const char* name() const override { return "looking"; }
    Loop& loop;
    std::string seen;
  } poller(*loop);
  loop->add_poller(poller);
  loop->turn();
  EXPECT_EQ(poller.seen, "looking");
  EXPECT_STREQ(loop->running().kind, "nothing");
  loop->remove_poller(poller);
}

TEST_F(Accounts, ATurnThatDidNothingMayBeOverlongToo) {
  Slow message(time, Delay{});
  loop->post(message);
  loop->turn();
  IdlePoller poller(time, "slow and idle");
  loop->add_poller(poller);
  poller.takes = 3ms;
  loop->turn();
  poller.takes = {};
  loop->turn();
  EXPECT_EQ(loop->stats().overlong_turns, 1U);
  EXPECT_STREQ(loop->stats().worst_turn_last.kind, "slow and idle");

  IdlePoller other(time, "other");
  loop->add_poller(other);
  other.takes = 4ms;
  loop->turn();
  other.takes = {};
  loop->turn();
  EXPECT_EQ(loop->stats().overlong_turns, 2U);
  EXPECT_STREQ(loop->stats().worst_turn_last.kind, "idle pollers") << "one of them";
  loop->remove_poller(poller);
  loop->remove_poller(other);
}

TEST_F(Accounts, TimeBetweenTurnsIsNobodysWithoutPollers) {
  loop->turn();
  time.advance(1s);
  turns(2);
  EXPECT_EQ(loop->stats().overlong_turns, 0U);
}

}  // namespace
}  // namespace pinion

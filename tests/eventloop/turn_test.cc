#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"

/// The clock between and within turns, and the last look before a sleep.

namespace pinion {
namespace {

using namespace std::chrono_literals;

struct Noting : TimerEntry {
  explicit Noting(Loop& owner) : TimerEntry(&on_timer), loop(owner) {}
  static void on_timer(TimerEntry& entry) {
    Noting& self = static_cast<Noting&>(entry);
    self.fired_at = self.loop.now();
  }
  Loop& loop;
  std::optional<Instant> fired_at;
};

class Turn : public test::ManualLoop {};

TEST_F(Turn, WhatIsArmedBetweenTurnsAfterLongWorkIsNotEarly) {
  Noting first(*loop);
  Noting second(*loop);
  loop->arm_after(first, 1s);
  time.advance(3s);  // Setting up a device.
  loop->arm_after(second, 1s);
  loop->turn();
  EXPECT_TRUE(first.fired_at);
  EXPECT_FALSE(second.fired_at);
  pass(1s);
  ASSERT_TRUE(second.fired_at);
  EXPECT_GE(*second.fired_at, kStart + 4s);
}

TEST_F(Turn, L2_WhatIsArmedAfterLongWorkInOneResumptionIsNotEarly) {
  Noting first(*loop);
  Noting second(*loop);
  const auto work = [](ManualTime& clock, Noting& before, Noting& after) -> Task<> {
    before.loop.arm_after(before, 1s);
    clock.advance(300ms);
    after.loop.arm_after(after, 100ms);
    co_return;
  };
  loop->spawn(work(time, first, second));
  turns(2);
  EXPECT_FALSE(second.fired_at);
  pass(1s);
  ASSERT_TRUE(second.fired_at);
  EXPECT_GE(*second.fired_at, kStart + 400ms);
}

/// A loop that sleeps, on the real clock. A lost wake-up shows as a run that takes until its bound.
class Sleep : public ::testing::Test {
 protected:
  static constexpr Delay kBound = 10s;
  static LoopOptions options() {
    LoopOptions result;
    result.idle = IdlePolicy::park;
    return result;
  }
  template <class Predicate>
  bool comes_before_the_bound(Predicate done) {
    const Instant end = saturating_add(time.now(), kBound);
    return loop->run_until(done, kBound) && time.now() < end;
  }

  MonotonicTime time;
  std::unique_ptr<Loop> loop = test::make_loop(time, options());
};

struct Counting : Message {
  Counting() : Message(&on_message) {}
  static void on_message(Message& message) noexcept { ++static_cast<Counting&>(message).count; }
  int count = 0;
};

TEST_F(Sleep, APostWakesTheLoopAlthoughTheRingWasQuiesced) {
  const Result<> adopted = loop->adopt_thread();
  ASSERT_TRUE(adopted);
  ASSERT_TRUE(loop->ring().quiesce(1s));
  Counting message;
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    loop->post(message);
  });
  EXPECT_TRUE(comes_before_the_bound([&] { return message.count > 0; }));
  other.join();
}

/// Does something once, in its nth poll or in its nth preparation, and says that it was idle.
struct Quiet : Poller {
  std::size_t poll(Instant, std::size_t) override {
    if (++polls == act_in_poll) act();
    return 0;
  }
  ParkAnswer prepare_park() override {
    if (++prepared == act_in_preparation) act();
    return answer;
  }
  void cancel_park() override { ++cancelled; }

  std::function<void()> act;
  int act_in_poll = 0;
  int act_in_preparation = 0;
  ParkAnswer answer;
  int polls = 0;
  int prepared = 0;
  int cancelled = 0;
};

TEST_F(Sleep, WhatAPollerArmsInItsLastPollBeforeASleepIsNotSleptThrough) {
  Noting timer(*loop);
  Quiet poller;
  poller.act = [&] { loop->arm_after(timer, 5ms); };
  poller.act_in_poll = 2;  // The first is the turn's, the second the look before the sleep.
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return timer.fired_at.has_value(); }));
  loop->remove_poller(poller);
}

TEST_F(Sleep, WhatAPollerSpawnsWhilePreparingASleepIsNotSleptThrough) {
  bool ran = false;
  const auto task = [](bool& out) -> Task<> {
    out = true;
    co_return;
  };
  Quiet poller;
  poller.act = [&] { loop->spawn(task(ran)); };
  poller.act_in_preparation = 1;
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return ran; }));
  loop->remove_poller(poller);
}

TEST_F(Sleep, APollerMayWaitForAnotherDescriptorThanBefore) {
  const int first = eventfd(0, EFD_CLOEXEC);
  const int second = eventfd(0, EFD_CLOEXEC);
  Quiet poller;
  poller.answer = ParkAnswer::wait_for(first);
  loop->add_poller(poller);
  loop->run_until([] { return false; }, 5ms);
  poller.answer = ParkAnswer::wait_for(second);
  std::atomic<bool> written{false};
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    const std::uint64_t one = 1;
    written = true;
    EXPECT_EQ(write(second, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  });
  EXPECT_TRUE(comes_before_the_bound([&] { return written.load(); }));
  other.join();
  loop->remove_poller(poller);
  close(first);
  close(second);
}

TEST_F(Sleep, APollerIsToldOfTheEndOfASleepOnlyIfItPrepared) {
  struct Adding : Message {
    Adding(Loop& owner, Poller& late) : Message(&on_message), loop(owner), poller(late) {}
    static void on_message(Message& message) noexcept {
      Adding& self = static_cast<Adding&>(message);
      self.loop.add_poller(self.poller);
    }
    Loop& loop;
    Poller& poller;
  };
  Quiet late;
  Adding adding(*loop, late);
  Quiet poller;
  poller.act = [&] { loop->post(adding); };
  poller.act_in_preparation = 1;
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return late.polls > 0; }));
  EXPECT_EQ(late.prepared, late.cancelled);
  EXPECT_EQ(poller.prepared, poller.cancelled);
  loop->remove_poller(poller);
  loop->remove_poller(late);
}

struct Told : Drainable {
  void on_drain() override { ++drains; }
  void on_drain_expired() override { ++expirations; }
  [[nodiscard]] bool drained() const override { return false; }
  int drains = 0;
  int expirations = 0;
};

TEST_F(Turn, WhatIsAddedAfterADrainExpiredIsToldBoth) {
  Told early;
  loop->add_drainable(early);
  loop->begin_drain();
  pass(loop->options().drain_timeout, 100ms);
  EXPECT_EQ(early.expirations, 1);
  Told late;
  loop->add_drainable(late);
  EXPECT_EQ(late.drains, 1);
  EXPECT_EQ(late.expirations, 1);
  loop->remove_drainable(early);
  loop->remove_drainable(late);
}

TEST_F(Turn, AStopDuringRunUntilHoldsForTheRunThatFollows) {
  loop->stop();
  EXPECT_FALSE(loop->run_until([] { return false; }, 1h));
  EXPECT_FALSE(loop->run_until([] { return false; }, 1h));
  EXPECT_EQ(loop->run(), Ending::stopped);
  bool moved = false;
  const auto task = [](bool& out) -> Task<> {
    out = true;
    co_return;
  };
  loop->spawn(task(moved));
  EXPECT_TRUE(loop->run_until([&] { return moved; }, 1h));
}

}  // namespace
}  // namespace pinion

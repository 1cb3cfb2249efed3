#include <gtest/gtest.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"
#include "ring_wait.h"

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

// L2: what is armed after long work is not due already.
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

/// Who was called, in which order.
struct Diary {
  explicit Diary(Loop& loop) : message(*this), completion(*this), poller(*this), timer(*this) {
    loop.add_poller(poller);
  }

  struct Posted : Message {
    explicit Posted(Diary& owner) : Message(&on_message), diary(owner) {}
    static void on_message(Message& self) noexcept { static_cast<Posted&>(self).diary.text += 'm'; }
    Diary& diary;
  } message;
  struct Completed : Completion {
    explicit Completed(Diary& owner) : Completion(&on_done), diary(owner) {}
    static void on_done(Completion& self, std::int32_t, std::uint32_t) noexcept {
      static_cast<Completed&>(self).diary.text += 'c';
    }
    Diary& diary;
  } completion;
  struct Polled : Poller {
    explicit Polled(Diary& owner) : diary(owner) {}
    std::size_t poll(Instant, std::size_t) override {
      diary.text += 'p';
      return 1;
    }
    Diary& diary;
  } poller;
  struct Timed : TimerEntry {
    explicit Timed(Diary& owner) : TimerEntry(&on_timer), diary(owner) {}
    static void on_timer(TimerEntry& self) { static_cast<Timed&>(self).diary.text += 't'; }
    Diary& diary;
  } timer;

  std::string text;
};

TEST_F(Turn, MessagesCompletionsPollersAndTasksComeBeforeTimers) {
  const Result<> adopted = loop->adopt_thread();
  ASSERT_TRUE(adopted);
  Diary diary(*loop);
  const auto task = [](std::string& text) -> Task<> {
    text += 'r';
    co_return;
  };
  loop->arm_after(diary.timer, 1ms);
  loop->spawn(task(diary.text));
  io_uring_prep_nop(&loop->ring().get_sqe(diary.completion));
  loop->ring().submit();
  loop->post(diary.message);
  time.advance(2ms);
  loop->turn();
  EXPECT_EQ(diary.text, "mcprt");
  loop->remove_poller(diary.poller);
}

// L10: times beyond the wheel, stalls of hours, a clock that steps back.
TEST_F(Turn, L10_WhenTheClockStepsBackTheLoopsStandsStill) {
  loop->turn();
  time.set(saturating_add(kStart, -1s));
  turns(2);
  EXPECT_EQ(loop->now(), kStart);
  EXPECT_EQ(loop->fresh_now(), kStart);
  EXPECT_EQ(loop->stats().idle_ns, 0U);
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
    return polls == work_in_poll ? 1 : 0;
  }
  ParkAnswer prepare_park() override {
    if (++prepared == act_in_preparation) act();
    return answer;
  }
  void cancel_park() override { ++cancelled; }

  std::function<void()> act;
  int act_in_poll = 0;
  int work_in_poll = 0;
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

TEST_F(Sleep, WhatTheLastLookFindsIsNotSleptOn) {
  Quiet poller;
  poller.work_in_poll = 2;
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return poller.polls >= 2; }));
  loop->remove_poller(poller);
}

// L20: no message to a loop that parks at random moments is lost.
TEST_F(Sleep, L20_AMessageBehindTheLastLookRings) {
  Counting message;
  Quiet poller;
  poller.act = [&] { loop->post(message); };
  poller.act_in_poll = 2;  // In the last look, when the messages have been looked at.
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return message.count > 0; }));
  loop->remove_poller(poller);
}

// L21: wake-ups and stops during the start; a stop with reads and timers armed.
TEST_F(Sleep, L21_AStopBetweenTheTurnAndTheSleepIsNotSleptOn) {
  Quiet poller;
  poller.act = [&] { loop->stop(); };
  poller.act_in_poll = 1;
  loop->add_poller(poller);
  const Instant end = saturating_add(time.now(), kBound);
  loop->run_until([] { return false; }, kBound);
  EXPECT_LT(time.now(), end);
  loop->remove_poller(poller);
}

struct Done : Completion {
  Done() : Completion(&on_done) {}
  static void on_done(Completion& self, std::int32_t, std::uint32_t) {
    static_cast<Done&>(self).done = true;
  }
  bool done = false;
};

TEST_F(Sleep, WhatIsQueuedInATurnThatCallsItselfIdleIsSubmittedToo) {
  LoopOptions spinning = options();
  spinning.idle = IdlePolicy::spin;
  loop.reset();
  loop = test::make_loop(time, spinning);
  Done nop;
  Quiet poller;
  poller.act = [&] { io_uring_prep_nop(&loop->ring().get_sqe(nop)); };
  poller.act_in_poll = 3;
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return nop.done; }));
  loop->remove_poller(poller);
}

TEST_F(Sleep, WhatCompletesDuringTheLastLookIsNotSleptOn) {
  Done nop;
  Quiet poller;
  poller.act = [&] {
    io_uring_prep_nop(&loop->ring().get_sqe(nop));
    loop->ring().submit();
  };
  poller.act_in_preparation = 1;
  loop->add_poller(poller);
  EXPECT_TRUE(comes_before_the_bound([&] { return nop.done; }));
  EXPECT_EQ(loop->stats().parks, 0U);
  loop->remove_poller(poller);
}

/// As the kernel leaves it when the loop ran the work before the flag for it was set.
TEST_F(Sleep, L23_AFlagForWorkThatIsDoneKeepsNobodyAwake) {
  loop->run_until([] { return false; }, 5ms);
  const std::uint64_t before = loop->ring().stats().enters;
  __atomic_fetch_or(loop->ring().raw().sq.kflags, IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST);
  loop->run_until([] { return false; }, 20ms);
  EXPECT_LE(loop->ring().stats().enters - before, 3U);
}

// L24: a message makes no system call while the loop is awake, and one per sleep otherwise.
TEST_F(Sleep, L24_AMessageToALoopThatIsAwakeRingsNoDoorbell) {
  loop->run_until([] { return false; }, 5ms);
  EXPECT_GE(loop->stats().parks, 1U);
  Counting message;
  loop->post(message);
  EXPECT_TRUE(comes_before_the_bound([&] { return message.count > 0; }));
  loop->run_until([] { return false; }, 5ms);
  EXPECT_EQ(loop->stats().doorbells, 0U);
  EXPECT_EQ(loop->ring().stats().completions, 0U);
}

/// Of a poller that nothing announces. Each doubles, from some microseconds on.
class Doze : public Sleep {
 protected:
  void doze_at_most(Delay most) {
    LoopOptions dozing = options();
    dozing.doze_max = most;
    loop.reset();
    loop = test::make_loop(time, dozing);
    poller.answer = ParkAnswer::doze();
    loop->add_poller(poller);
  }
  void work_in_every_eighth_poll_from(int first) {
    doze_at_most(1h);
    poller.act = [this] {
      poller.work_in_poll = poller.polls;
      poller.act_in_poll += 8;
    };
    poller.act_in_poll = first;
  }
  void TearDown() override { loop->remove_poller(poller); }

  Quiet poller;
};

TEST_F(Doze, GrowsUpToItsBound) {
  doze_at_most(1ms);
  EXPECT_TRUE(comes_before_the_bound([&] { return loop->stats().dozes == 64; }));
  EXPECT_GE(loop->stats().parked_ns, 50'000'000U);
}

TEST_F(Doze, BeginsAnewAfterWorkInATurn) {
  work_in_every_eighth_poll_from(7);
  EXPECT_TRUE(comes_before_the_bound([&] { return loop->stats().dozes == 64; }));
}

TEST_F(Doze, BeginsAnewAfterWorkInTheLastLook) {
  work_in_every_eighth_poll_from(8);
  EXPECT_TRUE(comes_before_the_bound([&] { return loop->stats().dozes == 64; }));
}

TEST_F(Sleep, TheBoundOfARunDoesNotOutliveIt) {
  std::uint64_t parks = 0;
  for (int run = 0; run < 2; ++run) {
    loop->run_until([] { return false; }, 5ms);
    EXPECT_GT(loop->stats().parks, parks);
    parks = loop->stats().parks;
  }
}

TEST_F(Sleep, ASleepThatATimerEndsIsCountedAsThat) {
  Noting timer(*loop);
  loop->arm_after(timer, 5ms);
  EXPECT_TRUE(comes_before_the_bound([&] { return timer.fired_at.has_value(); }));
  EXPECT_GE(loop->stats().wakes_by_timer, 1U);
  EXPECT_EQ(loop->stats().wakes_by_completion, 0U);
}

TEST_F(Sleep, ATaskThatDiesReadyKeepsNobodyAwake) {
  LoopOptions slow = options();
  slow.ready_budget = 1;
  loop.reset();
  loop = test::make_loop(time, slow);
  int started = 0;
  const auto start = [](int& count) -> Task<> {
    ++count;
    co_return;
  };
  for (int i = 0; i < 3; ++i) loop->spawn(start(started));
  EXPECT_TRUE(comes_before_the_bound([&] { return started == 3; }));
  for (int i = 0; i < 3; ++i) loop->spawn(start(started));  // In the places of the others.
  loop->stop();
  EXPECT_EQ(loop->run(), Ending::stopped);
  EXPECT_EQ(started, 4);
  const std::uint64_t parks = loop->stats().parks;
  loop->run_until([] { return false; }, 5ms);
  EXPECT_GT(loop->stats().parks, parks);
}

TEST_F(Sleep, APollerMayWaitForAnotherDescriptorThanBefore) {
  const int first = eventfd(0, EFD_CLOEXEC);
  const int second = eventfd(0, EFD_CLOEXEC);
  Quiet poller;
  poller.answer = ParkAnswer::wait_for(first);
  loop->add_poller(poller);
  loop->run_until([] { return false; }, 5ms);
  poller.answer = ParkAnswer::wait_for(second);
  loop->run_until([] { return false; }, 5ms);
  // The doorbell and the poll of the second; that of the first has been cancelled.
  EXPECT_TRUE(comes_before_the_bound([&] { return loop->ring().in_flight() == 2; }));
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

/// Reads again and again; each time it has, it lets `next` fire.
Task<> read_again(int fd, TimerEntry& next, int& rounds) {
  std::array<std::byte, 8> buffer;
  for (;;) {
    const int got = co_await test::ReadAwaiter(fd, buffer.data(), buffer.size());
    if (got <= 0) co_return;
    ++rounds;
    Loop::current().arm_after(next, 1ms);
  }
}

struct Writing : TimerEntry {
  explicit Writing(int to) : TimerEntry(&on_timer), fd(to) {}
  static void on_timer(TimerEntry& entry) {
    EXPECT_EQ(write(static_cast<Writing&>(entry).fd, "x", 1), 1);
  }
  int fd;
};

/// One for what the write brings, one that submits the next read and sleeps until the timer.
TEST_F(Sleep, ASleepSubmitsWhatTheTurnBeforeItQueued) {
  constexpr int kRounds = 50;
  const test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  Writing writing(pair.ends[1]);
  int rounds = 0;
  loop->spawn(read_again(pair.ends[0], writing, rounds));
  loop->arm_after(writing, 1ms);
  ASSERT_TRUE(comes_before_the_bound([&] { return rounds == kRounds; }));
  EXPECT_GE(loop->ring().stats().enters, std::uint64_t{kRounds});
  EXPECT_LE(loop->ring().stats().enters, std::uint64_t{2 * kRounds + 10});
}

/// The kernel's work on what a sleep submits counts as sleep: it is a few operations at most.
TEST_F(Sleep, ManyOperationsAreSubmittedBeforeTheSleep) {
  const test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  const auto ignore = [](Completion&, std::int32_t, std::uint32_t) {};
  // Beside the sleeps, how often the ring is entered to sleep with so many operations queued.
  const auto submissions = [&](std::size_t operations) {
    bool fired = false;
    struct Alarm : TimerEntry {
      explicit Alarm(bool& flag) : TimerEntry(&on_timer), done(flag) {}
      static void on_timer(TimerEntry& entry) { static_cast<Alarm&>(entry).done = true; }
      bool& done;
    } alarm(fired);
    std::deque<Completion> idle;
    for (std::size_t i = 0; i < operations; ++i) {
      io_uring_prep_poll_add(&loop->ring().get_sqe(idle.emplace_back(ignore)), pair.ends[0],
                             POLLIN);
    }
    const auto entered = [&] { return loop->ring().stats().enters - loop->stats().parks; };
    const std::uint64_t before = entered();
    loop->arm_after(alarm, 100ms);  // Far enough for the loop to get to its sleep.
    EXPECT_TRUE(comes_before_the_bound([&] { return fired; }));
    const std::uint64_t beside_sleeps = entered() - before;
    loop->ring().quiesce(1s);
    return beside_sleeps;
  };
  EXPECT_EQ(submissions(4), 0U);
  EXPECT_EQ(submissions(5), 1U);
}

/// A loop that always has something to do still submits, as does one that a poller keeps awake.
TEST_F(Sleep, ALoopThatDoesNotSleepSubmitsToo) {
  const test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  Writing writing(pair.ends[1]);
  Quiet poller;
  poller.answer = ParkAnswer::refuse();
  loop->add_poller(poller);
  int rounds = 0;
  loop->spawn(read_again(pair.ends[0], writing, rounds));
  loop->arm_after(writing, 1ms);
  EXPECT_TRUE(comes_before_the_bound([&] { return rounds == 3; }));
  loop->remove_poller(poller);
  const auto yielding = [](const int& until) -> Task<> {
    while (until < 6) co_await yield();
  };
  const std::uint64_t called_off = loop->stats().failed_parks;
  const TaskHandle task = loop->spawn(yielding(rounds));
  EXPECT_TRUE(comes_before_the_bound([&] { return rounds == 6; }));
  EXPECT_EQ(loop->stats().failed_parks, called_off);  // It knew before that it can't sleep.
  EXPECT_TRUE(comes_before_the_bound([&] { return task.done(); }));
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

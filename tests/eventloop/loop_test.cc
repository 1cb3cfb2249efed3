#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"
#include "ring_wait.h"

namespace pinion {
namespace {

using namespace std::chrono_literals;

class LoopTest : public test::ManualLoop {};

struct Counting : Message {
  Counting() : Message(&on_message) {}
  static void on_message(Message& message) noexcept { ++static_cast<Counting&>(message).count; }
  int count = 0;
};

struct Firing : TimerEntry {
  Firing() : TimerEntry(&on_timer) {}
  static void on_timer(TimerEntry& entry) { static_cast<Firing&>(entry).fired = true; }
  bool fired = false;
};

TEST_F(LoopTest, EachPhaseOfATurnHasItsBudget) {
  LoopOptions options;
  options.message_budget = 10;
  options.completion_budget = 20;
  options.ready_budget = 30;
  options.timer_budget = 40;
  loop.reset();
  loop = test::make_loop(time, options);
  std::deque<Counting> messages(100);
  for (Counting& message : messages) loop->post(message);
  std::deque<Firing> timers(100);
  for (Firing& timer : timers) loop->arm_after(timer, 1ms);
  const auto noop = []() -> Task<> { co_return; };
  for (int i = 0; i < 100; ++i) loop->spawn(noop());
  struct Done : Completion {
    Done() : Completion(&on_done) {}
    static void on_done(Completion& self, std::int32_t, std::uint32_t) noexcept {
      ++static_cast<Done&>(self).count;
    }
    int count = 0;
  } done;
  for (int i = 0; i < 100; ++i) io_uring_prep_nop(&loop->ring().get_sqe(done));
  const Result<> adopted = loop->adopt_thread();
  ASSERT_TRUE(adopted);
  loop->ring().submit();
  time.advance(2ms);
  loop->turn();
  const LoopStats& stats = loop->stats();
  EXPECT_EQ(stats.messages, 10U);
  EXPECT_EQ(stats.completions, 20U);
  EXPECT_EQ(stats.resumptions, 30U);
  EXPECT_EQ(stats.timers_fired, 40U);
  turns(9);
  EXPECT_EQ(stats.messages, 100U);
  EXPECT_EQ(done.count, 100);
  EXPECT_EQ(stats.resumptions, 100U);
  EXPECT_EQ(stats.timers_fired, 100U);
}

// L5: a flood of messages, or of timers on one tick, holds up nothing else.
TEST_F(LoopTest, L5_AHerdOfTimersOnOneTickLeavesRoomForMessages) {
  std::vector<std::unique_ptr<Firing>> timers;
  for (int i = 0; i < 100'000; ++i) {
    timers.push_back(std::make_unique<Firing>());
    loop->arm_after(*timers.back(), 10ms);
  }
  Counting message;
  time.advance(10ms);
  loop->turn();
  loop->post(message);
  loop->turn();
  EXPECT_EQ(message.count, 1);
  EXPECT_LE(loop->stats().timers_fired, 2 * loop->options().timer_budget);
  while (loop->turn() > 0) {
  }
  EXPECT_EQ(loop->stats().timers_fired, 100'000U);
}

// L5: a flood of messages, or of timers on one tick, holds up nothing else.
TEST_F(LoopTest, L5_PeersThatFloodTheLoopMakeATimerLateByATurnAtMost) {
  static constexpr std::chrono::microseconds kWork = 10us;
  struct Peer : Message {
    Peer(Loop& owner, ManualTime& its_clock)
        : Message(&on_message), loop(owner), clock(its_clock) {}
    static void on_message(Message& message) {
      Peer& self = static_cast<Peer&>(message);
      self.clock.advance(kWork);
      if (!self.enough) self.loop.post(self);
    }
    Loop& loop;
    ManualTime& clock;
    bool enough = false;
  };
  struct Periodic : TimerEntry {
    explicit Periodic(Loop& owner) : TimerEntry(&on_timer), loop(owner) { again(); }
    void again() {
      due = saturating_add(loop.fresh_now(), 10ms);
      loop.wheel().arm(*this, due);
    }
    static void on_timer(TimerEntry& entry) {
      Periodic& self = static_cast<Periodic&>(entry);
      self.worst = std::max(self.worst, saturating_sub(self.loop.fresh_now(), self.due));
      ++self.fired;
      self.again();
    }
    Loop& loop;
    Instant due;
    Delay worst{};
    int fired = 0;
  };
  std::deque<Peer> peers;
  for (int i = 0; i < 64; ++i) loop->post(peers.emplace_back(*loop, time));
  Periodic timer(*loop);
  while (timer.fired < 100) loop->turn();
  // A tick that the deadline is rounded up to, and the messages of two turns.
  const auto messages = static_cast<std::int64_t>(loop->options().message_budget);
  EXPECT_LE(timer.worst, Delay{1ms + 2 * messages * kWork});
  for (Peer& peer : peers) peer.enough = true;
  loop->turn();
}

struct FakePoller : Poller {
  std::size_t poll(Instant, std::size_t budget) override {
    ++polls;
    last_budget = budget;
    const std::size_t done = std::min(budget, work);
    work -= done;
    return done;
  }
  ParkAnswer prepare_park() override {
    ++prepared;
    return answer;
  }
  void cancel_park() override { ++cancelled; }
  const char* name() const override { return "fake"; }

  ParkAnswer answer;
  std::size_t work = 0;
  std::size_t last_budget = 0;
  int polls = 0;
  int prepared = 0;
  int cancelled = 0;
};

TEST_F(LoopTest, PollersAreAskedOncePerTurnWithinTheirBudget) {
  FakePoller poller;
  loop->add_poller(poller);
  poller.work = 300;
  EXPECT_EQ(loop->turn(), 256U);
  EXPECT_EQ(loop->turn(), 44U);
  EXPECT_EQ(loop->turn(), 0U);
  EXPECT_EQ(poller.polls, 3);
  EXPECT_EQ(poller.last_budget, 256U);
  FakePoller behind;
  loop->add_poller(behind);
  loop->remove_poller(poller);
  loop->turn();
  EXPECT_EQ(poller.polls, 3);
  EXPECT_EQ(behind.polls, 1);
  loop->remove_poller(behind);
}

/// A loop that sleeps, on the real clock.
class ParkingLoop : public ::testing::Test {
 protected:
  static LoopOptions options() {
    LoopOptions result;
    result.idle = IdlePolicy::park;
    return result;
  }
  void run_for(Delay duration) {
    loop->run_until([] { return false; }, duration);
  }

  MonotonicTime time;
  std::unique_ptr<Loop> loop = test::make_loop(time, options());
};

TEST_F(ParkingLoop, APollersDescriptorEndsASleep) {
  FakePoller poller;
  const int fd = eventfd(0, EFD_CLOEXEC);
  poller.answer = ParkAnswer::wait_for(fd);
  loop->add_poller(poller);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    const std::uint64_t one = 1;
    ASSERT_EQ(write(fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  });
  EXPECT_TRUE(loop->run_until([&] { return poller.polls > 4; }, 10s));
  other.join();
  EXPECT_GE(loop->stats().wakes_by_completion, 1U);
  EXPECT_EQ(poller.prepared, poller.cancelled);
  loop->remove_poller(poller);
  close(fd);
}

TEST_F(ParkingLoop, APollerWithoutDescriptorIsPolledBetweenShortSleeps) {
  FakePoller poller;
  poller.answer = ParkAnswer::doze();
  loop->add_poller(poller);
  run_for(50ms);
  EXPECT_GE(loop->stats().dozes, 10U);
  EXPECT_GE(poller.polls, 20);
  EXPECT_GT(loop->stats().parked_ns, 10'000'000U);
  loop->remove_poller(poller);
}

TEST_F(ParkingLoop, APollerThatRefusesKeepsTheLoopAwakeAndIsCounted) {
  FakePoller poller;
  poller.answer = ParkAnswer::refuse();
  loop->add_poller(poller);
  run_for(5ms);
  EXPECT_EQ(loop->stats().parks, 0U);
  EXPECT_GE(loop->stats().failed_parks, 1U);
  EXPECT_EQ(poller.prepared, poller.cancelled);
  loop->remove_poller(poller);
}

Task<> read_for_ever(int fd, int& cancelled) {
  std::array<std::byte, 64> buffer;
  const int result = co_await test::ReadAwaiter(fd, buffer.data(), buffer.size());
  if (result == -ECANCELED) ++cancelled;
}

Task<> sleep_for_ever(int& cancelled) {
  const Wake wake = co_await sleep_for(24h);
  if (wake == Wake::cancelled) ++cancelled;
}

// L21: wake-ups and stops during the start; a stop with reads and timers armed.
TEST_F(ParkingLoop, L21_StopWithReadsAndTimersArmedEndsEveryTask) {
  constexpr int kReads = 1000;
  constexpr int kTimers = 3000;
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  int reads = 0;
  int sleeps = 0;
  for (int i = 0; i < kReads; ++i) loop->spawn(read_for_ever(pair.ends[0], reads));
  for (int i = 0; i < kTimers; ++i) loop->spawn(sleep_for_ever(sleeps));
  const auto all_wait = [&] { return loop->stats().resumptions >= kReads + kTimers; };
  EXPECT_TRUE(loop->run_until(all_wait, 10s));
  EXPECT_EQ(loop->stats().tasks_live, 4000U);
  loop->stop();
  EXPECT_EQ(loop->run(), Ending::stopped);
  EXPECT_EQ(reads, kReads);
  EXPECT_EQ(sleeps, kTimers);
  EXPECT_EQ(loop->stats().tasks_live, 0U);
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
}

// L21: wake-ups and stops during the start; a stop with reads and timers armed.
TEST_F(ParkingLoop, L21_ALoopThatDiesEndsItsTasksFirst) {
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  int reads = 0;
  int sleeps = 0;
  for (int i = 0; i < 100; ++i) {
    loop->spawn(read_for_ever(pair.ends[0], reads));
    loop->spawn(sleep_for_ever(sleeps));
  }
  EXPECT_TRUE(loop->run_until([&] { return loop->stats().resumptions >= 200; }, 10s));
  loop.reset();
  EXPECT_EQ(reads, 100);
  EXPECT_EQ(sleeps, 100);
}

/// A member of a task's frame that tells when it dies.
struct Witness {
  explicit Witness(bool& flag) : gone(flag) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { gone = true; }
  bool& gone;
};

Task<> stubborn(bool& gone, int fd) {
  const Witness witness(gone);
  std::array<std::byte, 64> buffer;
  // Cancelled or not, it goes on.
  for (;;) static_cast<void>(co_await test::ReadAwaiter(fd, buffer.data(), buffer.size()));
}

TEST_F(ParkingLoop, ATaskThatIgnoresItsCancellationIsDestroyedAtTheBound) {
  LoopOptions impatient = options();
  impatient.wind_down = 20ms;
  loop.reset();
  loop = test::make_loop(time, impatient);
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  bool gone = false;
  loop->spawn(stubborn(gone, pair.ends[0]));
  run_for(5ms);
  EXPECT_FALSE(gone);
  loop->stop();
  loop->run();
  EXPECT_TRUE(gone);
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
  // Nothing of it is left for the task in its place.
  int ended = 0;
  loop->spawn(sleep_for_ever(ended)).cancel();
  EXPECT_TRUE(loop->run_until([&] { return ended == 1; }, 10s));
}

Task<> sleeps_again(bool& gone) {
  const Witness witness(gone);
  for (;;) static_cast<void>(co_await sleep_for(1ms));
}

/// A clock that is set by hand stands while the loop ends, wherever it was when the loop saw it
/// last, and whether its turns sleep or not.
TEST(WindingDown, EndsOnAClockThatStands) {
  for (const IdlePolicy idle : {IdlePolicy::spin, IdlePolicy::park}) {
    for (const Delay since_last_turn : {0ms, 1ms}) {
      ManualTime time(Instant{1h});
      LoopOptions options;
      options.idle = idle;
      options.wind_down = 5ms;
      std::unique_ptr<Loop> loop = test::make_loop(time, options);
      bool gone = false;
      loop->spawn(sleeps_again(gone));
      for (int turn = 0; turn < 5; ++turn) loop->turn();
      time.set(time.now() + since_last_turn);
      loop.reset();
      EXPECT_TRUE(gone);
    }
  }
}

/// Counts its orders; drained when told so.
struct FakeDrainable : Drainable {
  void on_drain() override {
    ++drains;
    if (at_once) empty = true;
  }
  void on_drain_expired() override {
    ++expirations;
    if (on_expiry) empty = true;
  }
  [[nodiscard]] bool drained() const override { return empty; }
  bool at_once = false;
  bool on_expiry = false;
  bool empty = false;
  int drains = 0;
  int expirations = 0;
};

TEST_F(ParkingLoop, ADrainEndsWhenEverybodyHasFinished) {
  FakeDrainable quick;
  FakeDrainable slow;
  quick.at_once = true;
  loop->add_drainable(quick);
  loop->add_drainable(slow);
  const auto finish = [](FakeDrainable& out, Loop& on) -> Task<> {
    co_await sleep_for(10ms);
    EXPECT_TRUE(on.draining());
    out.empty = true;
  };
  loop->spawn(finish(slow, *loop));
  loop->request_drain();
  loop->request_drain();
  EXPECT_EQ(loop->run(), Ending::drained);
  EXPECT_EQ(slow.drains, 1);
  EXPECT_EQ(slow.expirations, 0);
  loop->remove_drainable(quick);
  loop->remove_drainable(slow);
}

TEST_F(ParkingLoop, ADrainThatLastsTooLongExpiresAndThenGivesUp) {
  LoopOptions impatient = options();
  impatient.drain_timeout = 10ms;
  impatient.wind_down = 10ms;
  for (const bool obeys : {true, false}) {
    loop.reset();
    loop = test::make_loop(time, impatient);
    FakeDrainable drainable;
    drainable.on_expiry = obeys;
    loop->add_drainable(drainable);
    loop->request_drain();
    EXPECT_EQ(loop->run(), Ending::drain_expired);
    EXPECT_EQ(drainable.expirations, 1);
    loop->remove_drainable(drainable);
  }
}

TEST_F(LoopTest, WhatIsAddedWhileDrainingIsToldAtOnce) {
  loop->begin_drain();
  FakeDrainable late;
  loop->add_drainable(late);
  EXPECT_EQ(late.drains, 1);
  loop->remove_drainable(late);
}

enum class Use : std::uint8_t { spawn, cancel, submission_mode, poller, group, shares, close };

/// Uses a loop that has a thread from another one.
void use_from_elsewhere(Use how) {
  ManualTime time{Instant{1h}};
  const auto loop = test::make_loop(time);
  loop->turn();
  const auto forever = []() -> Task<> { co_await sleep_for(1h); };
  const TaskHandle task = loop->spawn(forever());
  const TaskGroup group = loop->make_group("group").value();
  struct Idle : Poller {
    std::size_t poll(Instant, std::size_t) override { return 0; }
  } poller;
  std::thread([&] {
    switch (how) {
      case Use::spawn:
        return static_cast<void>(loop->spawn(forever()));
      case Use::cancel:
        return task.cancel();
      case Use::submission_mode:
        return loop->set_submission_mode(SubmissionMode::low_latency);
      case Use::poller:
        return loop->add_poller(poller);
      case Use::group:
        return static_cast<void>(loop->make_group("other"));
      case Use::shares:
        return group.set_shares(7);
      case Use::close:
        return group.close();
    }
  }).join();
}

TEST(LoopDeathTest, IsUsedByItsThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Use how : {Use::spawn, Use::cancel, Use::submission_mode, Use::poller, Use::group,
                        Use::shares, Use::close}) {
    EXPECT_DEATH(use_from_elsewhere(how), "on_the_loops_thread") << static_cast<int>(how);
  }
}

TEST_F(LoopTest, ADelayOutOfRangeIsRefused) {
  const auto refused = [this](const LoopOptions& options, const char* name) {
    const auto made = Loop::create(options, time);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(made.error().what.find(name), std::string::npos) << to_string(made.error());
    EXPECT_NE(made.error().hint.find(name), std::string::npos) << to_string(made.error());
  };
  refused({.overlong_turn = -1ns}, "overlong_turn");
  refused({.spin_max = -1ns}, "spin_max");
  refused({.doze_max = -1ns}, "doze_max");
  refused({.task_slice = -1ns}, "task_slice");
  refused({.drain_timeout = -1ns}, "drain_timeout");
  refused({.wind_down = -1ns}, "wind_down");
  EXPECT_TRUE(Loop::create({.overlong_turn = Delay{},
                            .doze_max = Delay{},
                            .task_slice = Delay{},
                            .drain_timeout = kNoTimeout,
                            .wind_down = Delay{}},
                           time));
}

TEST_F(LoopTest, ABudgetOfZeroIsRefused) {
  LoopOptions options;
  options.timer_budget = 0;
  const auto refused = Loop::create(options, time);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "timer_budget is 0");
}

TEST_F(LoopTest, AMessageMayBePostedAgainFromItsHandlerWithoutStarvingTheTurn) {
  struct Again : Message {
    explicit Again(Loop& owner) : Message(&on_message), loop(owner) {}
    static void on_message(Message& message) noexcept {
      Again& self = static_cast<Again&>(message);
      if (++self.count < 1000) self.loop.post(self);
    }
    Loop& loop;
    int count = 0;
  } again(*loop);
  loop->post(again);
  loop->turn();
  EXPECT_LE(again.count, 256);
  turns(4);
  EXPECT_EQ(again.count, 1000);
}

}  // namespace
}  // namespace pinion

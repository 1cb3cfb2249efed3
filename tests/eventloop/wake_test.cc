#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>

#include "loop_fixture.h"

/// Waking a loop from other threads. A lost wake-up shows as a run that takes until its bound.

namespace pinion {
namespace {

using namespace std::chrono_literals;

LoopOptions with_policy(IdlePolicy policy) {
  LoopOptions options;
  options.idle = policy;
  return options;
}

/// A second is usual; machines that others use may take a hundred times as long.
Delay bound() {
  return std::chrono::seconds{test::scaled(200)};
}

/// A message that counts how often it was handled, and lets its sender wait for it.
struct Counted : Message {
  explicit Counted(std::uint64_t& count) : Message(&on_message), total(count) {}
  static void on_message(Message& message) noexcept {
    Counted& self = static_cast<Counted&>(message);
    ++self.total;
    self.free.store(true, std::memory_order_release);
  }
  std::uint64_t& total;
  std::atomic<bool> free{true};
};

/// Posts `count` messages, with pauses so that the loop parks now and then; fewer when `given_up`.
void send(Loop& loop, std::vector<std::unique_ptr<Counted>>& messages, std::uint64_t count,
          Random& random, const std::atomic<bool>& given_up) {
  for (std::uint64_t sent = 0; sent < count;) {
    Counted& message = *messages[random.below(messages.size())];
    if (!message.free.load(std::memory_order_acquire)) {
      if (given_up.load(std::memory_order_relaxed)) return;
      std::this_thread::yield();
      continue;
    }
    message.free.store(false, std::memory_order_relaxed);
    loop.post(message);
    ++sent;
    if (random.chance(0.001)) std::this_thread::sleep_for(100us);
  }
}

std::vector<std::unique_ptr<Counted>> make_messages(std::uint64_t& total) {
  std::vector<std::unique_ptr<Counted>> messages;
  for (int i = 0; i < 64; ++i) messages.push_back(std::make_unique<Counted>(total));
  return messages;
}

class Wakes : public ::testing::TestWithParam<IdlePolicy> {};

INSTANTIATE_TEST_SUITE_P(Idle, Wakes,
                         ::testing::Values(IdlePolicy::spin, IdlePolicy::adaptive,
                                           IdlePolicy::park),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// L20: no message to a loop that parks at random moments is lost.
// L24: a message makes no system call while the loop is awake, and one per sleep otherwise.
TEST_P(Wakes, L20_NoMessageToALoopThatParksAtRandomMomentsIsLost) {
  const std::uint64_t per_thread = test::scaled(50'000);
  MonotonicTime time;
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  std::uint64_t received = 0;
  std::atomic<bool> given_up{false};
  // Each sender has messages of its own. One has a ring, so that both doorbells are used.
  auto with_ring = make_messages(received);
  auto without_ring = make_messages(received);
  std::thread first([&] {
    Random random(test::seed());
    send(*loop, without_ring, per_thread, random, given_up);
  });
  std::thread second([&] {
    Random random(test::seed() + 1);
    const auto own = test::make_loop(time);
    const Result<> adopted = own->adopt_thread();
    ASSERT_TRUE(adopted);
    send(*loop, with_ring, per_thread, random, given_up);
    while (own->turn() > 0) {
    }
  });
  EXPECT_TRUE(loop->run_until([&] { return received == 2 * per_thread; }, bound()));
  given_up.store(true, std::memory_order_relaxed);
  first.join();
  second.join();
  const LoopStats& stats = loop->stats();
  EXPECT_EQ(stats.messages, 2 * per_thread);
  // L24: no doorbell for a loop that is awake, at most one per announced sleep.
  EXPECT_LE(stats.doorbells, stats.parks + stats.failed_parks);
  EXPECT_TRUE(GetParam() != IdlePolicy::spin || stats.doorbells == 0) << stats.doorbells;
}

// A kernel without messages between rings: every doorbell is the eventfd.
TEST(WakesByEventfd, L20_WithoutMessagesBetweenRingsNoWakeUpIsLost) {
  const std::uint64_t count = test::scaled(20'000);
  MonotonicTime time;
  LoopOptions options = with_policy(IdlePolicy::park);
  options.ring.masked = {RingFeature::message};
  const auto loop = test::make_loop(time, options);
  std::uint64_t received = 0;
  std::atomic<bool> given_up{false};
  auto messages = make_messages(received);
  std::thread sender([&] {
    Random random(test::seed());
    const auto own = test::make_loop(time, options);
    const Result<> adopted = own->adopt_thread();
    ASSERT_TRUE(adopted);
    send(*loop, messages, count, random, given_up);
    EXPECT_EQ(own->ring().stats().submitted, 0U);
  });
  EXPECT_TRUE(loop->run_until([&] { return received == count; }, bound()));
  given_up.store(true, std::memory_order_relaxed);
  sender.join();
  EXPECT_GT(loop->stats().doorbells, 0U);
}

// L8: another thread arms an earlier timer in a parked loop.
TEST_P(Wakes, L8_AnotherThreadArmsAnEarlierTimerInAParkedLoop) {
  struct Arming : Message {
    Arming(Loop& owner, TimerEntry& timer) : Message(&on_message), loop(owner), entry(timer) {}
    static void on_message(Message& message) noexcept {
      Arming& self = static_cast<Arming&>(message);
      self.armed_at = MonotonicTime().now();
      self.loop.arm_after(self.entry, 20ms);
    }
    Loop& loop;
    TimerEntry& entry;
    Instant armed_at{};
  };
  struct Noting : TimerEntry {
    Noting() : TimerEntry(&on_timer) {}
    static void on_timer(TimerEntry& entry) {
      static_cast<Noting&>(entry).fired_at = MonotonicTime().now();
    }
    std::optional<Instant> fired_at;
  };
  MonotonicTime time;
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  Noting far;
  Noting near;
  Arming arming(*loop, near);
  loop->arm_after(far, 10s);
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);  // Time to park; without it the case is only easier.
    loop->post(arming);
  });
  EXPECT_TRUE(loop->run_until([&] { return near.fired_at.has_value(); }, 5s));
  other.join();
  EXPECT_GE(saturating_sub(near.fired_at.value_or(kNever), arming.armed_at), Delay{20ms});
  EXPECT_FALSE(far.fired_at);
}

// L22: waker and loop on the same CPU.
TEST_P(Wakes, L22_WakerAndLoopOnTheSameCpu) {
  // A loop that spins gives its CPU away only at the end of its time slice.
  const std::uint64_t rounds = GetParam() == IdlePolicy::spin ? 50 : 1000;
  MonotonicTime time;
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  cpu_set_t before;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
  std::uint64_t received = 0;
  std::thread waker([&] {  // It inherits the CPU.
    Counted message(received);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      message.free.store(false, std::memory_order_relaxed);
      loop->post(message);
      while (!message.free.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    loop->stop();
  });
  EXPECT_EQ(loop->run(), Ending::stopped);
  waker.join();
  EXPECT_EQ(received, rounds);
  EXPECT_TRUE(GetParam() != IdlePolicy::park || loop->stats().wakes_by_message > 0);
  pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
}

// L21: wake-ups and stops during the start; a stop with reads and timers armed.
TEST_P(Wakes, L21_AWakeUpOrAStopDuringTheStartIsNotLost) {
  MonotonicTime time;
  for (int i = 0; i < 200; ++i) {
    const auto loop = test::make_loop(time, with_policy(GetParam()));
    std::uint64_t received = 0;
    Counted message(received);
    std::thread other([&] {
      loop->post(message);
      loop->stop();
    });
    EXPECT_EQ(loop->run(), Ending::stopped);
    other.join();
    EXPECT_EQ(received, 1U);
  }
}

TEST_P(Wakes, ALoopMadeOnOneThreadRunsOnAnother) {
  MonotonicTime time;
  const auto loop = test::make_loop(time, with_policy(GetParam()));
  int woke = 0;
  const auto sleeper = [](Loop& on, int& out) -> Task<> {
    for (; out < 3; ++out) co_await sleep_for(1ms);
    on.stop();
  };
  loop->spawn(sleeper(*loop, woke));
  std::thread runner([&] { EXPECT_EQ(loop->run(), Ending::stopped); });
  runner.join();
  EXPECT_EQ(woke, 3);
}

}  // namespace
}  // namespace pinion

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include <pinion/eventloop/loop.h>
#include <pinion/timers/time_source.h>

#include "loop_fixture.h"

/// Signals whose handlers run on the loop's thread while it sleeps.

namespace pinion {
namespace {

using namespace std::chrono_literals;

std::atomic<int> handled{0};

/// Counts a signal while it lives.
class Handler {
 public:
  static constexpr int kSignal = SIGUSR2;

  explicit Handler(int flags) {
    handled = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { handled.fetch_add(1, std::memory_order_relaxed); };
    action.sa_flags = flags;
    sigaction(kSignal, &action, &before_);
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
  ~Handler() { sigaction(kSignal, &before_, nullptr); }

 private:
  struct sigaction before_{};
};

class Signals : public ::testing::TestWithParam<int> {
 protected:
  static LoopOptions options() {
    LoopOptions result;
    result.idle = IdlePolicy::park;
    return result;
  }

  MonotonicTime time;
  std::unique_ptr<Loop> loop = test::make_loop(time, options());
};

INSTANTIATE_TEST_SUITE_P(Flags, Signals, ::testing::Values(0, SA_RESTART), [](const auto& test) {
  return std::string(test.param == 0 ? "Interrupting" : "Restarting");
});

struct Noting : TimerEntry {
  Noting() : TimerEntry(&on_timer) {}
  static void on_timer(TimerEntry& entry) {
    static_cast<Noting&>(entry).fired_at = MonotonicTime().now();
  }
  Instant fired_at = kNever;
};

struct Counting : Message {
  Counting() : Message(&on_message) {}
  static void on_message(Message& message) noexcept {
    static_cast<Counting&>(message).count.fetch_add(1, std::memory_order_release);
  }
  std::atomic<int> count{0};
};

TEST_P(Signals, ATimerIsNeitherEarlyNorLostForThem) {
  const Handler handler(GetParam());
  Noting timer;
  const pthread_t self = pthread_self();
  std::atomic<bool> enough{false};
  const Instant due = saturating_add(time.now(), 300ms);
  loop->wheel().arm(timer, due);
  std::thread sender([&] {
    while (!enough) {
      pthread_kill(self, Handler::kSignal);
      std::this_thread::sleep_for(2ms);
    }
  });
  EXPECT_TRUE(loop->run_until([&] { return timer.fired_at != kNever; }, 10s));
  enough = true;
  sender.join();
  EXPECT_GE(timer.fired_at, due);
  EXPECT_GT(handled, 0);
  // Each of them ended a sleep, or came when there was none.
  EXPECT_GT(loop->stats().wakes_by_signal, 0U);
  EXPECT_LE(loop->stats().wakes_by_signal, static_cast<std::uint64_t>(handled));
  EXPECT_EQ(loop->stats().wakes_by_completion, 0U);
}

TEST_P(Signals, NoWakeUpIsLostBesideThem) {
  const Handler handler(GetParam());
  const pthread_t self = pthread_self();
  constexpr int kRounds = 1000;
  Counting message;
  std::thread sender([&] {
    for (int i = 0; i < kRounds; ++i) {
      if (i % 2 == 0) pthread_kill(self, Handler::kSignal);
      loop->post(message);
      if (i % 2 != 0) pthread_kill(self, Handler::kSignal);
      while (message.count.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      if (i % 100 == 0) std::this_thread::sleep_for(1ms);  // Time to sleep; without it, easier.
    }
  });
  // One that is lost shows as a run that takes until its bound.
  EXPECT_TRUE(loop->run_until([&] { return message.count == kRounds; }, 30s));
  sender.join();
  EXPECT_GT(handled, 0);
}

}  // namespace
}  // namespace pinion

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_world.h"

// Sockets and timers that flood one loop: neither holds the other up. The bounds are generous: a
// starved phase doesn't come late, it doesn't come.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr Delay kGenerous = 1s;

Task<> echo(Stream stream) {
  while (auto chunk = co_await stream.read(20s)) {
    if (!co_await stream.write(std::move(*chunk), 20s)) break;
  }
}

class KernelLoad : public testing::Test {
 protected:
  /// A stream whose peer echoes.
  Task<> open(Stream& client) {
    const Endpoint peer = listener->local();
    auto connected = co_await world.transport().connect(peer, 5s);
    CO_ASSERT_TRUE(connected);
    auto accepted = co_await listener->accept();
    CO_ASSERT_TRUE(accepted);
    client = std::move(*connected);
    world.loop().spawn(echo(std::move(*accepted)));
  }

  void wait_for(const TaskHandle& task) {
    ASSERT_TRUE(world.loop().run_until([&task] { return task.done(); }, 60s));
  }

  /// Sends and reads back until `enough`, and counts.
  Task<> ping(Stream stream, const bool& enough) {
    const std::vector<std::byte> data = pattern(4096, 1);
    while (!enough) {
      if (!co_await stream.write(data, 20s)) co_return;
      for (std::size_t got = 0; got < data.size();) {
        const auto chunk = co_await stream.read(20s);
        CO_ASSERT_TRUE(chunk);
        got += chunk->size();
      }
      ++pings;
    }
  }

  KernelWorld world;
  Result<Listener> listener = world.transport().listen(world.any_port());
  std::uint64_t pings = 0;
};

// L1: a sleep ends in time though traffic never stops.
// L5: 64 peers flood the loop, and the lateness of a 10 ms timer stays bounded.
TEST_F(KernelLoad, L1_L5_SixtyFourPeersThatFloodTheLoopHoldUpNoTimer) {
  ASSERT_TRUE(listener);
  bool enough = false;
  std::vector<TaskHandle> peers;
  for (int i = 0; i < 64; ++i) {
    Stream client;
    wait_for(world.loop().spawn(open(client)));
    peers.push_back(world.loop().spawn(ping(std::move(client), enough)));
  }
  Delay worst{};
  const auto tick = [&]() -> Task<> {
    for (int i = 0; i < 50; ++i) {
      const Instant due = saturating_add(MonotonicTime().now(), 10ms);
      co_await sleep_for(10ms);
      const Instant woke = MonotonicTime().now();
      EXPECT_GE(woke, due);
      worst = std::max(worst, saturating_sub(woke, due));
    }
  };
  wait_for(world.loop().spawn(tick()));
  EXPECT_LT(worst, kGenerous);
  EXPECT_GT(pings, 50U);
  enough = true;
  for (const TaskHandle& peer : peers) wait_for(peer);
}

// L5: 100,000 timers due at once don't stop I/O.
TEST_F(KernelLoad, L5_AHundredThousandTimersDueAtOnceDontStopIo) {
  ASSERT_TRUE(listener);
  constexpr std::size_t kTimers = 100'000;
  struct Counts {
    std::size_t fired = 0;
    std::uint64_t pings_at_first = 0;
    std::uint64_t pings_at_last = 0;
  } counts;
  struct Herd : TimerEntry {
    Herd(Counts& its_counts, const std::uint64_t& its_pings)
        : TimerEntry(&on_timer), counts(its_counts), pings(its_pings) {}
    static void on_timer(TimerEntry& entry) {
      const Herd& self = static_cast<Herd&>(entry);
      if (self.counts.fired++ == 0) self.counts.pings_at_first = self.pings;
      if (self.counts.fired == kTimers) self.counts.pings_at_last = self.pings;
    }
    Counts& counts;
    const std::uint64_t& pings;
  };
  bool enough = false;
  Stream client;
  wait_for(world.loop().spawn(open(client)));
  const TaskHandle pinging = world.loop().spawn(ping(std::move(client), enough));
  std::deque<Herd> herd;
  const Instant due = saturating_add(world.loop().fresh_now(), 200ms);
  for (std::size_t i = 0; i < kTimers; ++i)
    world.loop().wheel().arm(herd.emplace_back(counts, pings), due);
  EXPECT_TRUE(world.loop().run_until([&] { return counts.fired == kTimers; }, 30s));
  // A ping takes two turns or three, and the budget spreads the herd over a hundred.
  EXPECT_GE(counts.pings_at_last - counts.pings_at_first,
            kTimers / world.loop().options().timer_budget / 10);
  enough = true;
  wait_for(pinging);
}

// L6: a callback that arms itself with no delay: sockets still progress.
TEST_F(KernelLoad, L6_ATimerThatRearmsItselfWithNoDelayLeavesRoomForSockets) {
  ASSERT_TRUE(listener);
  struct Rearming : TimerEntry {
    explicit Rearming(Loop& owner) : TimerEntry(&on_timer), loop(owner) {}
    static void on_timer(TimerEntry& entry) {
      Rearming& self = static_cast<Rearming&>(entry);
      ++self.fired;
      self.loop.arm_after(self, 0s);
    }
    Loop& loop;
    std::uint64_t fired = 0;
  };
  std::deque<Rearming> timers;
  for (int i = 0; i < 100; ++i) {
    world.loop().arm_after(timers.emplace_back(world.loop()), 0s);
  }
  bool enough = false;
  Stream client;
  wait_for(world.loop().spawn(open(client)));
  const TaskHandle pinging = world.loop().spawn(ping(std::move(client), enough));
  EXPECT_TRUE(world.loop().run_until([&] { return pings >= 1000; }, 60s));
  EXPECT_GT(timers.front().fired, 10U);
  enough = true;
  wait_for(pinging);
  for (Rearming& timer : timers) world.loop().wheel().cancel(timer);
}

}  // namespace
}  // namespace pinion::test

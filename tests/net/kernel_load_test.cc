#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_world.h"
#include "plain_socket.h"

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
        if (!chunk) co_return;
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
  EXPECT_TRUE(
      world.loop().run_until([&] { return pings >= 1000 && timers.front().fired > 10; }, 60s));
  enough = true;
  wait_for(pinging);
  for (Rearming& timer : timers) world.loop().wheel().cancel(timer);
}

// L13: ten times more writes time out in one tick than the submission queue holds.
TEST(KernelLoadOfWrites, L13_MoreWritesTimeOutInOneTickThanTheQueueHolds) {
  constexpr unsigned kQueue = 4;
  constexpr std::size_t kConnections = 10 * kQueue;
  LoopOptions options;
  options.ring.submission_entries = kQueue;
  KernelWorld world({}, options);
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener);
  const std::vector<std::byte> too_much(64'000'000);
  std::vector<Stream> streams;
  std::vector<PlainSocket> peers;  // They don't read.
  const auto accept = [&]() -> Task<> {
    while (streams.size() < kConnections) {
      auto accepted = co_await listener->accept();
      CO_ASSERT_TRUE(accepted);
      streams.push_back(std::move(*accepted));
    }
  };
  const TaskHandle accepting = world.loop().spawn(accept());
  for (std::size_t i = 0; i < kConnections; ++i) {
    peers.push_back(PlainSocket::connect_to(listener->local().port));
  }
  ASSERT_TRUE(world.loop().run_until([&] { return accepting.done(); }, 20s));
  const Instant deadline = saturating_add(world.loop().fresh_now(), 300ms);
  std::vector<std::string> endings;
  const auto send = [&](Stream& stream) -> Task<> {
    stream.set_deadline(deadline);
    const auto written = co_await stream.write(too_much);
    endings.push_back(outcome(written));
  };
  for (Stream& stream : streams) world.loop().spawn(send(stream));
  EXPECT_TRUE(world.loop().run_until([&] { return endings.size() == kConnections; }, 20s));
  EXPECT_EQ(endings, std::vector<std::string>(kConnections, "deadline_exceeded"));
}

// L16: a completion queue of 16 entries, and clients that were there before anybody accepted.
TEST(KernelLoadOfClients, L16_ABurstOfClientsOverflowsNoSmallCompletionQueue) {
  constexpr std::size_t kClients = 500;
  LoopOptions options;
  options.ring.submission_entries = 8;
  options.ring.completion_entries = 16;
  KernelWorld world({}, options);
  auto listener = world.transport().listen(world.any_port(), {.backlog = 1000});
  ASSERT_TRUE(listener);
  std::vector<PlainSocket> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(PlainSocket::connect_to(listener->local().port));
    ASSERT_TRUE(clients.back().send("x"));
  }
  std::size_t answered = 0;
  const auto serve = [&](Stream stream) -> Task<> {
    const auto read = co_await stream.read(20s);
    if (read && read->text() == "x") ++answered;
  };
  const auto accept = [&]() -> Task<> {
    while (auto accepted = co_await listener->accept()) {
      world.loop().spawn(serve(std::move(*accepted)));
    }
  };
  const TaskHandle accepting = world.loop().spawn(accept());
  EXPECT_TRUE(world.loop().run_until([&] { return answered == kClients; }, 30s));
  EXPECT_GT(world.loop().ring().stats().overflows, 0U);
  listener->close();
  EXPECT_TRUE(world.loop().run_until([&] { return accepting.done(); }, 5s));
}

// L21: stop() with reads, writes and an accept armed, in the middle of a flood.
TEST_F(KernelLoad, L21_AStopInAFloodEndsEverything) {
  ASSERT_TRUE(listener);
  const bool never = false;
  for (int i = 0; i < 100; ++i) {
    Stream client;
    wait_for(world.loop().spawn(open(client)));
    world.loop().spawn(ping(std::move(client), never));
  }
  const auto accept = [this]() -> Task<> {
    while (co_await listener->accept()) {
    }
  };
  world.loop().spawn(accept());
  EXPECT_TRUE(world.loop().run_until([&] { return pings > 1000; }, 60s));
  world.loop().stop();
  EXPECT_EQ(world.loop().run(), Ending::stopped);
  EXPECT_EQ(world.loop().stats().tasks_live, 0U);
  EXPECT_EQ(world.transport().stats().open, 0U);
}

}  // namespace
}  // namespace pinion::test

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/test/seed.h>

#include "echo_thread.h"
#include "kernel_world.h"
#include "malloc_counter.h"

// What connections cost: no allocation once warm, no wake-up while nothing is due.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

Task<> serve(Stream stream) {
  stream.set_keepalive({.idle = 60s, .interval = 10s, .probes = 3});
  while (auto chunk = co_await stream.read(30s)) {
    if (!co_await stream.write(std::move(*chunk), 10s)) break;
  }
}

Task<> ask(Stream& stream, std::uint64_t requests) {
  for (std::uint64_t i = 0; i < requests; ++i) {
    if (!co_await stream.write(bytes_of("0123456789abcdef"), 10s)) break;
    std::size_t got = 0;
    while (got < 16) {
      const auto chunk = co_await stream.read(10s);
      CO_ASSERT_TRUE(chunk);
      got += chunk->size();
    }
  }
}

Task<> accept_all(Loop& loop, Listener& listener) {
  while (auto stream = co_await listener.accept()) loop.spawn(serve(std::move(*stream)));
}

/// `count` connections, one after the other, each asks and closes.
Task<> come_and_go(Transport& transport, Endpoint peer, std::uint64_t count,
                   std::uint64_t requests) {
  for (std::uint64_t i = 0; i < count; ++i) {
    auto stream = co_await transport.connect(peer, 5s);
    CO_ASSERT_TRUE(stream);
    co_await ask(*stream, requests);
  }
}

TEST(KernelCost, NoAllocationPerRequestOrConnectionOnceWarm) {
  if (!malloc_is_counted()) GTEST_SKIP() << "the sanitizer owns malloc";
  KernelWorld world;
  Loop& loop = world.loop();
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  loop.spawn(accept_all(loop, *listener));
  const auto go = [&](std::uint64_t count, std::uint64_t requests) {
    TaskHandle going =
        loop.spawn(come_and_go(world.transport(), listener->local(), count, requests));
    EXPECT_TRUE(loop.run_until([&going] { return going.done(); }, 120s));
  };
  go(50, 20);
  const std::uint64_t before = mallocs();
  ASSERT_GT(before, 0U);
  go(1, 100'000);
  EXPECT_EQ(mallocs() - before, 0U) << "per request";
  go(2'000, 1);
  EXPECT_EQ(mallocs() - before, 0U) << "per connection";
}

// L23: 1000 idle connections with 3 timers each: under 0.1 % CPU, no wake-up while nothing is due.
TEST(KernelCost, L23IdleConnectionsWakeNobody) {
  constexpr std::size_t kConnections = 1000;
  EchoOptions options;
  options.keepalive = {.idle = 60s, .interval = 10s, .probes = 3};
  options.writes_spans = true;
  EchoThread server(options);
  std::vector<PlainSocket> clients;
  for (std::size_t i = 0; i < kConnections; ++i) {
    clients.push_back(PlainSocket::connect_to(server.port()));
    ASSERT_TRUE(clients.back().open());
  }
  // Read, write and keepalive timers of each are armed.
  for (PlainSocket& client : clients) ASSERT_TRUE(client.send("x"));
  for (PlainSocket& client : clients) ASSERT_EQ(client.receive(1), "x");
  struct Sample {
    std::uint64_t wakes = 0;
    std::uint64_t by_timer = 0;
    std::uint64_t events = 0;
    std::size_t armed = 0;
  };
  const auto sample = [&server] {
    Sample now;
    server.on_loop([&now](Loop& loop, KernelTransport&) {
      const LoopStats& stats = loop.stats();
      now.by_timer = stats.wakes_by_timer;
      now.wakes = stats.wakes_by_timer + stats.wakes_by_completion + stats.wakes_by_signal;
      now.events = loop.wheel().stats().events;
      now.armed = loop.wheel().armed_count();
    });
    return now;
  };
  std::this_thread::sleep_for(200ms);
  const Sample before = sample();
  const auto used_before = server.cpu_time();
  std::this_thread::sleep_for(3s);
  const auto used = server.cpu_time() - used_before;
  const Sample after = sample();
  EXPECT_GE(before.armed, 3 * kConnections);
  // Only the wheel's own events, which move entries down as their time comes nearer.
  EXPECT_LE(after.wakes - before.wakes, after.events - before.events + 2);
  EXPECT_LT(used, 3ms) << "0.1 % of 3 s";
}

}  // namespace
}  // namespace pinion::test

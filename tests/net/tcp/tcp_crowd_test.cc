#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include <gtest/gtest.h>
#include <pinion/test/seed.h>

#include "linked_hosts.h"

/// Timers of more connections than the tx queue holds packets, all due at once.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint16_t kPort = 7;
constexpr std::size_t kConnections = 5'000;
/// What is done between two turns: less than half a tx queue.
constexpr std::size_t kAtOnce = 250;
static_assert(kConnections > 4 * InterfaceOptions{}.tx_queue);

/// Counts what it is told.
class CrowdEnd final : public TcpObserver {
 public:
  void on_connected(TcpHandle, Instant) noexcept override {}
  void on_readable(TcpHandle, Instant) noexcept override {}
  void on_writable(TcpHandle, Instant) noexcept override {}
  void on_read_deadline(TcpHandle, Instant) noexcept override {}
  void on_write_deadline(TcpHandle, Instant) noexcept override {}
  void on_closed(TcpHandle, TcpEnd, Instant) noexcept override { ++closed; }

  std::size_t closed = 0;
};

LinkedHostsOptions options() {
  LinkedHostsOptions options;
  options.link = {.queue_packets = 16'384, .capacity_packets = 32'768};
  options.config.max_connections = kConnections;
  options.pool = {.packets = 32'768, .views = 1'024};
  options.seed = seed();
  return options;
}

/// Connections from host 0 to host 1.
class TcpCrowd : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto listening =
        world.tcp(1).listen({LinkedHosts::address(1, false), kPort}, {.backlog = 1'000}, nullptr);
    ASSERT_TRUE(listening);
    for (std::size_t i = 0; i < kConnections; ++i) {
      const auto made = world.tcp(0).connect({.remote = {LinkedHosts::address(1, false), kPort}},
                                             &client_end, world.now());
      ASSERT_TRUE(made);
      clients.push_back(*made);
      pause(i);
      while (const TcpHandle server = world.tcp(1).accept(*listening, &server_end)) {
        servers.push_back(server);
      }
    }
    world.run_for(milliseconds{100});
    while (const TcpHandle server = world.tcp(1).accept(*listening, &server_end)) {
      servers.push_back(server);
    }
    ASSERT_EQ(servers.size(), kConnections);
  }

  /// Lets what was sent go out, of every kAtOnce. The first finds the way.
  void pause(std::size_t i) {
    if (i % kAtOnce == 0) world.run_for({});
  }

  [[nodiscard]] std::uint64_t dropped(int host) {
    return world.host(host).ip().counters().tx_queue_full;
  }

  CrowdEnd client_end;
  CrowdEnd server_end;
  LinkedHosts world{options()};
  std::deque<TcpHandle> clients;
  std::deque<TcpHandle> servers;
};

TEST_F(TcpCrowd, DelayedAcknowledgementsThatAreDueAtOnceAllGoOut) {
  const std::array byte{std::byte{1}};
  for (std::size_t i = 0; i < kConnections; ++i) {
    ASSERT_EQ(world.tcp(0).write(clients[i], byte, world.now()).bytes, 1U);
    pause(i);
  }
  world.run_for(milliseconds{190});  // Before any timeout.
  EXPECT_GE(world.tcp(1).stats().delayed_acks, kConnections);
  EXPECT_EQ(dropped(1), 0U);
  for (const TcpHandle client : clients) {
    ASSERT_EQ(world.tcp(0).info(client)->unacknowledged, 0U);
  }
  EXPECT_EQ(world.tcp(0).stats().retransmitted_segments, 0U);
}

// Otherwise those whose probe was lost here would be taken for dead.
TEST_F(TcpCrowd, KeepaliveProbesThatAreDueAtOnceEndNothing) {
  for (const TcpHandle server : servers) {
    world.tcp(1).set_keepalive(
        server, {.idle = seconds{5}, .interval = milliseconds{100}, .probes = 1}, world.now());
  }
  world.run_for(seconds{60});
  EXPECT_GE(world.tcp(1).stats().keepalive_probes, 9 * kConnections);
  EXPECT_EQ(dropped(0) + dropped(1), 0U);
  EXPECT_EQ(server_end.closed, 0U);
  EXPECT_EQ(world.tcp(1).stats().keepalive_timeouts, 0U);
}

TEST_F(TcpCrowd, RetransmissionsThatAreDueAtOnceAllGoOut) {
  const std::array byte{std::byte{1}};
  for (std::size_t i = 0; i < kConnections; ++i) {
    ASSERT_EQ(world.tcp(0).write(clients[i], byte, world.now()).bytes, 1U);
    // Nothing of it arrives.
    if (i % kAtOnce == 0 || i + 1 == kConnections) world.lose_what_waits(0);
  }
  world.run_for(milliseconds{500});
  EXPECT_EQ(dropped(0), 0U);
  EXPECT_EQ(world.tcp(0).stats().retransmitted_segments, kConnections);
  for (const TcpHandle client : clients) {
    ASSERT_EQ(world.tcp(0).info(client)->unacknowledged, 0U);
  }
}

}  // namespace
}  // namespace pinion::test

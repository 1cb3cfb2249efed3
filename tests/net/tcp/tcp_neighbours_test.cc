#include <array>
#include <chrono>
#include <cstddef>

#include <gtest/gtest.h>

#include "linked_hosts.h"
#include "two_hosts.h"

/// Connections and what the IP layer forgets beneath them.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint16_t kPort = 7;

class TcpNeighbours : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto listener = world.tcp(1).listen({server_address, kPort}, {}, nullptr);
    ASSERT_TRUE(listener);
    const auto made =
        world.tcp(0).connect({.remote = {server_address, kPort}}, &client, world.now());
    ASSERT_TRUE(made);
    client.handle = *made;
    const auto accepted = [&] {
      if (!server.handle) server.handle = world.tcp(1).accept(*listener, &server);
      return bool{server.handle};
    };
    ASSERT_TRUE(world.run_until(accepted, seconds{1}));
  }

  static LinkedHostsOptions options() {
    LinkedHostsOptions options;
    options.link.delay = Delay(milliseconds{1});
    options.ip.neighbours.capacity = 2;
    return options;
  }

  [[nodiscard]] bool server_knows_client() {
    return world.host(1).ip().neighbours().state(0, client_address, world.now()).has_value();
  }

  /// Host 1 speaks to two others, one of whom isn't there, and has no place for a third.
  void forget_client() {
    UdpSocket others(world.host(1).udp());
    ASSERT_TRUE(others.bind({server_address, 9}));
    const IpAddress gateway = v6 ? LinkedHosts::kGateway6 : LinkedHosts::kGateway4;
    const IpAddress nobody = LinkedHosts::address(70, v6);
    for (const IpAddress& other : {gateway, nobody}) {
      ASSERT_EQ(others.send_to(std::array<std::byte, 10>{}, {other, 9}, world.now()),
                UdpSend::sent);
      world.run_for(milliseconds{10});
    }
  }

  const bool v6 = GetParam();
  const IpAddress client_address = LinkedHosts::address(0, v6);
  const IpAddress server_address = LinkedHosts::address(1, v6);
  LinkedHosts world{options()};
  TestSocket client{world.tcp(0)};
  TestSocket server{world.tcp(1)};
};

// T2: an expired neighbour doesn't eat the probe: with one probe, and a second for its answer, the
// connection would end.
TEST_P(TcpNeighbours, T2_AProbeArrivesThoughItsNeighbourIsForgotten) {
  for (int round = 0; round < 3; ++round) {
    world.tcp(1).set_keepalive(
        server.handle, {.idle = minutes{60}, .interval = seconds{1}, .probes = 1}, world.now());
    world.run_for(minutes{57});
    ASSERT_TRUE(server_knows_client());
    if (round > 0) {  // In the first it is only older than anybody may rely on.
      forget_client();
      ASSERT_FALSE(server_knows_client());
    }
    world.run_for(minutes{3} + seconds{10});
    EXPECT_EQ(world.tcp(1).stats().keepalive_probes, static_cast<std::uint64_t>(round + 1));
    ASSERT_EQ(server.closed, 0);
  }
  EXPECT_EQ(world.tcp(1).stats().keepalive_timeouts, 0U);
  client.write_up_to(1'000, world.now());
  world.run_for(seconds{1});
  EXPECT_TRUE(server.received_stream(1'000));
}

INSTANTIATE_TEST_SUITE_P(Families, TcpNeighbours, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "v6" : "v4"; });

}  // namespace
}  // namespace pinion::test

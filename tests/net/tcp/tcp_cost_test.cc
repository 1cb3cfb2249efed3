#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>
#include <pinion/net/packet_copy.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "../malloc_counter.h"
#include "stack/ip_layer.h"
#include "tcp/tcp.h"

/// What TCP takes from the heap: nothing, once it runs.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;

constexpr std::array kAddresses = {IpAddress::v4({192, 0, 2, 1}), IpAddress::v4({192, 0, 2, 2})};

/// One of two hosts on a line that holds packets in a queue.
class QuietHost final : public IpLayer, public TcpObserver {
 public:
  QuietHost(std::size_t number, PacketPool& pool, Instant now)
      : number_(number), pool_(pool), wheel(now) {
    auto made = Tcp::create(
        {}, {.ip = *this, .wheel = wheel, .packets = pool, .small_packets = pool}, number, now);
    PINION_ASSERT(made);
    tcp = std::move(*made);
  }

  void send(PacketPtr packet, const IpDeparture&, Instant) noexcept override {
    line.push_back(copy_packet(*packet, pool_));
  }
  std::size_t path_mtu(const IpAddress&, const IpAddress&) const noexcept override { return 1500; }
  std::size_t link_mtu(const IpAddress&, const IpAddress&) const noexcept override { return 1500; }
  void learn_path_mtu(const IpAddress&, const IpAddress&, std::size_t, Instant) noexcept override {}
  bool is_unicast(const IpAddress&) const noexcept override { return true; }
  std::optional<IpAddress> source_for(const IpAddress&) const noexcept override {
    return kAddresses[number_];
  }
  bool is_local(const IpAddress& address) const noexcept override {
    return address == kAddresses[number_];
  }
  void confirm_reachable(const IpAddress&, const IpAddress&, Instant) noexcept override {}
  void suspect(const IpAddress&, const IpAddress&, Instant) noexcept override {}

  void on_connected(TcpHandle, Instant) noexcept override {}
  void on_readable(TcpHandle, Instant now) noexcept override {
    PacketPtr packet;
    while (tcp->take(handle, packet, now) == TcpOutcome::done) received += packet->size();
    packet.reset();
  }
  void on_writable(TcpHandle, Instant) noexcept override {}
  void on_read_deadline(TcpHandle, Instant) noexcept override {}
  void on_write_deadline(TcpHandle, Instant) noexcept override {}
  void on_closed(TcpHandle, TcpEnd, Instant) noexcept override {}

 private:
  std::size_t number_;
  PacketPool& pool_;

 public:
  PacketQueue line;
  TimingWheel wheel;
  std::unique_ptr<Tcp> tcp;
  TcpHandle handle;
  std::size_t received = 0;
};

/// Lets both have a millisecond.
void turn(std::array<std::unique_ptr<QuietHost>, 2>& hosts, Instant& now) {
  now += milliseconds{1};
  for (std::size_t from = 0; from < 2; ++from) {
    QuietHost& to = *hosts[1 - from];
    while (!hosts[from]->line.empty()) {
      to.tcp->receive(hosts[from]->line.pop_front(),
                      {.source = kAddresses[from], .destination = kAddresses[1 - from]}, now);
    }
    to.tcp->end_of_burst(now);
    to.wheel.advance(now);
  }
}

TEST(TcpCost, NothingIsTakenFromTheHeapOnceItRuns) {
  if (!malloc_is_counted()) GTEST_SKIP() << "a sanitizer's malloc";
  auto pool = SlabPacketPool::create({.packets = 8'192, .views = 8'192});
  ASSERT_TRUE(pool);
  Instant now{std::chrono::seconds{1}};
  std::array<std::unique_ptr<QuietHost>, 2> hosts;
  for (std::size_t i = 0; i < 2; ++i) hosts[i] = std::make_unique<QuietHost>(i, **pool, now);
  const auto listener = hosts[1]->tcp->listen({kAddresses[1], 7}, {}, nullptr);
  ASSERT_TRUE(listener);
  const std::array<std::byte, 5'000> bytes{};
  std::uint64_t before = 0;
  for (int round = 0; round < 40; ++round) {
    if (round == 4) before = mallocs();
    hosts[0]->handle = *hosts[0]->tcp->connect({.remote = {kAddresses[1], 7}}, hosts[0].get(), now);
    for (int i = 0; i < 4; ++i) turn(hosts, now);
    hosts[1]->handle = hosts[1]->tcp->accept(*listener, hosts[1].get());
    for (int i = 0; i < 20; ++i) {
      for (const auto& host : hosts) static_cast<void>(host->tcp->write(host->handle, bytes, now));
      // Every fifth packet is lost, so that holes are remembered and filled.
      if (i % 5 == 0) hosts[0]->line.pop_front().reset();
      turn(hosts, now);
    }
    for (int i = 0; i < 2'000; ++i) turn(hosts, now);
    for (const auto& host : hosts) host->tcp->close(host->handle, now);
    for (int i = 0; i < 5; ++i) turn(hosts, now);
  }
  EXPECT_EQ(mallocs() - before, 0U);
  EXPECT_EQ(hosts[0]->received, 40U * 20U * 5'000U);
  EXPECT_EQ(hosts[1]->received, 40U * 20U * 5'000U);
  EXPECT_EQ(hosts[0]->tcp->connections(), 0U);
  EXPECT_EQ(hosts[1]->tcp->connections(), 0U);
  EXPECT_GT(hosts[0]->tcp->stats().retransmitted_segments, 0U);
  EXPECT_EQ((*pool)->live(), 0U);
}

}  // namespace
}  // namespace pinion::test

#include "linked_hosts.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/assert.h>

namespace pinion::test {
namespace {

template <class T>
T or_abort(Result<T> made) {
  PINION_ASSERT(made);
  return std::move(*made);
}

}  // namespace

IpAddress LinkedHosts::address(int host, bool v6) {
  const auto last = static_cast<std::uint8_t>(host + 2);
  if (!v6) return IpAddress::v4({10, 9, 0, last});
  return IpAddress::v6({0xfd, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}

LinkedHosts::LinkedHosts(const LinkedHostsOptions& options) {
  for (End& end : ends_) end.pool = or_abort(SlabPacketPool::create(options.pool));
  link_ = or_abort(Link::create(*ends_[0].pool, *ends_[1].pool, options.link));
  ends_[0].device = &link_->a();
  ends_[1].device = &link_->b();
  for (int number = 0; number < 2; ++number) {
    End& end = ends_[index(number)];
    end.wheel = std::make_unique<TimingWheel>(now_);
    const DeviceInfo& info = end.device->info();
    end.host = or_abort(Host::create({.ip = options.ip, .tcp = options.config},
                                     {.wheel = *end.wheel,
                                      .packets = *end.pool,
                                      .small_packets = *end.pool,
                                      .max_segments = info.max_tx_segments},
                                     options.seed + index(number), now_));
    std::vector<IpPrefix> addresses = {{address(number, false), 16}, {address(number, true), 64}};
    if (number == 0) {
      addresses.push_back({kGateway4, 16});
      addresses.push_back({kGateway6, 64});
    }
    const auto made = end.host->ip().add_interface({.mac = info.mac,
                                                    .mtu = info.mtu,
                                                    .max_segments = info.max_tx_segments,
                                                    .addresses = addresses,
                                                    .check_duplicates = false},
                                                   now_);
    PINION_ASSERT(made);
  }
  IpStack& ip = ends_[1].host->ip();
  for (const IpAddress& gateway : {kGateway4, kGateway6}) {
    const IpAddress everything = gateway.is_v4() ? IpAddress::v4({}) : IpAddress::v6({});
    const Result<> added = ip.add_route(
        {.destination = {.address = everything, .length = 0}, .gateway = gateway, .interface = 0});
    PINION_ASSERT(added);
  }
}

Instant LinkedHosts::next_event() const {
  Instant next = kNever;
  for (const End& end : ends_) {
    next = std::min({next, end.device->next_event(), end.wheel->next_expiry()});
  }
  return next;
}

/// One turn of a host's owner, as host.h says.
void LinkedHosts::turn(End& end) {
  std::array<Packet*, kBurst> burst;
  for (;;) {
    const std::size_t count = end.device->rx_burst(now_, burst);
    if (count == 0) break;
    end.host->receive(0, std::span(burst).first(count), now_);
    if (!end.host->is_settled()) end.host->end_of_burst(now_);
    if (count < kBurst) break;
  }
  end.wheel->advance(now_);
  flush(end);
}

void LinkedHosts::flush(End& end) {
  std::array<Packet*, kBurst> burst;
  while (!end.host->is_settled()) end.host->end_of_burst(now_);
  while (const std::size_t count = end.host->take(0, burst)) {
    const std::size_t taken = end.device->tx_burst(now_, std::span(burst).first(count));
    PINION_ASSERT(taken == count);  // A link takes, or drops, all.
  }
}

void LinkedHosts::step(Instant to) {
  now_ = std::max(now_, to);
  for (End& end : ends_) turn(end);
}

void LinkedHosts::run_for(Delay time) {
  const Instant end = now_ + time;
  step(now_);
  while (next_event() <= end) step(next_event());
  step(end);
}

bool LinkedHosts::run_until(const std::function<bool()>& holds, Delay limit) {
  const Instant end = now_ + limit;
  step(now_);
  while (!holds() && next_event() <= end) step(next_event());
  return holds();
}

void LinkedHosts::inject(int from, PacketPtr frame) {
  Packet* const packet = frame.take();
  const std::size_t taken = ends_[index(from)].device->tx_burst(now_, std::span(&packet, 1));
  PINION_ASSERT(taken == 1);
}

void LinkedHosts::lose_what_waits(int from) {
  std::array<Packet*, kBurst> burst;
  while (const std::size_t count = host(from).take(0, burst)) {
    for (Packet* const packet : std::span(burst).first(count)) packet->release();
  }
}

}  // namespace pinion::test

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include <pinion/lib/assert.h>
#include <pinion/net/packet_copy.h>
#include <pinion/test/packets.h>
#include <pinion/timers/timer_entry.h>

#include "script.h"
#include "transport_world.h"

namespace pinion::test {
namespace {

/// Sends each segment back with its ports swapped: the first of a burst at its end, by itself, and
/// once more from a timer 40 ms later.
class Mirror final : public IpTransport, private TimerEntry {
 public:
  Mirror(IpLayer& ip, TimingWheel& wheel, PacketPool& pool)
      : TimerEntry(&fire), ip_(ip), wheel_(wheel), pool_(pool) {}

  void receive(PacketPtr packet, const IpArrival& arrival, Instant) noexcept override {
    if (first_) return;
    first_ = std::move(packet);
    how_.source = arrival.destination;
    how_.destination = arrival.source;
    swap_ports(*first_);
  }
  void complain(const IpComplaint&, Instant) noexcept override {}
  void end_of_burst(Instant now) noexcept override {
    now_ = now;
    if (!first_) return;
    again_ = copy_packet(*first_, pool_);
    ip_.send(std::move(first_), how_, now);
    wheel_.arm_after(*this, now, std::chrono::milliseconds{40});
  }

 private:
  static void swap_ports(Packet& packet) {
    std::byte* const at = packet.data();
    std::swap(at[0], at[2]);
    std::swap(at[1], at[3]);
  }
  static void fire(TimerEntry& entry) {
    auto& mirror = static_cast<Mirror&>(entry);
    mirror.ip_.send(std::move(mirror.again_), mirror.how_, mirror.wheel_.now());
  }

  IpLayer& ip_;
  TimingWheel& wheel_;
  PacketPool& pool_;
  PacketPtr first_;
  PacketPtr again_;
  IpDeparture how_;
  Instant now_;
};

class MirrorWorld final : public TransportWorld {
 public:
  explicit MirrorWorld(PacketPool& pool, bool v6 = false)
      : TransportWorld(pool, v6), mirror_(ip(), wheel(), pool) {}

  std::string call(std::string_view name, std::span<const std::string>) override {
    return std::string(name) + "?";
  }

 protected:
  IpTransport& transport() override { return mirror_; }

 private:
  Mirror mirror_;
};

// What comes back bears the peer's own numbers, so that `*` and 0 stand for most of them.
constexpr std::string_view kScript = R"(
  hello -> hello?
  < S 0:0(0) win 77 <mss 1460>
  & < S 0:0(0) win 78
  > S 0:0(0) win 77 <mss 1460>
  +40ms > S 0:0(0) win 77 <mss 1460>
  < . 1:1001(1000) ack 5 win 79
  > . 1:1001(1000) ack * win 79 <>
  +30ms nothing
  +10ms > . 1:1001(1000) win 79
  +1h nothing
)";

TEST(TransportWorld, CarriesSegmentsBothWaysAndFiresTimers) {
  for (const bool v6 : {false, true}) {
    const TestPool pool;
    MirrorWorld world(*pool, v6);
    EXPECT_TRUE(run_script(world, kScript)) << "v6: " << v6;
  }
}

TEST(TransportWorld, CarriesChainsOfSegments) {
  const TestPool pool({.packets = 64, .views = 0, .buffer_size = 256});
  MirrorWorld world(*pool);
  EXPECT_TRUE(run_script(world, kScript));
}

}  // namespace
}  // namespace pinion::test

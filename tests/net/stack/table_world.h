#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/test/packets.h>
#include <pinion/timers/timing_wheel.h>

/// What tests of the IP layer's tables share: time set by hand, a wheel, packets, addresses.

namespace pinion::test {

using namespace std::chrono_literals;

inline IpAddress ip(std::string_view text) {
  return IpAddress::parse(text).value_or(IpAddress());
}

inline MacAddress mac(std::uint8_t last) {
  return {0x02, 0, 0, 0, 0, last};
}

/// Packets and time. Fails if a packet wasn't returned.
class TableWorld : public testing::Test {
 protected:
  [[nodiscard]] PacketPtr packet(std::size_t size = 0, std::uint8_t fill = 0) {
    PacketPtr made(pool->allocate());
    std::memset(made->append(size), fill, size);
    return made;
  }

  /// Time goes on in steps of `step`, so that the wheel fires on time.
  void pass(Delay time, Delay step = 10ms) {
    const Instant end = now + time;
    while (now < end) {
      now = std::min(now + step, end);
      wheel->advance(now);
    }
  }

  const TestPool pool;
  Instant now{1000s};
  const std::unique_ptr<TimingWheel> wheel = std::make_unique<TimingWheel>(now);
};

}  // namespace pinion::test

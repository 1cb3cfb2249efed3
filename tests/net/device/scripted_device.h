#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>
#include <pinion/test/packets.h>

/// A device that receives what its test hands it and keeps what it was given to send.

namespace pinion::test {

class ScriptedDevice final : public Device {
 public:
  struct Sent {
    Instant at;
    Bytes bytes;
    const Packet* packet;  ///< Only to be compared.
  };

  const DeviceInfo& info() const noexcept override { return info_; }

  std::size_t rx_burst(Instant, std::span<Packet*> into) noexcept override {
    std::size_t count = 0;
    for (; count < into.size() && !arriving.empty(); ++count) {
      into[count] = arriving.pop_front().take();
    }
    stats_.rx_packets += count;
    return count;
  }

  std::size_t tx_burst(Instant now, std::span<Packet* const> packets) noexcept override {
    std::size_t count = 0;
    for (; count < packets.size() && room > 0; ++count, --room) {
      sent.push_back({now, bytes_of(*packets[count]), packets[count]});
      if (packets[count]->shared()) ++sent_shared;
      packets[count]->release();
    }
    stats_.tx_packets += count;
    return count;
  }

  Instant next_event() const noexcept override { return event; }
  int wait_descriptor() const noexcept override { return 77; }
  bool announces_arrivals() const noexcept override { return announces; }
  void on_wait_error() noexcept override { ++wait_errors; }
  DeviceStats stats() const noexcept override { return stats_; }

  PacketQueue arriving;
  std::vector<Sent> sent;
  std::size_t sent_shared = 0;
  std::size_t room = std::numeric_limits<std::size_t>::max();  ///< For what is to be sent.
  Instant event = kNever;
  bool announces = true;
  int wait_errors = 0;

 private:
  DeviceInfo info_{.mac = {2, 0, 0, 0, 0, 1}, .mtu = 1500, .max_tx_segments = 4};
  DeviceStats stats_;
};

/// An instant of the test's clock.
inline Instant at_ns(std::int64_t count) {
  return Instant{std::chrono::nanoseconds{count}};
}

/// Sends one packet.
inline bool send(Device& device, PacketPtr packet, Instant now) {
  Packet* const offered = packet.get();
  if (device.tx_burst(now, {&offered, 1}) == 0) return false;
  static_cast<void>(packet.take());
  return true;
}

/// Receives one packet; empty when there is none.
inline PacketPtr receive(Device& device, Instant now) {
  Packet* packet = nullptr;
  if (device.rx_burst(now, {&packet, 1}) == 0) return {};
  return PacketPtr(packet);
}

}  // namespace pinion::test

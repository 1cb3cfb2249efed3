#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

/// Where packets come from and go to: a DPDK port, one end of an in-process link, or a decorator
/// around another device (faults, capture).
///
/// Ownership:  the caller owns the device. A packet that rx_burst() gives belongs to the caller;
///             one that tx_burst() takes belongs to the device, which releases it once it is sent.
/// Threading:  one lcore per device (per queue of a port).
/// Time:       `now` does not go back from one call to the next.
/// Cost:       one virtual call per burst.
/// Errors:     what the device can't take or spoils is counted by reason; nothing fails.

namespace pinion {

using MacAddress = std::array<std::uint8_t, 6>;

struct DeviceInfo {
  MacAddress mac{};
  std::size_t mtu = 1500;           ///< Bytes behind the Ethernet header.
  std::size_t max_tx_segments = 1;  ///< The longest chain that tx_burst() takes.
};

struct DeviceStats {
  std::uint64_t rx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t rx_dropped = 0;  ///< Lost since nobody took them in time.
  std::uint64_t tx_packets = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_dropped = 0;  ///< Taken by tx_burst() and lost: too long, too many segments.
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;

  /// Fills the front of `into` with what has arrived by `now`; returns how many. What it gives is
  /// not shared: the caller may write to it.
  [[nodiscard]] virtual std::size_t rx_burst(Instant now, std::span<Packet*> into) noexcept = 0;

  /// Takes the first packets of `packets` and returns how many; what it leaves stays the caller's
  /// and may be offered again. A packet's segments may be shared and views.
  [[nodiscard]] virtual std::size_t tx_burst(Instant now,
                                             std::span<Packet* const> packets) noexcept = 0;

  /// On virtual time: when rx_burst() may next have something, or something held back must be
  /// passed on, if nothing is sent meanwhile. kNever for a device of real time.
  [[nodiscard]] virtual Instant next_event() const noexcept { return kNever; }

  /// A descriptor that is readable when packets wait; -1 when nothing announces them.
  [[nodiscard]] virtual int wait_descriptor() const noexcept { return -1; }

  /// Whether nothing comes that neither next_event() nor wait_descriptor() announces. Beside any
  /// other device a loop sleeps for short times only, and asks it in between.
  [[nodiscard]] virtual bool announces_arrivals() const noexcept { return wait_descriptor() >= 0; }

  /// The descriptor had an error instead of packets, which would keep whoever waits for it awake:
  /// take it away if that can be done.
  virtual void on_wait_error() noexcept {}

  [[nodiscard]] virtual DeviceStats stats() const noexcept = 0;
};

}  // namespace pinion

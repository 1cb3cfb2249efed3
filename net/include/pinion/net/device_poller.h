#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/poller.h>
#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/timers/timer_entry.h>

/// Serves a device on a loop: takes what it received in bursts, and wakes the loop when there is
/// more.
///
/// Ownership:  the caller's; loop, device and sink outlive it.
/// Threading:  the loop's thread, or before it runs.
/// Cost:       while awake, one rx_burst() per turn that finds nothing. Before a sleep, one poll
///             operation on the device's descriptor, until it has fired, which goes to the kernel
///             with the sleep itself.
/// Sleep:      a device with a wait_descriptor() ends it by that, one on virtual time by
///             next_event(); beside one that doesn't announce all that arrives, or whose descriptor
///             has an error, the loop dozes, LoopOptions::doze_max at most.
/// End:        on the loop's thread, or where it never ran: the device and its descriptor may be
///             closed at once.
/// Full:       a turn takes at most its budget; the rest stays with the device, which drops when
///             nobody comes in time, counted there.

namespace pinion {

/// Who takes what a device received.
class PacketSink {
 public:
  /// A burst, in the order of its arrival: at least one packet, at most DevicePoller::kBurst. All
  /// of them are the sink's.
  virtual void receive(Instant now, std::span<Packet* const> packets) = 0;

 protected:
  ~PacketSink() = default;
};

struct DevicePollerStats {
  std::uint64_t bursts = 0;  ///< That had a packet.
  std::uint64_t packets = 0;
  std::uint64_t full_bursts = 0;  ///< Had as many as fit: the device may have more.
};

class PINION_EXPORT DevicePoller final : public Poller {
 public:
  /// Enough to spread the costs of a burst, few enough for their headers to stay in the L1 cache.
  static constexpr std::size_t kBurst = 32;

  /// Adds itself to the loop, and removes itself in the end.
  DevicePoller(Loop& loop, Device& device, PacketSink& sink) noexcept;
  ~DevicePoller() override;

  std::size_t poll(Instant now, std::size_t budget) override;
  ParkAnswer prepare_park() override;
  void cancel_park() override;
  void on_wait_error() override { device_.on_wait_error(); }
  [[nodiscard]] const char* name() const override { return "device"; }

  [[nodiscard]] const DevicePollerStats& stats() const noexcept { return stats_; }

 private:
  Loop& loop_;
  Device& device_;
  PacketSink& sink_;
  TimerEntry next_event_;  ///< Armed while the loop sleeps beside a device on virtual time.
  DevicePollerStats stats_;
};

}  // namespace pinion

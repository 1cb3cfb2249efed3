#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/net/device.h>
#include <pinion/net/dpdk_pool.h>
#include <pinion/net/port_name.h>

/// A DPDK port with one receive and one transmit queue.
///
/// Kinds:      `tap` makes an interface of that name; the kernel is at its other end, with the
///             address that tap's driver draws, and info().mac is that with its last bit changed
///             (`mac=02:…` sets another); `mtu=` sets both ends'. `af_packet` takes an interface
///             that exists, and shares its address and MTU with the kernel; `mtu=` takes less of
///             that. The other kinds are refused (docs/decisions/dpdk-library.md).
/// Ownership:  the caller's; dies before its pool and its EAL. A tap's interface goes with it.
/// Threading:  opened and destroyed on any thread that DPDK knows, used by one at a time.
/// Cost:       a received packet is written its header of one cache line; a sent one is linked. A
///             packet of another pool is copied, and so is a chain where the port can't gather.
/// Sleep:      wait_descriptor() is readable when packets wait, for both kinds.
/// Checksums:  none is filled in by the port. Those that it has verified are marked. A local peer
///             on veth leaves them to a NIC that isn't there (`ethtool -K veth1 tx off` mends it).
/// Errors:     open() says what is missing before it makes anything, and takes back what it made
///             when it fails later.

namespace pinion {

class DpdkEal;
struct DpdkPortPlan;
namespace detail {
class DpdkWords;
}

class PINION_EXPORT DpdkPort final : public Device {
 public:
  /// Longer chains are dropped: jumbo frames in buffers of 2048 have 5 segments, headers beside.
  static constexpr std::size_t kMaxTxSegments = 16;

  [[nodiscard]] static Result<std::unique_ptr<DpdkPort>> open(DpdkEal& eal, DpdkPacketPool& pool,
                                                              const PortName& name);

  /// Stops and removes the port, and gives back the packets that waited in it.
  ~DpdkPort() override;

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::size_t rx_burst(Instant now, std::span<Packet*> into) noexcept override;
  [[nodiscard]] std::size_t tx_burst(Instant now,
                                     std::span<Packet* const> packets) noexcept override;
  [[nodiscard]] int wait_descriptor() const noexcept override { return wait_fd_; }
  [[nodiscard]] DeviceStats stats() const noexcept override;

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  static constexpr std::size_t kFrameOverhead = 14 + 4;  // Ethernet's header and a VLAN tag.
  struct Run;

  DpdkPort(DpdkEal& eal, DpdkPacketPool& pool, std::string vdev, std::uint16_t port) noexcept;

  // Opening (dpdk_port_open.cc).
  Result<> configure(const DpdkPortPlan& plan, const detail::DpdkWords& words);
  Result<> start(const DpdkPortPlan& plan, const detail::DpdkWords& words);

  // Sending (dpdk_tx.cc).
  void collect(Run& run, std::span<Packet* const> packets) noexcept;
  std::size_t hand_over(Run& run, std::span<Packet* const> packets) noexcept;

  DpdkEal& eal_;
  DpdkPacketPool& pool_;
  const std::string vdev_;  ///< What DPDK calls it.
  const std::uint16_t port_;
  bool started_ = false;
  bool gathers_ = false;  ///< Sends chains.
  std::uint64_t rx_checksum_flags_ = 0;
  int wait_fd_ = -1;
  DeviceInfo info_;
  std::uint64_t tx_dropped_ = 0;
};

}  // namespace pinion

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
///             (`mac=02:…` sets another); `mtu=` sets both ends', up to 1504. `af_packet` takes an
///             interface that exists, and shares its address and MTU with the kernel; `mtu=` takes
///             less of that; its driver takes up to 1500. The other kinds are refused
///             (docs/decisions/dpdk-library.md).
/// Frames:     af_packet receives what comes in, not what the kernel sends. What is longer than its
///             MTU is dropped and counted, and the kernel makes such frames: of one stream's
///             segments, at this interface (`ethtool -K eth0 gro off lro off`) and at the other end
///             of a veth (`ethtool -K veth1 gso off tso off`), and of IPv4 fragments, always.
/// Ownership:  the caller's; dies before its pool and its EAL. A tap's interface goes with it.
/// Threading:  opened and destroyed on any thread that DPDK knows, used by one at a time.
/// Cost:       a received packet is written its header of one cache line; a sent one is linked. A
///             packet of another pool is copied, and so is a chain where the port can't gather.
/// Sleep:      wait_descriptor() is readable when packets wait, for both kinds. It has an error
///             once a tap's interface was deleted, and until on_wait_error() when af_packet's went
///             down.
/// Losses:     stats() counts what the port, its pool or the kernel in front of it had no room for,
///             and what af_packet was given while its interface was down. It asks the kernel: not
///             for each packet.
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
  /// Longer chains are dropped: a frame in buffers of 256 has 6 segments, headers beside.
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
  void on_wait_error() noexcept override;
  [[nodiscard]] DeviceStats stats() const noexcept override;

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  static constexpr std::size_t kFrameOverhead = 14 + 4;  // Ethernet's header and a VLAN tag.
  struct Run;

  DpdkPort(DpdkEal& eal, DpdkPacketPool& pool, const DpdkPortPlan& plan,
           std::uint16_t port) noexcept;

  // Opening (dpdk_port_open.cc).
  Result<> configure(const DpdkPortPlan& plan, const detail::DpdkWords& words);
  Result<> start(const DpdkPortPlan& plan, const detail::DpdkWords& words);
  Result<> filter(const DpdkPortPlan& plan);

  // Receiving (dpdk_rx.cc).
  [[nodiscard]] std::uint64_t lost_in_kernel() const noexcept;

  // Sending (dpdk_tx.cc).
  void collect(Run& run, std::span<Packet* const> packets) noexcept;
  std::size_t hand_over(Run& run, std::span<Packet* const> packets) noexcept;

  DpdkEal& eal_;
  DpdkPacketPool& pool_;
  const PortKind kind_;
  const std::string interface_;
  const std::string vdev_;  ///< What DPDK calls it.
  const std::uint16_t port_;
  bool started_ = false;
  bool gathers_ = false;  ///< Sends chains.
  std::uint64_t rx_checksum_flags_ = 0;
  int wait_fd_ = -1;
  DeviceInfo info_;
  std::uint64_t tx_dropped_ = 0;
  std::uint64_t rx_cut_ = 0;  ///< Frames that were too long, and what DPDK counts as their bytes.
  std::uint64_t rx_cut_bytes_ = 0;
  std::uint64_t drops_before_ = 0;          ///< Of the interface, when the port was opened.
  mutable std::uint64_t kernel_drops_ = 0;  ///< Since then.
};

}  // namespace pinion

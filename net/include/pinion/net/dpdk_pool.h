#pragma once

#include <cstddef>
#include <memory>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/net/packet.h>

/// Packets in DPDK's memory, which its ports fill and send without a copy.
///
/// Ownership:  the caller's; ports that use it die before it, and so do all of its packets
///             (asserted).
/// Threading:  packets may be taken and given back on every thread that DPDK knows (DpdkThread), a
///             packet is on one thread at a time. A thread that it doesn't know works, slowly.
/// Cost:       a packet's header lies behind its mbuf, its references are the mbuf's: nothing is
///             allocated or copied beside it. A thread keeps up to 375 free packets in a cache, and
///             no more than three eighths of them all.
/// Views:      indirect mbufs, which a port sends without a copy, too.
/// Full:       allocate() gives nullptr. A port that finds no packet drops what comes, counted.

namespace pinion {

class DpdkEal;

struct DpdkPoolOptions {
  std::size_t packets = 8191;      ///< 64 to 2^24 - 1; a power of two less one wastes no memory.
  std::size_t views = 4095;        ///< 64 to 2^24 - 1; each takes 256 bytes.
  std::size_t packet_size = 2048;  ///< Bytes behind the headroom; 256 to 16384.
};

class PINION_EXPORT DpdkPacketPool final : public PacketPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DpdkPacketPool>> create(DpdkEal& eal,
                                                                      DpdkPoolOptions options);

  ~DpdkPacketPool();
  DpdkPacketPool(const DpdkPacketPool&) = delete;
  DpdkPacketPool& operator=(const DpdkPacketPool&) = delete;

  [[nodiscard]] Packet* allocate() noexcept override;
  [[nodiscard]] Packet* view(Packet& of, std::size_t offset, std::size_t size) noexcept override;
  void give_back(Packet& segment) noexcept override;

  /// Without what other threads have in their caches, where the calling one can't get at it.
  [[nodiscard]] std::size_t available() const noexcept override;
  [[nodiscard]] std::size_t capacity() const noexcept override { return options_.packets; }
  [[nodiscard]] std::size_t buffer_size() const noexcept override {
    return kPacketHeadroom + options_.packet_size;
  }

  /// Packets and views that are lent out, those that wait in a port among them. Looks at the cache
  /// of every thread: not for each packet.
  [[nodiscard]] std::size_t lent() const noexcept;

 private:
  friend class DpdkPort;

  DpdkPacketPool(DpdkEal& eal, DpdkPoolOptions options, void* mempool, void* views) noexcept;

  DpdkEal& eal_;
  const DpdkPoolOptions options_;
  void* const mempool_;  ///< DPDK's own.
  void* const views_;    ///< The same, of mbufs without a buffer.
};

}  // namespace pinion

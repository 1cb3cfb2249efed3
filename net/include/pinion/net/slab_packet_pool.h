#pragma once

#include <cstddef>
#include <memory>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/slab.h>
#include <pinion/net/packet.h>

/// Packets from memory of our own: for tests, the simulator, and programs that embed the stack.
///
/// Ownership:  the pool owns its memory and outlives its packets: dying while one is lent out is
///             refused by an assertion. A view may be of a packet of any pool.
/// Threading:  one lcore.
/// Cost:       allocate(), view() and give_back() O(1). All memory is taken by create(), in two
///             pieces aligned to cache lines; a buffer stands behind its packet.
/// Errors:     all lent out: nullptr. Released too often: refused by a DCHECK until the packet is
///             lent out again. Under AddressSanitizer, free packets are poisoned.

namespace pinion {

struct SlabPacketPoolOptions {
  std::size_t packets = 4096;      ///< With a buffer each; 1 and up.
  std::size_t views = 4096;        ///< 0 and up.
  std::size_t buffer_size = 2048;  ///< Bytes, headroom included; 256 to 1048576, rounded up to 64.
};

class SlabPacketPool final : public PacketPool {
 public:
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<SlabPacketPool>> create(
      const SlabPacketPoolOptions& options = {});

  SlabPacketPool(const SlabPacketPool&) = delete;
  SlabPacketPool& operator=(const SlabPacketPool&) = delete;
  PINION_EXPORT ~SlabPacketPool();

  [[nodiscard]] PINION_EXPORT Packet* allocate() noexcept override;
  [[nodiscard]] PINION_EXPORT Packet* view(Packet& of, std::size_t offset,
                                           std::size_t size) noexcept override;
  PINION_EXPORT void give_back(Packet& segment) noexcept override;

  [[nodiscard]] std::size_t available() const noexcept override {
    return packets_.limit() - packets_.live();
  }
  [[nodiscard]] std::size_t capacity() const noexcept override { return packets_.limit(); }
  [[nodiscard]] std::size_t buffer_size() const noexcept override { return buffer_size_; }

  /// Packets and views that are lent out: 0 when every one was returned.
  [[nodiscard]] std::size_t live() const noexcept { return packets_.live() + views_.live(); }
  [[nodiscard]] std::size_t live_views() const noexcept { return views_.live(); }

  /// The fewest packets that were available at any time.
  [[nodiscard]] std::size_t lowest_available() const noexcept {
    return packets_.limit() - packets_.peak();
  }

 private:
  explicit SlabPacketPool(const SlabPacketPoolOptions& options) noexcept;

  const std::size_t buffer_size_;
  RawSlab packets_;
  RawSlab views_;
};

}  // namespace pinion

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>

/// A cable in this process: two devices, and what one sends the other receives. For tests, the
/// simulator, and programs that talk to themselves.
///
/// Ownership:  the link owns its ends; the pools are the caller's and outlive it. Each end gives
///             packets of its own pool. What arrives is the very packet that was sent when it is of
///             that pool, in one segment and unshared, and a copy otherwise: the receiver may write
///             to it. Packets still under way are released with the link.
/// Threading:  one lcore for both ends.
/// Time:       exact on virtual time. A frame leaves when those before it have, after the time that
///             its bits take, and arrives `delay` later; a rest of a nanosecond is carried on, so
///             that nothing drifts, and only what is told is rounded up. next_event() of an end
///             tells when it will receive.
/// Cost:       O(1) per packet, and the copy. All memory is taken by create().
/// Errors:     options out of range: create() says which. What doesn't fit is dropped and counted.

namespace pinion {

struct LinkOptions {
  /// In each direction, up to 10^13. 0: sending takes no time.
  std::uint64_t bits_per_second = 0;

  /// Whether a frame takes the line as long as on Ethernet: padded to 60 bytes, with 24 more for
  /// preamble, checksum and gap.
  bool count_framing = true;

  Delay delay{};  ///< From when a frame's last bit is sent to its arrival; up to 1 hour.

  /// What a direction holds that is not sent yet, the frame being sent included. The packet that
  /// doesn't fit is dropped at its tail; one that finds it empty always fits. 1 and up.
  std::size_t queue_packets = 1000;
  std::size_t queue_bytes = std::numeric_limits<std::size_t>::max();

  /// What a direction holds in all: queued, under way, and arrived but not taken yet. What comes
  /// beyond it is lost to the receiver. queue_packets to 2^20.
  std::size_t capacity_packets = 4096;

  std::size_t mtu = 1500;           ///< Bytes behind the Ethernet header; 68 to 65535.
  std::size_t max_tx_segments = 8;  ///< 1 and up.
  MacAddress mac_a{0x02, 0, 0, 0, 0, 0x0a};
  MacAddress mac_b{0x02, 0, 0, 0, 0, 0x0b};
};

/// Of one direction, why what was lost.
struct LinkDrops {
  std::uint64_t too_long = 0;
  std::uint64_t too_many_segments = 0;
  std::uint64_t queue_full = 0;
  std::uint64_t capacity_full = 0;  ///< The receiver took too little for too long.
  std::uint64_t no_buffer = 0;      ///< The receiver's pool had no packet for a copy.
};

class Link {
 public:
  /// The ends receive packets of `pool_a` and `pool_b`, which may be one.
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Link>> create(
      PacketPool& pool_a, PacketPool& pool_b, const LinkOptions& options = {});

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  PINION_EXPORT ~Link();

  [[nodiscard]] PINION_EXPORT Device& a() noexcept;
  [[nodiscard]] PINION_EXPORT Device& b() noexcept;

  [[nodiscard]] PINION_EXPORT const LinkDrops& drops_to_a() const noexcept;
  [[nodiscard]] PINION_EXPORT const LinkDrops& drops_to_b() const noexcept;

 private:
  struct Parts;

  explicit Link(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace pinion

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <pinion/net/packet.h>

/// Bytes of a stream that follow each other, in packets which are chained by their segment links.
///
/// Ownership:  a chain owns its packets, which nobody else holds. They may be views, whose bytes
///             others see.
/// Threading:  one lcore.
/// Cost:       splice() and pop_front() O(1); absorb() O(segments taken); what cuts at a place
///             walks to it. Three words.
/// Errors:     split() copies what lies behind the cut in the packet that is cut, and loses it
///             when there is no packet to copy into.

namespace pinion {

/// A payload of fewer bytes is copied rather than kept in a packet of its own.
inline constexpr std::size_t kCopyBreak = 256;

class PacketChain {
 public:
  PacketChain() noexcept = default;
  /// The segments of `packet` that have bytes.
  explicit PacketChain(PacketPtr packet) noexcept;
  /// `segment` alone, which has bytes and nothing behind it.
  explicit PacketChain(Packet& segment) noexcept
      : first_(&segment),
        last_(&segment),
        size_(static_cast<std::uint32_t>(segment.size())),
        true_size_(static_cast<std::uint32_t>(segment.true_size())) {
    PINION_DCHECK(!segment.empty() && segment.next_segment() == nullptr);
  }
  PacketChain(PacketChain&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        true_size_(std::exchange(other.true_size_, 0)) {}
  PacketChain& operator=(PacketChain&& other) noexcept;
  PacketChain(const PacketChain&) = delete;
  PacketChain& operator=(const PacketChain&) = delete;
  ~PacketChain() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// What the packets cost their pools.
  [[nodiscard]] std::uint32_t true_size() const noexcept { return true_size_; }

  [[nodiscard]] Packet* front() const noexcept { return first_; }
  [[nodiscard]] bool is_single() const noexcept { return first_ != nullptr && first_ == last_; }

  /// Puts the packets of `more` behind these.
  void splice(PacketChain&& more) noexcept;

  /// Puts the bytes of `more` behind these: those of a packet with at most `copy_up_to` bytes are
  /// copied behind the last ones if they have room there, and their packet is released.
  void absorb(PacketChain&& more, std::size_t copy_up_to) noexcept;

  /// Takes off the first and the last bytes, and the packets that have none left.
  void remove_prefix(std::uint32_t count) noexcept;
  void remove_suffix(std::uint32_t count) noexcept;

  /// Keeps the first `count` bytes, which are not all, and answers the others.
  [[nodiscard]] PacketChain split(std::uint32_t count) noexcept;

  /// The first packet, alone; none when the chain is empty.
  [[nodiscard]] PacketPtr pop_front() noexcept;

  /// Moves bytes from the front into `into`; answers how many.
  std::size_t read(std::span<std::byte> into) noexcept;

  void clear() noexcept;

 private:
  void link(Packet& segment) noexcept;

  Packet* first_ = nullptr;
  Packet* last_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t true_size_ = 0;
};

static_assert(sizeof(PacketChain) == 24);

}  // namespace pinion

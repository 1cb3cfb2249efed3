#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>

/// What travels through the stack: a window into a buffer that a pool owns.
///
/// Shape:      a Packet is the first segment of a packet and heads a chain of them (next_segment);
///             most have one. In front of its bytes lies headroom, for headers; behind them
///             tailroom. Lengths are in bytes.
/// Ownership:  a pool lends packets out, each with one reference; whoever holds a reference gives
///             it back by release(), which passes over the whole chain, or lets a PacketPtr do it.
///             The last release returns the buffer to its pool.
/// Sharing:    a packet with more than one reference is read only: its bytes may be on their way
///             out of a device. Headers go in front of it in a segment of their own. A shared
///             segment is the last of its chain, since a segment has one link.
/// Threading:  a packet is on one lcore at a time, its pool's or one it was handed to by a message.
/// Cost:       everything here is a few instructions, release() of the last reference one virtual
///             call. One cache line, which a DPDK device keeps in the mbuf's private area and a
///             SlabPacketPool in front of the buffer.
/// Errors:     no room is an answer (false, nullptr); more taken off than there is, or written to
///             while shared, is refused by an assertion.

namespace pinion {

class Packet;

/// Whoever lends packets out.
class PacketPool {
 public:
  /// A packet of one segment and no bytes, with at least kPacketHeadroom before its first byte;
  /// nullptr when all are lent out.
  [[nodiscard]] virtual Packet* allocate() noexcept = 0;

  /// The last reference to `segment` was given back. Its chain link is null.
  virtual void give_back(Packet& segment) noexcept = 0;

  /// Packets that allocate() would still give, and the most it ever could.
  [[nodiscard]] virtual std::size_t available() const noexcept = 0;
  [[nodiscard]] virtual std::size_t capacity() const noexcept = 0;

  /// Bytes from a packet's headroom to the end of its tailroom.
  [[nodiscard]] virtual std::size_t buffer_size() const noexcept = 0;

 protected:
  ~PacketPool() = default;
};

/// Room for Ethernet with a VLAN tag, an IPv6 header and a TCP header with all its options.
inline constexpr std::size_t kPacketHeadroom = 128;

/// What is known of a packet beside its bytes.
enum class PacketMark : std::uint8_t {
  none = 0,
  ip_checksum_good = 1,         ///< Its device has verified the IPv4 header's checksum.
  transport_checksum_good = 2,  ///< Its device has verified the TCP or UDP checksum.
};

class alignas(64) Packet {
 public:
  /// For pools: a segment of no bytes in `buffer`, behind `headroom` bytes; its references are
  /// counted at `references`, which stands at 1.
  Packet(PacketPool& pool, std::uint16_t& references, std::span<std::byte> buffer,
         std::size_t headroom) noexcept
      : pool_(&pool), references_(&references) {
    reset(buffer, headroom, 0);
  }

  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;
  ~Packet() = default;

  /// For pools and devices: makes this a single segment whose bytes are the `size` behind
  /// `headroom` in `buffer`.
  void reset(std::span<std::byte> buffer, std::size_t headroom, std::size_t size) noexcept {
    PINION_DCHECK(headroom + size <= buffer.size());
    begin_ = buffer.data();
    capacity_ = static_cast<std::uint32_t>(buffer.size());
    offset_ = static_cast<std::uint32_t>(headroom);
    size_ = static_cast<std::uint32_t>(size);
    next_segment_ = nullptr;
    next_ = nullptr;
    marks_ = 0;
  }

  /// This segment's bytes.
  [[nodiscard]] std::byte* data() noexcept { return begin_ + offset_; }
  [[nodiscard]] const std::byte* data() const noexcept { return begin_ + offset_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data(), size_}; }

  [[nodiscard]] std::size_t headroom() const noexcept { return offset_; }
  [[nodiscard]] std::size_t tailroom() const noexcept { return capacity_ - offset_ - size_; }

  /// What the packet costs its pool, whatever it holds: the whole buffer of this segment.
  [[nodiscard]] std::size_t true_size() const noexcept { return capacity_; }

  /// Adds `count` bytes in front and answers where they begin; nullptr without headroom for them.
  [[nodiscard]] std::byte* prepend(std::size_t count) noexcept {
    PINION_ASSERT(!shared());
    if (count > headroom()) return nullptr;
    offset_ -= static_cast<std::uint32_t>(count);
    size_ += static_cast<std::uint32_t>(count);
    return data();
  }

  /// Adds `count` bytes behind and answers where they begin; nullptr without tailroom for them.
  [[nodiscard]] std::byte* append(std::size_t count) noexcept {
    PINION_ASSERT(!shared());
    if (count > tailroom()) return nullptr;
    std::byte* const added = data() + size_;
    size_ += static_cast<std::uint32_t>(count);
    return added;
  }

  /// Takes the first `count` bytes off; they become headroom.
  void remove_prefix(std::size_t count) noexcept {
    PINION_ASSERT(count <= size_);
    offset_ += static_cast<std::uint32_t>(count);
    size_ -= static_cast<std::uint32_t>(count);
  }

  /// Takes the last `count` bytes off; they become tailroom.
  void remove_suffix(std::size_t count) noexcept {
    PINION_ASSERT(count <= size_);
    size_ -= static_cast<std::uint32_t>(count);
  }

  /// The segment behind this one; nullptr behind the last.
  [[nodiscard]] Packet* next_segment() noexcept { return next_segment_; }
  [[nodiscard]] const Packet* next_segment() const noexcept { return next_segment_; }

  /// Makes `segment`, with what is behind it, follow this one, which was the last. The chain owns
  /// the reference. With nullptr, takes what is behind off; its reference is the caller's.
  void set_next_segment(Packet* segment) noexcept {
    PINION_DCHECK(next_segment_ == nullptr || segment == nullptr);
    PINION_DCHECK(segment == nullptr || !shared());
    next_segment_ = segment;
  }

  /// The bytes of the whole chain.
  [[nodiscard]] std::size_t chain_size() const noexcept {
    std::size_t sum = 0;
    for (const Packet* at = this; at != nullptr; at = at->next_segment_) sum += at->size_;
    return sum;
  }

  [[nodiscard]] bool has(PacketMark mark) const noexcept {
    return (marks_ & static_cast<std::uint8_t>(mark)) != 0;
  }
  void set(PacketMark mark) noexcept { marks_ |= static_cast<std::uint8_t>(mark); }

  /// Whether somebody else holds a reference to this segment too.
  [[nodiscard]] bool shared() const noexcept { return *references_ > 1; }

  /// One more holder of this segment, the last of its chain.
  void add_reference() noexcept {
    PINION_DCHECK(next_segment_ == nullptr);
    PINION_ASSERT(*references_ != UINT16_MAX);
    ++*references_;
  }

  /// Gives back one reference to this segment and to each behind it. Not touched afterwards.
  void release() noexcept {
    Packet* at = this;
    while (at != nullptr) {
      Packet* const behind = at->next_segment_;
      at->drop();
      at = behind;
    }
  }

  [[nodiscard]] PacketPool& pool() const noexcept { return *pool_; }

 private:
  friend class PacketQueue;

  void drop() noexcept {
    PINION_DCHECK(*references_ > 0);
    if (*references_ > 1) {
      --*references_;
      return;
    }
    next_segment_ = nullptr;
    pool_->give_back(*this);
  }

  std::byte* begin_ = nullptr;
  std::uint32_t offset_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint8_t marks_ = 0;
  Packet* next_segment_ = nullptr;
  Packet* next_ = nullptr;  ///< In a PacketQueue.
  PacketPool* pool_;
  std::uint16_t* references_;
};

static_assert(sizeof(Packet) == 64);

/// Holds one reference to a packet and its chain, or none.
class PacketPtr {
 public:
  PacketPtr() noexcept = default;
  /// Takes over a reference that the caller holds.
  explicit PacketPtr(Packet* packet) noexcept : packet_(packet) {}
  PacketPtr(PacketPtr&& other) noexcept : packet_(std::exchange(other.packet_, nullptr)) {}
  PacketPtr& operator=(PacketPtr&& other) noexcept {
    if (this != &other) reset(std::exchange(other.packet_, nullptr));
    return *this;
  }
  ~PacketPtr() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return packet_ != nullptr; }
  [[nodiscard]] Packet& operator*() const noexcept { return *packet_; }
  [[nodiscard]] Packet* operator->() const noexcept { return packet_; }
  [[nodiscard]] Packet* get() const noexcept { return packet_; }

  /// Hands the reference to the caller.
  [[nodiscard]] Packet* take() noexcept { return std::exchange(packet_, nullptr); }

  void reset(Packet* packet = nullptr) noexcept {
    if (packet_ != nullptr) packet_->release();
    packet_ = packet;
  }

 private:
  Packet* packet_ = nullptr;
};

/// Packets in a row, first in first out. Owns a reference to each.
class PacketQueue {
 public:
  PacketQueue() noexcept = default;
  PacketQueue(PacketQueue&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  PacketQueue& operator=(PacketQueue&&) = delete;
  ~PacketQueue() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] Packet* front() const noexcept { return first_; }

  /// Takes over the reference. A packet is in one queue at a time.
  void push_back(PacketPtr packet) noexcept {
    Packet* const added = packet.take();
    added->next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = added;
    last_ = added;
    ++count_;
  }

  /// The first packet; an empty pointer when there is none.
  [[nodiscard]] PacketPtr pop_front() noexcept {
    Packet* const taken = first_;
    if (taken == nullptr) return {};
    first_ = taken->next_;
    taken->next_ = nullptr;
    --count_;
    return PacketPtr(taken);
  }

  /// Releases all.
  void clear() noexcept {
    while (!empty()) pop_front().reset();
  }

 private:
  Packet* first_ = nullptr;
  Packet* last_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace pinion

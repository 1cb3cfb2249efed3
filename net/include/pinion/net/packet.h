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
///             The last release returns the segment to its pool.
/// Views:      a view (PacketPool::view) is a segment without a buffer, another window onto the
///             bytes of one that has one, its owner. It has a reference count, a chain link and
///             marks of its own, and holds one reference to its owner, which keeps the buffer until
///             the last view of it is gone too. It has no headroom or tailroom but what is taken
///             off its own ends. To a DPDK port a view is an indirect mbuf, its count that mbuf's.
/// Sharing:    bytes that anybody else can see are read only, be it by a reference to the same
///             segment or by a view: they may be on their way out of a device. shared() says so.
///             Headers go in front of them in a segment of their own. Since a segment has one link
///             and one window, one that is held twice (add_reference) is the last of its chain and
///             keeps its window; who wants another link or window takes a view. A segment that has
///             views gets no new link either, as its count can't tell the two apart.
/// Threading:  a packet is on one lcore at a time, its pool's or one it was handed to by a message.
///             Counts are not atomic: what is shared stays where it is.
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

  /// A view of the `size` bytes of `of` from `offset` on, as a packet of one segment: for sending
  /// bytes once more, with other boundaries or behind other headers, while somebody keeps them.
  /// `of` may be in any chain, a view itself, and of another pool of the same kind. nullptr when
  /// all views are lent out, or the buffer has as many references as can be counted.
  [[nodiscard]] virtual Packet* view(Packet& of, std::size_t offset, std::size_t size) noexcept = 0;

  /// The last reference to `segment` was given back. Its chain link is null. With a view goes its
  /// reference to the owner (release_segment).
  virtual void give_back(Packet& segment) noexcept = 0;

  /// Packets that allocate() would still give, and the most it ever could. Without views.
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

  /// For pools: the same, with the count in the packet itself.
  Packet(PacketPool& pool, std::span<std::byte> buffer, std::size_t headroom) noexcept
      : Packet(pool, own_references_, buffer, headroom) {}

  /// For pools: a view. Takes over a reference to the owner of `of`, which the pool has added
  /// (add_view) and gives back (release_segment).
  Packet(PacketPool& pool, std::uint16_t& references, Packet& of, std::size_t offset,
         std::size_t size) noexcept
      : pool_(&pool), references_(&references) {
    PINION_ASSERT(offset <= of.size());
    PINION_ASSERT(size <= of.size() - offset);
    reset({of.data() + offset, size}, 0, size);
    viewed_ = &of.owner();
  }

  /// For pools: the same, with the count in the packet itself.
  Packet(PacketPool& pool, Packet& of, std::size_t offset, std::size_t size) noexcept
      : Packet(pool, own_references_, of, offset, size) {}

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

  /// What the packet keeps from its pool, whatever it holds: the whole buffer of this segment, or
  /// that which it is a view of.
  [[nodiscard]] std::size_t true_size() const noexcept { return owner().capacity_; }

  /// The segment that has the buffer: this one, or the one that this is a view of.
  [[nodiscard]] Packet& owner() noexcept { return viewed_ != nullptr ? *viewed_ : *this; }
  [[nodiscard]] const Packet& owner() const noexcept {
    return viewed_ != nullptr ? *viewed_ : *this;
  }
  [[nodiscard]] bool is_view() const noexcept { return viewed_ != nullptr; }

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
    PINION_DCHECK(segment == nullptr || *references_ == 1);
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
  /// For whoever copies a packet, and whoever has changed its bytes.
  void copy_marks(const Packet& from) noexcept { marks_ = from.marks_; }
  void clear_marks() noexcept { marks_ = 0; }

  /// Whether somebody else can see this segment's bytes: through a reference to it, or to the owner
  /// of its buffer. They are read only then.
  [[nodiscard]] bool shared() const noexcept {
    return *references_ > 1 || (viewed_ != nullptr && *viewed_->references_ > 1);
  }

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
      Packet* const behind = std::exchange(at->next_segment_, nullptr);
      at->release_segment();
      at = behind;
    }
  }

  /// For pools: one more reference to this owner, for a view. False when no more can be counted.
  [[nodiscard]] bool add_view() noexcept {
    PINION_DCHECK(!is_view());
    if (*references_ == UINT16_MAX) return false;
    ++*references_;
    return true;
  }

  /// For pools: gives back one reference to this segment alone, which then has no link: its chain's
  /// holder has taken it along. Not touched afterwards.
  void release_segment() noexcept {
    PINION_DCHECK(*references_ > 0);
    if (*references_ > 1) {
      --*references_;
      return;
    }
    pool_->give_back(*this);
  }

  /// For pools: a segment that is free has no reference left to give back.
  void mark_free() noexcept { *references_ = 0; }

  [[nodiscard]] PacketPool& pool() const noexcept { return *pool_; }

 private:
  friend class PacketQueue;

  std::byte* begin_ = nullptr;
  std::uint32_t offset_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint8_t marks_ = 0;
  std::uint16_t own_references_ = 1;  ///< Where the count is when a pool has no place for it.
  Packet* next_segment_ = nullptr;
  Packet* next_ = nullptr;  ///< In a PacketQueue.
  PacketPool* pool_;
  std::uint16_t* references_;
  Packet* viewed_ = nullptr;  ///< The owner, for a view.
};

static_assert(sizeof(Packet) == 64);

/// Holds one reference to a packet and its chain, or none.
class PacketPtr {
 public:
  PacketPtr() noexcept = default;
  /// Takes over a reference that the caller holds.
  explicit PacketPtr(Packet* packet) noexcept : packet_(packet) {}
  PacketPtr(PacketPtr&& other) noexcept : packet_(std::exchange(other.packet_, nullptr)) {}
  PacketPtr(const PacketPtr&) = delete;
  PacketPtr& operator=(const PacketPtr&) = delete;
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
  PacketQueue(const PacketQueue&) = delete;
  PacketQueue& operator=(const PacketQueue&) = delete;
  PacketQueue& operator=(PacketQueue&&) = delete;
  ~PacketQueue() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] Packet* front() const noexcept { return first_; }

  /// Takes over the reference. A packet is in one queue at a time.
  void push_back(PacketPtr packet) noexcept {
    Packet* const added = packet.take();
    PINION_ASSERT(added != nullptr);
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

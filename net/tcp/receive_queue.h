#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/slab.h>
#include <pinion/net/packet.h>

#include "../wire/sequence_number.h"
#include "packet_chain.h"

/// What has arrived of one connection's byte stream, in order, and waits for its reader; and the
/// window that follows from it.
///
/// Ownership:  owns the packets that it holds, in a record of its ReceiveMemory, which is the same
///             one in every call and outlives the queue. clear() comes before the end. An empty
///             queue holds neither.
/// Threading:  one lcore.
/// Cost:       every operation O(1) but read(), O(bytes), and push(), O(segments).
/// Memory:     a packet is charged by its true size until its last byte is read or it is popped;
///             what the reader then does with it is no longer the queue's. A payload of fewer than
///             kCopyBreak bytes is copied behind an unread predecessor that has room, a larger one
///             too while the charge is above the limit. compact() moves a lone small payload out of
///             its packet.
/// Window:     its right edge is RCV.NXT + RCV.WND (RFC 9293, 3.3.1). It stands where the peer may
///             send what the charge leaves of the limit, and never moves left (SHLD-14): what was
///             offered is taken, though the charge grows faster than the bytes. It moves
///             right by min(limit / 2, MSS) or not at all (3.8.6.2.2).
/// Scaling:    a window that is no multiple of its unit is rounded up, so that the edge which the
///             peer sees doesn't move left either, until the bytes and the window are an eighth
///             above the limit; then down, and what was offered is honoured (RFC 7323, 2.4).
/// Full:       push() refuses a payload once the charge is above kOverdraft times the limit, or if
///             no record is left: the peer sends it again.

namespace pinion {

/// What the receive queues of one lcore share.
struct ReceiveMemory {
  Slab<PacketChain> unread;  ///< One for each queue that isn't empty.
  PacketPool& compact;       ///< Packets smaller than those that arrive, for lone small payloads.
};

class ReceiveQueue {
 public:
  static constexpr std::uint32_t kMaxLimit = std::uint32_t{1} << 29;
  static constexpr std::uint32_t kOverdraft = 4;

  /// A queue whose first byte has the number `next` and that offers a window of up to `limit`, 1 to
  /// kMaxLimit; none yet.
  ReceiveQueue(wire::SequenceNumber next, std::uint32_t limit) noexcept;
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;
  ~ReceiveQueue() { PINION_DCHECK(unread_ == nullptr); }

  /// The peer's SYN says that its first byte has the number `next`. What was offered before it did
  /// counts from there.
  void start(wire::SequenceNumber next) noexcept {
    PINION_DCHECK(empty());
    edge_ = next + window();
    next_ = next;
  }

  /// RCV.NXT, and RCV.WND as it was last offered.
  [[nodiscard]] wire::SequenceNumber next() const noexcept { return next_; }
  [[nodiscard]] std::uint32_t window() const noexcept {
    return static_cast<std::uint32_t>(edge_ - next_);
  }
  [[nodiscard]] wire::SequenceNumber edge() const noexcept { return edge_; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

  [[nodiscard]] bool empty() const noexcept { return unread_ == nullptr; }
  [[nodiscard]] std::uint32_t size() const noexcept { return empty() ? 0 : unread_->size(); }
  [[nodiscard]] std::uint32_t true_size() const noexcept {
    return empty() ? 0 : unread_->true_size();
  }

  /// Takes the bytes from next() on, which lie in the window. False when there is no room: they are
  /// released, and next() stays.
  [[nodiscard]] bool push(PacketChain bytes, ReceiveMemory& memory) noexcept;

  /// The same for a packet of one segment that has bytes.
  [[nodiscard]] bool push(PacketPtr bytes, ReceiveMemory& memory) noexcept {
    if (unread_ != nullptr) return push(PacketChain(std::move(bytes)), memory);
    PINION_DCHECK(bytes->size() <= window());
    const auto count = static_cast<std::uint32_t>(bytes->size());
    unread_ = memory.unread.allocate(*bytes.get());
    if (unread_ == nullptr) return false;
    static_cast<void>(bytes.take());
    next_ += count;
    return true;
  }

  /// The peer's FIN has the number next().
  void pass_fin() noexcept;

  /// At the end of a burst, for a queue that has got bytes in it.
  void compact(ReceiveMemory& memory) noexcept;

  /// Takes the first packet out; none when the queue is empty. Its bytes may be shared.
  [[nodiscard]] PacketPtr pop(ReceiveMemory& memory) noexcept;

  /// Moves bytes from the front into `into`; answers how many.
  std::size_t read(std::span<std::byte> into, ReceiveMemory& memory) noexcept;

  void clear(ReceiveMemory& memory) noexcept;

  /// What to write into the window field of a segment that goes out now; `scale` is 0 in one with
  /// SYN (RFC 7323, 2.2). `mss` is what the peer sends at most. If the window may not grow, it is
  /// what was offered before, less what has come.
  [[nodiscard]] std::uint16_t offer(std::uint32_t mss, unsigned scale,
                                    bool may_grow = true) noexcept;

  /// Whether reading has made so much room that the peer should hear of it, by a segment of its own
  /// if need be: two segments or half the limit, one if the window is smaller than that.
  [[nodiscard]] bool update_due(std::uint32_t mss, unsigned scale) const noexcept;

 private:
  [[nodiscard]] std::uint32_t room(unsigned scale) const noexcept;
  void drop_record_if_empty(ReceiveMemory& memory) noexcept;

  PacketChain* unread_ = nullptr;
  wire::SequenceNumber next_;
  wire::SequenceNumber edge_;
  std::uint32_t limit_;
};

static_assert(sizeof(ReceiveQueue) <= 24);

}  // namespace pinion

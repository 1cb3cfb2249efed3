#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/slab.h>
#include <pinion/net/packet.h>

#include "../wire/sequence_number.h"
#include "packet_chain.h"

/// What the application wrote and the peer has not acknowledged, by sequence number. Segments are
/// cut from it at any place, so that what is sent again may have other boundaries.
///
/// Ownership:  owns the packets that hold the bytes, in nodes of its SendMemory, which is the same
///             one in every call and outlives the queue. clear() comes before the end. An empty
///             queue holds none. A segment is the caller's; its views keep the bytes alive, also
///             after they were acknowledged.
/// Threading:  one lcore.
/// Cost:       write() O(bytes copied + segments); segment() O(1) in the first node and where
///             it goes on from the latest one, new or sent again, else a walk from the first node;
///             acknowledge() O(nodes released).
/// Memory:     packets are charged by true size. Copied bytes, and the bytes of a small packet, go
///             behind the last ones while these have room and nobody else sees them, so that small
///             writes don't take a buffer each.
/// Full:       at the limit, or without packets or nodes, write() takes less or nothing; one packet
///             may go beyond the limit.
/// Push:       a segment with the last byte queued says so (RFC 9293, 3.9.1, MUST-60 and 61).

namespace pinion {

/// One packet that is kept. Marks of what the peer holds selectively can be added here.
struct SendNode {
  SendNode* next = nullptr;
  Packet* packet = nullptr;
  wire::SequenceNumber begin;

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(packet->size());
  }
  [[nodiscard]] wire::SequenceNumber end() const noexcept { return begin + size(); }
};

/// What a queue that isn't empty has.
struct SendRecord {
  SendNode* first = nullptr;
  SendNode* last = nullptr;
  SendNode* latest = nullptr;  ///< Where the latest segment behind the first node began.
  wire::SequenceNumber end;
  std::uint32_t true_size = 0;
};

/// What the send queues of one lcore share.
struct SendMemory {
  PacketPool& packets;           ///< For headers, copied bytes, and views: the device's.
  std::size_t max_segments = 1;  ///< The longest chain that the device takes.
  Slab<SendRecord> records;
  Slab<SendNode> nodes;
};

/// A payload, ready for its header.
struct SendSegment {
  PacketPtr packet;        ///< With headroom for headers; empty when no packet was left.
  std::uint32_t size = 0;  ///< Bytes of payload.
  bool push = false;       ///< It has the last byte queued.
};

class SendQueue {
 public:
  static constexpr std::uint32_t kMaxLimit = std::uint32_t{1} << 29;

  /// A queue whose first byte will have the number `begin`.
  SendQueue(wire::SequenceNumber begin, std::uint32_t limit) noexcept
      : begin_(begin), limit_(limit) {
    PINION_ASSERT(limit <= kMaxLimit);
  }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() { PINION_DCHECK(record_ == nullptr); }

  /// The first byte that isn't acknowledged, and what the next one written gets.
  [[nodiscard]] wire::SequenceNumber begin() const noexcept { return begin_; }
  [[nodiscard]] wire::SequenceNumber end() const noexcept {
    return record_ == nullptr ? begin_ : record_->end;
  }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(end() - begin_);
  }
  [[nodiscard]] bool empty() const noexcept { return record_ == nullptr; }
  [[nodiscard]] std::uint32_t true_size() const noexcept {
    return record_ == nullptr ? 0 : record_->true_size;
  }

  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  void set_limit(std::uint32_t limit) noexcept {
    PINION_ASSERT(limit <= kMaxLimit);
    limit_ = limit;
  }

  /// Whether write() takes nothing until something is acknowledged.
  [[nodiscard]] bool full() const noexcept { return true_size() >= limit_; }

  /// Copies bytes; answers how many from the front.
  [[nodiscard]] std::size_t write(std::span<const std::byte> bytes, SendMemory& memory) noexcept;

  /// Takes segments off `chunk`, from the first on; answers how many bytes they had. An empty
  /// `chunk` was taken whole.
  [[nodiscard]] std::size_t write(PacketPtr& chunk, SendMemory& memory) noexcept;

  /// The bytes from `from` on, which is one of those queued, at most `most`: fewer where the queue
  /// ends, and where a device that takes no chains could not send more in one buffer. Few bytes are
  /// copied, and those in packets of another pool; more are views of the packets kept.
  [[nodiscard]] SendSegment segment(wire::SequenceNumber from, std::uint32_t most,
                                    SendMemory& memory) noexcept;

  /// The peer has everything before `up_to`, which lies in the queue or at its end.
  void acknowledge(wire::SequenceNumber up_to, SendMemory& memory) noexcept;

  void clear(SendMemory& memory) noexcept;

 private:
  struct Place;

  [[nodiscard]] bool add(Packet& packet, SendMemory& memory) noexcept;
  [[nodiscard]] std::size_t tail_room() const noexcept;
  void append(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] SendNode& find(wire::SequenceNumber number) noexcept;
  void release_first(SendMemory& memory) noexcept;

  SendRecord* record_ = nullptr;
  wire::SequenceNumber begin_;
  std::uint32_t limit_;
};

static_assert(sizeof(SendQueue) <= 16);
static_assert(sizeof(SendNode) <= 24);

}  // namespace pinion

#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/lib/list.h>
#include <pinion/lib/slab.h>
#include <pinion/net/packet.h>

#include "../wire/sequence_number.h"
#include "../wire/tcp_header.h"
#include "packet_chain.h"

/// What has arrived of one connection's byte stream beyond RCV.NXT, the peer's FIN included, until
/// what comes before it arrives; and what to tell the peer of it: SACK (RFC 2018) and D-SACK (RFC
/// 2883).
///
/// Ownership:  owns the packets that it holds, in a record and one block per contiguous range, of
///             its OutOfOrderMemory, which is the same one in every call and outlives it. clear()
///             comes before the end. With nothing to hold or to tell it has neither.
/// Threading:  one lcore.
/// Cost:       insert() O(blocks + segments), a few blocks as a rule, kMaxBlocks at most.
/// Overlap:    of a byte that arrives more than once, the first arrival counts.
/// Memory:     packets are charged by true size, per connection and per lcore. Bytes of a segment
///             that lie beyond a block in its midst are copied; without a packet for that they are
///             lost, and come again.
/// Full:       at a limit, blocks with higher numbers than the new segment's make room for it, the
///             highest first; without such the segment is refused, if the limit is the
///             connection's. At the lcore's, others lose everything, those first that began to hold
///             some first: a hole that isn't filled holds up nobody. OutOfOrderMemory::shed() takes
///             back likewise. What was reported may go (RFC 2018, 8).

namespace pinion {

/// A range of bytes that has arrived whole. Two blocks neither overlap nor touch.
struct OutOfOrderBlock {
  OutOfOrderBlock* next = nullptr;
  PacketChain bytes;
  wire::SequenceNumber begin;
  std::uint32_t touched = 0;  ///< When a segment last fell into it, counted by the record.

  [[nodiscard]] wire::SequenceNumber end() const noexcept { return begin + bytes.size(); }
};

class OutOfOrder;

struct OutOfOrderRecord : ListNode {
  OutOfOrder* owner = nullptr;
  OutOfOrderBlock* first = nullptr;  ///< By sequence number.
  std::uint32_t blocks = 0;
  std::uint32_t true_size = 0;
  std::uint32_t touches = 0;
  wire::SequenceNumber fin;
  wire::SackBlock duplicate;
  bool has_fin = false;
  bool has_duplicate = false;
};

struct OutOfOrderLimits {
  std::size_t connections = 0;                  ///< That have something at once.
  std::size_t blocks = 0;                       ///< Of all connections.
  std::uint64_t true_size = 0;                  ///< Bytes, of all connections.
  std::uint32_t connection_true_size = 524288;  ///< Of one, or as much as its receive buffer.
};

/// What the out-of-order queues of one lcore share.
class OutOfOrderMemory {
 public:
  explicit OutOfOrderMemory(const OutOfOrderLimits& limits) noexcept;
  OutOfOrderMemory(const OutOfOrderMemory&) = delete;
  OutOfOrderMemory& operator=(const OutOfOrderMemory&) = delete;
  ~OutOfOrderMemory() = default;

  /// Takes the memory for all of it at once; false if there is none.
  [[nodiscard]] bool reserve() noexcept {
    return records_.reserve(limits_.connections) && blocks_.reserve(limits_.blocks);
  }

  [[nodiscard]] std::uint64_t true_size() const noexcept { return true_size_; }
  [[nodiscard]] std::size_t connections() const noexcept { return records_.live(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_.live(); }

  /// Drops the bytes of connections, those first that began to hold some first, until `true_size`
  /// are released or none are left. Answers how many were.
  std::uint64_t shed(std::uint64_t true_size) noexcept;

 private:
  friend class OutOfOrder;

  [[nodiscard]] OutOfOrderRecord* add_record(OutOfOrder& owner) noexcept;
  bool evict_oldest(const OutOfOrder* but) noexcept;
  void release_record(OutOfOrderRecord& record) noexcept;
  [[nodiscard]] OutOfOrderBlock* add_block(OutOfOrderRecord& record) noexcept;
  void release_block(OutOfOrderRecord& record, OutOfOrderBlock*& link) noexcept;
  void charge(OutOfOrderRecord& record, std::uint32_t before, std::uint32_t after) noexcept;
  [[nodiscard]] bool fits(std::uint32_t true_size) const noexcept {
    return true_size_ + true_size <= limits_.true_size;
  }
  void drop_blocks(OutOfOrderRecord& record) noexcept;

  const OutOfOrderLimits limits_;
  Slab<OutOfOrderRecord> records_;
  Slab<OutOfOrderBlock> blocks_;
  List<OutOfOrderRecord> oldest_first_;
  std::uint64_t true_size_ = 0;
};

enum class OutOfOrderOutcome : std::uint8_t {
  kept,       ///< Some byte of it is new, and kept.
  duplicate,  ///< Every byte had arrived before.
  no_room,    ///< Not kept.
};

class OutOfOrder {
 public:
  static constexpr std::uint32_t kMaxBlocks = 64;

  OutOfOrder() noexcept = default;
  OutOfOrder(const OutOfOrder&) = delete;
  OutOfOrder& operator=(const OutOfOrder&) = delete;
  ~OutOfOrder() { PINION_DCHECK(record_ == nullptr); }

  /// Whether nothing is out of order, nor to be told of.
  [[nodiscard]] bool is_idle() const noexcept { return record_ == nullptr; }

  /// Whether it holds bytes.
  [[nodiscard]] bool has_bytes() const noexcept {
    return record_ != nullptr && record_->first != nullptr;
  }
  [[nodiscard]] std::uint32_t blocks() const noexcept {
    return record_ == nullptr ? 0 : record_->blocks;
  }
  [[nodiscard]] std::uint32_t true_size() const noexcept {
    return record_ == nullptr ? 0 : record_->true_size;
  }
  /// How many blocks take_report() has to tell of.
  [[nodiscard]] std::uint32_t reports() const noexcept {
    return record_ == nullptr ? 0 : record_->blocks + (record_->has_duplicate ? 1U : 0U);
  }

  /// Takes the bytes from `begin` on, all of which lie beyond RCV.NXT. With `report`, what of them
  /// had arrived before is for the next D-SACK. `buffer` is the connection's receive buffer.
  [[nodiscard]] OutOfOrderOutcome insert(wire::SequenceNumber begin, PacketChain bytes, bool report,
                                         OutOfOrderMemory& memory,
                                         std::uint32_t buffer = 0) noexcept;

  /// The bytes from RCV.NXT on have arrived: answers them with what follows them here. No limit
  /// applies, since all of them leave.
  [[nodiscard]] PacketChain join(wire::SequenceNumber next, PacketChain bytes, bool report,
                                 OutOfOrderMemory& memory) noexcept;

  /// The peer's FIN has the number `fin`; the first one said counts. Forgotten without a record.
  void remember_fin(wire::SequenceNumber fin, OutOfOrderMemory& memory) noexcept;

  /// Whether a FIN is remembered, and has the number `number`, or one before it.
  [[nodiscard]] bool fin_at(wire::SequenceNumber number) const noexcept {
    return record_ != nullptr && record_->has_fin && record_->fin == number;
  }
  [[nodiscard]] bool fin_before(wire::SequenceNumber number) const noexcept {
    return record_ != nullptr && record_->has_fin && before(record_->fin, number);
  }
  [[nodiscard]] wire::SequenceNumber fin() const noexcept {
    PINION_DCHECK(record_ != nullptr && record_->has_fin);
    return record_->fin;
  }

  /// These bytes have arrived once more: for the next D-SACK. With what is waiting for it already
  /// they are one range if they overlap or touch; else the later one counts.
  void note_duplicate(wire::SackBlock range, OutOfOrderMemory& memory) noexcept;

  /// At most `most` blocks for the acknowledgment that goes out now: the D-SACK, which is told
  /// once, then blocks, the one touched last first (RFC 2018, 4; RFC 2883, 4).
  [[nodiscard]] wire::SackBlocks take_report(std::size_t most, OutOfOrderMemory& memory) noexcept;

  void clear(OutOfOrderMemory& memory) noexcept;

 private:
  friend class OutOfOrderMemory;

  [[nodiscard]] bool make_room(std::uint32_t true_size, wire::SequenceNumber end,
                               std::uint32_t limit, OutOfOrderMemory& memory) noexcept;
  [[nodiscard]] OutOfOrderBlock* add_block(wire::SequenceNumber end,
                                           OutOfOrderMemory& memory) noexcept;
  [[nodiscard]] bool ensure_record(OutOfOrderMemory& memory) noexcept;
  void release_record_if_idle(OutOfOrderMemory& memory) noexcept;
  bool drop_highest(wire::SequenceNumber beyond, OutOfOrderMemory& memory) noexcept;
  OutOfOrderOutcome insert_pieces(wire::SequenceNumber begin, PacketChain bytes, bool report,
                                  OutOfOrderMemory& memory) noexcept;
  void touch(OutOfOrderBlock& block) noexcept { block.touched = ++record_->touches; }
  [[nodiscard]] std::uint32_t age(const OutOfOrderBlock& block) const noexcept {
    return record_->touches - block.touched;
  }
  [[nodiscard]] bool store(OutOfOrderBlock* previous, wire::SequenceNumber begin, PacketChain bytes,
                           OutOfOrderMemory& memory) noexcept;

  OutOfOrderRecord* record_ = nullptr;
};

static_assert(sizeof(OutOfOrder) == 8);
static_assert(sizeof(OutOfOrderBlock) == 40);
static_assert(sizeof(OutOfOrderRecord) <= 64);

}  // namespace pinion

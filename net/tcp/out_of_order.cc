#include "out_of_order.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pinion {
namespace {

/// Whether two ranges have a byte in common or follow each other.
bool meet(wire::SackBlock a, wire::SackBlock b) noexcept {
  return at_or_before(a.left, b.right) && at_or_before(b.left, a.right);
}

/// How many of `size` bytes from `begin` on come before `following`, which ends behind `begin`; all
/// when there is no such block.
std::uint32_t gap_before(const OutOfOrderBlock* following, wire::SequenceNumber begin,
                         std::uint32_t size) noexcept {
  if (following == nullptr) return size;
  if (at_or_before(following->begin, begin)) return 0;
  return std::min(size, static_cast<std::uint32_t>(following->begin - begin));
}

}  // namespace

OutOfOrderMemory::OutOfOrderMemory(const OutOfOrderLimits& limits) noexcept
    : limits_(limits), records_(limits.connections), blocks_(limits.blocks) {}

std::uint64_t OutOfOrderMemory::shed(std::uint64_t true_size) noexcept {
  const std::uint64_t before = true_size_;
  for (auto at = oldest_first_.begin(); at != oldest_first_.end();) {
    if (before - true_size_ >= true_size) break;
    OutOfOrderRecord& record = *at;
    ++at;
    drop_blocks(record);
    record.owner->release_record_if_idle(*this);
  }
  return before - true_size_;
}

/// A record for `owner`, for which the oldest gives way if need be.
OutOfOrderRecord* OutOfOrderMemory::add_record(OutOfOrder& owner) noexcept {
  OutOfOrderRecord* record = records_.allocate();
  if (record == nullptr && evict_oldest(nullptr)) record = records_.allocate();
  if (record == nullptr) return nullptr;
  record->owner = &owner;
  oldest_first_.push_back(*record);
  return record;
}

/// Takes everything from the connection that has held something for the longest time; false without
/// one but `but`.
bool OutOfOrderMemory::evict_oldest(const OutOfOrder* but) noexcept {
  auto at = oldest_first_.begin();
  if (at != oldest_first_.end() && (*at).owner == but) ++at;
  if (at == oldest_first_.end()) return false;
  (*at).owner->clear(*this);
  return true;
}

void OutOfOrderMemory::release_record(OutOfOrderRecord& record) noexcept {
  drop_blocks(record);
  oldest_first_.erase(record);
  records_.release(record);
}

/// A block that isn't linked yet; nullptr when the connection or the lcore has too many.
OutOfOrderBlock* OutOfOrderMemory::add_block(OutOfOrderRecord& record) noexcept {
  if (record.blocks == OutOfOrder::kMaxBlocks) return nullptr;
  OutOfOrderBlock* const block = blocks_.allocate();
  if (block != nullptr) ++record.blocks;
  return block;
}

/// Takes the block that `link` points at out of its list, and releases it with its bytes.
void OutOfOrderMemory::release_block(OutOfOrderRecord& record, OutOfOrderBlock*& link) noexcept {
  OutOfOrderBlock& block = *link;
  charge(record, block.bytes.true_size(), 0);
  link = block.next;
  --record.blocks;
  blocks_.release(block);
}

/// Bytes of `record` that were charged by `before` are charged by `after`.
void OutOfOrderMemory::charge(OutOfOrderRecord& record, std::uint32_t before,
                              std::uint32_t after) noexcept {
  record.true_size += after - before;
  true_size_ += after;
  true_size_ -= before;
}

void OutOfOrderMemory::drop_blocks(OutOfOrderRecord& record) noexcept {
  while (record.first != nullptr) release_block(record, record.first);
}

bool OutOfOrder::ensure_record(OutOfOrderMemory& memory) noexcept {
  if (record_ == nullptr) record_ = memory.add_record(*this);
  return record_ != nullptr;
}

void OutOfOrder::release_record_if_idle(OutOfOrderMemory& memory) noexcept {
  if (record_ == nullptr || record_->first != nullptr) return;
  if (!record_->has_fin && !record_->has_duplicate) clear(memory);
}

void OutOfOrder::clear(OutOfOrderMemory& memory) noexcept {
  if (record_ != nullptr) memory.release_record(*std::exchange(record_, nullptr));
}

OutOfOrderOutcome OutOfOrder::insert(wire::SequenceNumber begin, PacketChain bytes, bool report,
                                     OutOfOrderMemory& memory, std::uint32_t buffer) noexcept {
  PINION_ASSERT(!bytes.empty());
  if (!ensure_record(memory)) return OutOfOrderOutcome::no_room;
  const wire::SequenceNumber end = begin + bytes.size();
  const std::uint32_t limit = std::max(memory.limits_.connection_true_size, buffer);
  if (!make_room(bytes.true_size(), end, limit, memory)) {
    release_record_if_idle(memory);
    return OutOfOrderOutcome::no_room;
  }
  const OutOfOrderOutcome outcome = insert_pieces(begin, std::move(bytes), report, memory);
  release_record_if_idle(memory);
  return outcome;
}

/// For bytes that end at `end`: of the connection what lies behind them, of the lcore what others
/// have.
bool OutOfOrder::make_room(std::uint32_t true_size, wire::SequenceNumber end, std::uint32_t limit,
                           OutOfOrderMemory& memory) noexcept {
  while (std::uint64_t{record_->true_size} + true_size > limit) {
    if (!drop_highest(end, memory)) return false;
  }
  while (!memory.fits(true_size)) {
    if (!memory.evict_oldest(this) && !drop_highest(end, memory)) return false;
  }
  return true;
}

PacketChain OutOfOrder::join(wire::SequenceNumber next, PacketChain bytes, bool report,
                             OutOfOrderMemory& memory) noexcept {
  if (!has_bytes() || before(next + bytes.size(), record_->first->begin)) return bytes;
  // The bytes reach the first block: whatever is new of them goes to its front or behind it, which
  // needs no block.
  insert_pieces(next, std::move(bytes), report, memory);
  OutOfOrderBlock*& first = record_->first;
  PINION_DCHECK(first->begin == next);
  memory.charge(*record_, first->bytes.true_size(), 0);
  PacketChain joined = std::move(first->bytes);
  memory.release_block(*record_, first);
  release_record_if_idle(memory);
  return joined;
}

/// Goes over the blocks in order: what they have is cut off the front of `bytes`, what fills a gap
/// is stored.
OutOfOrderOutcome OutOfOrder::insert_pieces(wire::SequenceNumber begin, PacketChain bytes,
                                            bool report, OutOfOrderMemory& memory) noexcept {
  OutOfOrderOutcome outcome = OutOfOrderOutcome::duplicate;
  while (!bytes.empty()) {
    OutOfOrderBlock* previous = nullptr;
    OutOfOrderBlock* following = record_->first;
    while (following != nullptr && at_or_before(following->end(), begin)) {
      previous = std::exchange(following, following->next);
    }
    const std::uint32_t gap = gap_before(following, begin, bytes.size());
    const wire::SequenceNumber gap_end = begin + gap;
    std::uint32_t known = bytes.size() - gap;
    if (known != 0) {
      known = std::min(known, static_cast<std::uint32_t>(following->end() - gap_end));
      touch(*following);
      // Of several ranges that had arrived the first is told (RFC 2883, 4).
      if (report) note_duplicate({.left = gap_end, .right = gap_end + known}, memory);
      report = false;
    }
    begin = gap_end + known;
    if (gap == 0) {
      bytes.remove_prefix(known);
      continue;
    }
    PacketChain rest;
    if (gap + known < bytes.size()) rest = bytes.split(gap + known);
    bytes.remove_suffix(known);
    if (!store(previous, gap_end - gap, std::move(bytes), memory))
      return OutOfOrderOutcome::no_room;
    outcome = OutOfOrderOutcome::kept;
    bytes = std::move(rest);
  }
  return outcome;
}

/// Keeps bytes that lie behind `previous`, or at the front without one, and overlap nothing.
bool OutOfOrder::store(OutOfOrderBlock* previous, wire::SequenceNumber begin, PacketChain bytes,
                       OutOfOrderMemory& memory) noexcept {
  OutOfOrderBlock*& link = previous == nullptr ? record_->first : previous->next;
  const wire::SequenceNumber end = begin + bytes.size();
  OutOfOrderBlock* block = nullptr;
  if (previous != nullptr && previous->end() == begin) {
    block = previous;
    const std::uint32_t before = block->bytes.true_size();
    block->bytes.absorb(std::move(bytes), kCopyBreak - 1);
    memory.charge(*record_, before, block->bytes.true_size());
  } else if (link != nullptr && link->begin == end) {
    block = link;
    memory.charge(*record_, 0, bytes.true_size());
    bytes.splice(std::move(block->bytes));
    block->bytes = std::move(bytes);
    block->begin = begin;
  } else {
    block = add_block(end, memory);
    if (block == nullptr) return false;
    memory.charge(*record_, 0, bytes.true_size());
    block->bytes = std::move(bytes);
    block->begin = begin;
    block->next = std::exchange(link, block);
  }
  touch(*block);
  if (block->next != nullptr && block->next->begin == block->end()) {
    block->bytes.splice(std::move(block->next->bytes));
    memory.release_block(*record_, block->next);
  }
  return true;
}

/// A block for bytes that end at `end`, for which another may have to go.
OutOfOrderBlock* OutOfOrder::add_block(wire::SequenceNumber end,
                                       OutOfOrderMemory& memory) noexcept {
  OutOfOrderBlock* block = memory.add_block(*record_);
  while (block == nullptr) {
    const bool own_limit = record_->blocks == kMaxBlocks;
    const bool freed = !own_limit && memory.evict_oldest(this);
    if (!freed && !drop_highest(end, memory)) return nullptr;
    block = memory.add_block(*record_);
  }
  return block;
}

/// Drops the block with the highest numbers if it begins at `beyond` or behind it.
bool OutOfOrder::drop_highest(wire::SequenceNumber beyond, OutOfOrderMemory& memory) noexcept {
  if (record_->first == nullptr) return false;
  OutOfOrderBlock** link = &record_->first;
  while ((*link)->next != nullptr) link = &(*link)->next;
  if (before((*link)->begin, beyond)) return false;
  memory.release_block(*record_, *link);
  return true;
}

void OutOfOrder::remember_fin(wire::SequenceNumber fin, OutOfOrderMemory& memory) noexcept {
  if (!ensure_record(memory) || record_->has_fin) return;
  record_->fin = fin;
  record_->has_fin = true;
}

void OutOfOrder::note_duplicate(wire::SackBlock range, OutOfOrderMemory& memory) noexcept {
  if (!ensure_record(memory)) return;
  wire::SackBlock& told = record_->duplicate;
  if (record_->has_duplicate && meet(told, range)) {
    if (before(range.left, told.left)) told.left = range.left;
    if (after(range.right, told.right)) told.right = range.right;
  } else {
    told = range;
  }
  record_->has_duplicate = true;
}

wire::SackBlocks OutOfOrder::take_report(std::size_t most, OutOfOrderMemory& memory) noexcept {
  wire::SackBlocks report;
  if (record_ == nullptr || most == 0) return report;
  most = std::min(most, wire::SackBlocks::kMost);
  if (std::exchange(record_->has_duplicate, false)) report.push_back(record_->duplicate);
  // The ages of blocks differ, since every touch has a number of its own.
  std::uint32_t told = 0;  // Blocks of a smaller age are in the report.
  while (report.size() < most) {
    const OutOfOrderBlock* youngest = nullptr;
    for (const OutOfOrderBlock* at = record_->first; at != nullptr; at = at->next) {
      if (age(*at) < told) continue;
      if (youngest == nullptr || age(*at) < age(*youngest)) youngest = at;
    }
    if (youngest == nullptr) break;
    report.push_back({.left = youngest->begin, .right = youngest->end()});
    told = age(*youngest) + 1;
  }
  release_record_if_idle(memory);
  return report;
}

}  // namespace pinion

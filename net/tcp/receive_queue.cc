#include "receive_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pinion {
namespace {

constexpr std::uint32_t kLargestField = 65535;

}  // namespace

ReceiveQueue::ReceiveQueue(wire::SequenceNumber next, std::uint32_t limit) noexcept
    : next_(next), edge_(next), limit_(limit) {
  PINION_ASSERT(limit > 0);
  PINION_ASSERT(limit <= kMaxLimit);
}

bool ReceiveQueue::push(PacketChain bytes, ReceiveMemory& memory) noexcept {
  const std::uint32_t count = bytes.size();
  PINION_ASSERT(count <= window());
  if (count == 0) return true;
  if (unread_ == nullptr) {
    unread_ = memory.unread.allocate();
    if (unread_ == nullptr) return false;
  } else if (true_size() > kOverdraft * limit_) {
    return false;
  }
  const bool scarce = unread_->true_size() + bytes.true_size() > limit_;
  unread_->absorb(std::move(bytes), scarce ? SIZE_MAX : kCopyBreak - 1);
  next_ += count;
  return true;
}

void ReceiveQueue::pass_fin() noexcept {
  if (next_ == edge_) edge_ += 1;
  next_ += 1;
}

void ReceiveQueue::compact(ReceiveMemory& memory) noexcept {
  if (unread_ == nullptr || !unread_->is_single()) return;
  if (unread_->size() >= kCopyBreak) return;
  if (unread_->true_size() <= memory.compact.buffer_size()) return;
  PacketPtr packet(memory.compact.allocate());
  if (!packet || packet->tailroom() < unread_->size()) return;
  std::byte* const place = packet->append(unread_->size());
  std::memcpy(place, unread_->front()->data(), unread_->size());
  *unread_ = PacketChain(std::move(packet));
}

PacketPtr ReceiveQueue::pop(ReceiveMemory& memory) noexcept {
  if (unread_ == nullptr) return {};
  PacketPtr packet = unread_->pop_front();
  drop_record_if_empty(memory);
  return packet;
}

std::size_t ReceiveQueue::read(std::span<std::byte> into, ReceiveMemory& memory) noexcept {
  if (unread_ == nullptr) return 0;
  const std::size_t count = unread_->read(into);
  drop_record_if_empty(memory);
  return count;
}

void ReceiveQueue::clear(ReceiveMemory& memory) noexcept {
  if (unread_ != nullptr) memory.unread.release(*std::exchange(unread_, nullptr));
}

void ReceiveQueue::drop_record_if_empty(ReceiveMemory& memory) noexcept {
  if (unread_->empty()) clear(memory);
}

/// The window that the charge leaves and the field can express.
std::uint32_t ReceiveQueue::room(unsigned scale) const noexcept {
  const std::uint32_t charge = true_size();
  if (charge >= limit_) return 0;
  return std::min(limit_ - charge, kLargestField << scale);
}

std::uint16_t ReceiveQueue::offer(std::uint32_t mss, unsigned scale, bool may_grow) noexcept {
  const std::uint32_t possible = may_grow ? room(scale) : 0;
  if (possible > window() && possible - window() >= std::min(limit_ / 2, mss)) {
    edge_ = next_ + possible;
  }
  const std::uint32_t unit = std::uint32_t{1} << scale;
  std::uint32_t field = window() >> scale;
  const bool is_cut = (window() & (unit - 1)) != 0;
  if (is_cut && size() + ((field + 1) << scale) <= limit_ + std::max(limit_ / 8, unit)) ++field;
  field = std::min(field, kLargestField);
  const wire::SequenceNumber offered = next_ + (field << scale);
  if (after(offered, edge_)) edge_ = offered;
  return static_cast<std::uint16_t>(field);
}

bool ReceiveQueue::update_due(std::uint32_t mss, unsigned scale) const noexcept {
  const std::uint32_t possible = room(scale);
  if (possible <= window()) return false;
  const std::uint32_t segments = window() < mss ? mss : 2 * mss;
  return possible - window() >= std::min(limit_ / 2, segments);
}

}  // namespace pinion

#include "packet_chain.h"

#include <algorithm>
#include <cstring>

namespace pinion {
namespace {

std::uint32_t size_of(const Packet& segment) noexcept {
  return static_cast<std::uint32_t>(segment.size());
}

std::uint32_t true_size_of(const Packet& segment) noexcept {
  return static_cast<std::uint32_t>(segment.true_size());
}

/// What is behind `segment`, which is alone afterwards.
Packet* detach_rest(Packet& segment) noexcept {
  Packet* const rest = segment.next_segment();
  segment.set_next_segment(nullptr);
  return rest;
}

/// The bytes of `source` from `offset` on, in packets of the same pool; fewer when it has none left.
PacketChain copy_of(Packet& source, std::size_t offset) noexcept {
  PacketChain copy;
  std::span<const std::byte> left = std::as_const(source).bytes().subspan(offset);
  while (!left.empty()) {
    PacketPtr packet(source.pool().allocate());
    if (!packet) break;
    const std::size_t count = std::min(left.size(), packet->tailroom());
    if (count == 0) break;
    std::memcpy(packet->append(count), left.data(), count);
    left = left.subspan(count);
    copy.splice(PacketChain(std::move(packet)));
  }
  return copy;
}

}  // namespace

PacketChain::PacketChain(PacketPtr packet) noexcept {
  Packet* at = packet.take();
  while (at != nullptr) {
    Packet* const rest = detach_rest(*at);
    if (at->empty()) {
      at->release();
    } else {
      link(*at);
    }
    at = rest;
  }
}

PacketChain& PacketChain::operator=(PacketChain&& other) noexcept {
  if (this == &other) return *this;
  clear();
  first_ = std::exchange(other.first_, nullptr);
  last_ = std::exchange(other.last_, nullptr);
  size_ = std::exchange(other.size_, 0);
  true_size_ = std::exchange(other.true_size_, 0);
  return *this;
}

void PacketChain::link(Packet& segment) noexcept {
  if (first_ == nullptr) {
    first_ = &segment;
  } else {
    last_->set_next_segment(&segment);
  }
  last_ = &segment;
  size_ += size_of(segment);
  true_size_ += true_size_of(segment);
}

void PacketChain::splice(PacketChain&& more) noexcept {
  if (more.empty()) return;
  if (first_ == nullptr) {
    *this = std::move(more);
    return;
  }
  last_->set_next_segment(std::exchange(more.first_, nullptr));
  last_ = std::exchange(more.last_, nullptr);
  size_ += std::exchange(more.size_, 0);
  true_size_ += std::exchange(more.true_size_, 0);
}

void PacketChain::absorb(PacketChain&& more, std::size_t copy_up_to) noexcept {
  while (PacketPtr packet = more.pop_front()) {
    const std::size_t count = packet->size();
    const bool copy = last_ != nullptr && count <= copy_up_to && count <= last_->tailroom();
    if (!copy || last_->shared()) {
      link(*packet.take());
      continue;
    }
    std::memcpy(last_->append(count), packet->data(), count);
    size_ += static_cast<std::uint32_t>(count);
  }
}

void PacketChain::remove_prefix(std::uint32_t count) noexcept {
  PINION_ASSERT(count <= size_);
  while (count != 0) {
    const std::uint32_t here = size_of(*first_);
    if (here > count) {
      first_->remove_prefix(count);
      size_ -= count;
      return;
    }
    pop_front().reset();
    count -= here;
  }
}

void PacketChain::remove_suffix(std::uint32_t count) noexcept {
  PINION_ASSERT(count <= size_);
  if (count == 0) return;
  if (count == size_) {
    clear();
    return;
  }
  std::uint32_t keep = size_ - count;
  Packet* at = first_;
  std::uint32_t true_size = true_size_of(*at);
  while (keep > size_of(*at)) {
    keep -= size_of(*at);
    at = at->next_segment();
    true_size += true_size_of(*at);
  }
  PacketPtr(detach_rest(*at)).reset();
  at->remove_suffix(at->size() - keep);
  last_ = at;
  size_ -= count;
  true_size_ = true_size;
}

PacketChain PacketChain::split(std::uint32_t count) noexcept {
  PINION_ASSERT(count < size_);
  PacketChain front;
  while (!empty() && front.size_ + size_of(*first_) <= count) front.link(*pop_front().take());
  PacketChain rest;
  if (front.size_ < count) {
    const std::uint32_t keep = count - front.size_;
    const std::uint32_t cut = size_of(*first_) - keep;
    rest = copy_of(*first_, keep);
    const bool whole = rest.size_ == cut;
    first_->remove_suffix(cut);
    size_ -= cut;
    front.link(*pop_front().take());
    if (whole) rest.splice(std::move(*this));
  } else {
    rest = std::move(*this);
  }
  *this = std::move(front);
  return rest;
}

PacketPtr PacketChain::pop_front() noexcept {
  if (first_ == nullptr) return {};
  Packet* const taken = first_;
  first_ = detach_rest(*taken);
  if (first_ == nullptr) last_ = nullptr;
  size_ -= size_of(*taken);
  true_size_ -= true_size_of(*taken);
  return PacketPtr(taken);
}

std::size_t PacketChain::read(std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  while (done < into.size() && first_ != nullptr) {
    const std::size_t count = std::min(into.size() - done, first_->size());
    std::memcpy(into.data() + done, first_->data(), count);
    remove_prefix(static_cast<std::uint32_t>(count));
    done += count;
  }
  return done;
}

void PacketChain::clear() noexcept {
  PacketPtr(std::exchange(first_, nullptr)).reset();
  last_ = nullptr;
  size_ = 0;
  true_size_ = 0;
}

}  // namespace pinion

#include <pinion/net/packet_copy.h>

#include <algorithm>
#include <cstring>

namespace pinion {

std::size_t copy_out(const Packet& packet, std::size_t offset, std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  for (const Packet* at = &packet; at != nullptr && done < into.size(); at = at->next_segment()) {
    if (offset >= at->size()) {
      offset -= at->size();
      continue;
    }
    const std::size_t part = std::min(at->size() - offset, into.size() - done);
    std::memcpy(into.data() + done, at->data() + offset, part);
    done += part;
    offset = 0;
  }
  return done;
}

PacketPtr packet_of(std::span<const std::byte> bytes, PacketPool& pool) noexcept {
  PacketPtr head(pool.allocate());
  Packet* last = head.get();
  while (last != nullptr) {
    const std::size_t part = std::min(bytes.size(), last->tailroom());
    if (part > 0) std::memcpy(last->append(part), bytes.data(), part);
    bytes = bytes.subspan(part);
    if (bytes.empty()) return head;
    Packet* const next = pool.allocate();
    if (next != nullptr) last->set_next_segment(next);
    last = next;
  }
  return {};
}

PacketPtr copy_packet(const Packet& packet, PacketPool& pool) noexcept {
  const std::size_t size = packet.chain_size();
  PacketPtr copy(pool.allocate());
  Packet* last = copy.get();
  for (std::size_t done = 0; last != nullptr;) {
    const std::size_t part = std::min(size - done, last->tailroom());
    done += copy_out(packet, done, {last->append(part), part});
    if (done == size) {
      copy->copy_marks(packet);
      return copy;
    }
    Packet* const next = pool.allocate();
    if (next != nullptr) last->set_next_segment(next);
    last = next;
  }
  return {};
}

bool chain_shared(const Packet& packet) noexcept {
  const Packet* at = &packet;
  while (at != nullptr && !at->shared()) at = at->next_segment();
  return at != nullptr;
}

std::size_t chain_length(const Packet& packet) noexcept {
  std::size_t count = 0;
  for (const Packet* at = &packet; at != nullptr; at = at->next_segment()) ++count;
  return count;
}

std::size_t chain_true_size(const Packet& packet) noexcept {
  std::size_t sum = 0;
  for (const Packet* at = &packet; at != nullptr; at = at->next_segment()) sum += at->true_size();
  return sum;
}

void truncate_chain(Packet& packet, std::size_t size) noexcept {
  Packet* at = &packet;
  while (size > at->size()) {
    size -= at->size();
    at = at->next_segment();
    PINION_ASSERT(at != nullptr);
  }
  at->remove_suffix(at->size() - size);
  Packet* const behind = at->next_segment();
  if (behind == nullptr) return;
  at->set_next_segment(nullptr);
  behind->release();
}

}  // namespace pinion

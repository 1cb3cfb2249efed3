#include "send_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pinion {

/// A place in the queue: a byte of a node's packet.
struct SendQueue::Place {
  SendNode* node;
  std::size_t offset;

  [[nodiscard]] std::size_t left() const noexcept { return node->size() - offset; }
  void next_node() noexcept {
    node = node->next;
    offset = 0;
  }
};

namespace {

/// How many bytes from `at` on, of `wanted`, lie in `nodes` nodes with packets of `pool`: another
/// pool's may be of a kind that the device knows nothing of.
template <class Place>
std::size_t reach(Place at, std::size_t wanted, std::size_t nodes,
                  const PacketPool& pool) noexcept {
  std::size_t sum = 0;
  for (; nodes != 0 && sum < wanted; --nodes, at.next_node()) {
    if (&at.node->packet->pool() != &pool) break;
    sum += std::min(wanted - sum, at.left());
  }
  return sum;
}

/// Copies `count` bytes from `at` on into `into`, which has room for them.
template <class Place>
void copy_into(Packet& into, Place at, std::size_t count) noexcept {
  while (count != 0) {
    const std::size_t here = std::min(count, at.left());
    std::memcpy(into.append(here), at.node->packet->data() + at.offset, here);
    count -= here;
    at.next_node();
  }
}

/// Chains views of `count` bytes from `at` on behind `head`; answers how many it got.
template <class Place>
std::size_t add_views(Packet& head, Place at, std::size_t count, PacketPool& pool) noexcept {
  Packet* last = &head;
  std::size_t done = 0;
  while (done != count) {
    const std::size_t here = std::min(count - done, at.left());
    Packet* const view = pool.view(*at.node->packet, at.offset, here);
    if (view == nullptr) break;
    last->set_next_segment(view);
    last = view;
    done += here;
    at.next_node();
  }
  return done;
}

}  // namespace

std::size_t SendQueue::write(std::span<const std::byte> bytes, SendMemory& memory) noexcept {
  std::size_t done = std::min(bytes.size(), tail_room());
  append(bytes.first(done));
  while (done != bytes.size() && !full()) {
    PacketPtr packet(memory.packets.allocate());
    if (!packet) break;
    const std::size_t count = std::min(bytes.size() - done, packet->tailroom());
    std::memcpy(packet->append(count), bytes.data() + done, count);
    if (!add(*packet, memory)) break;
    static_cast<void>(packet.take());
    done += count;
  }
  return done;
}

std::size_t SendQueue::write(PacketPtr& chunk, SendMemory& memory) noexcept {
  std::size_t done = 0;
  while (chunk) {
    const std::size_t count = chunk->size();
    const bool copied = count < kCopyBreak && count <= tail_room();
    if (copied) {
      append(std::as_const(*chunk).bytes());
    } else if (full() || !add(*chunk, memory)) {
      break;
    }
    Packet* const taken = chunk.take();
    chunk.reset(taken->next_segment());
    taken->set_next_segment(nullptr);
    if (copied) taken->release();
    done += count;
  }
  return done;
}

/// How many bytes can be copied behind the last ones.
std::size_t SendQueue::tail_room() const noexcept {
  if (record_ == nullptr || record_->last->packet->shared()) return 0;
  return record_->last->packet->tailroom();
}

void SendQueue::append(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;
  std::memcpy(record_->last->packet->append(bytes.size()), bytes.data(), bytes.size());
  record_->end += static_cast<std::uint32_t>(bytes.size());
}

/// Puts the first segment of `packet` behind the last; false without memory for that.
bool SendQueue::add(Packet& packet, SendMemory& memory) noexcept {
  SendNode* const node = memory.nodes.allocate(SendNode{.packet = &packet, .begin = end()});
  if (node == nullptr) return false;
  if (record_ == nullptr) {
    record_ = memory.records.allocate(SendRecord{.first = node, .last = node, .end = begin_});
    if (record_ == nullptr) {
      memory.nodes.release(*node);
      return false;
    }
  } else {
    record_->last->next = node;
    record_->last = node;
  }
  record_->end += node->size();
  record_->true_size += static_cast<std::uint32_t>(packet.true_size());
  return true;
}

SendSegment SendQueue::segment(wire::SequenceNumber from, std::uint32_t most,
                               SendMemory& memory) noexcept {
  PINION_ASSERT(between(begin_, from, end()));
  PINION_ASSERT(most > 0);
  SendSegment segment{.packet = PacketPtr(memory.packets.allocate())};
  if (!segment.packet) return segment;
  const std::size_t wanted = std::min(most, static_cast<std::uint32_t>(end() - from));
  const std::size_t copyable = std::min(wanted, segment.packet->tailroom());
  SendNode& node = find(from);
  const Place at{&node, static_cast<std::size_t>(from - node.begin)};
  std::size_t viewed = 0;
  if (wanted >= kCopyBreak) {
    const std::size_t viewable = reach(at, wanted, memory.max_segments - 1, memory.packets);
    if (viewable == wanted || viewable > copyable) {
      viewed = add_views(*segment.packet, at, viewable, memory.packets);
    }
  }
  if (viewed == 0) copy_into(*segment.packet, at, copyable);
  segment.size = static_cast<std::uint32_t>(viewed == 0 ? copyable : viewed);
  segment.push = from + segment.size == end();
  return segment;
}

/// The node with the byte `number`, which is queued.
SendNode& SendQueue::find(wire::SequenceNumber number) noexcept {
  SendNode* const latest = record_->latest;
  const bool is_ahead = latest != nullptr && at_or_after(number, latest->begin);
  SendNode* node = is_ahead ? latest : record_->first;
  while (at_or_after(number, node->end())) node = node->next;
  // Not the first one: it is sent again alone, in the midst of what follows.
  if (node != record_->first) record_->latest = node;
  return *node;
}

void SendQueue::acknowledge(wire::SequenceNumber up_to, SendMemory& memory) noexcept {
  PINION_ASSERT(at_or_after(up_to, begin_));
  PINION_ASSERT(at_or_before(up_to, end()));
  begin_ = up_to;
  while (record_ != nullptr && at_or_before(record_->first->end(), up_to)) release_first(memory);
}

void SendQueue::clear(SendMemory& memory) noexcept {
  while (record_ != nullptr) release_first(memory);
}

void SendQueue::release_first(SendMemory& memory) noexcept {
  SendNode* const node = record_->first;
  record_->first = node->next;
  if (record_->latest == node) record_->latest = nullptr;
  record_->true_size -= static_cast<std::uint32_t>(node->packet->true_size());
  node->packet->release();
  memory.nodes.release(*node);
  if (record_->first == nullptr) memory.records.release(*std::exchange(record_, nullptr));
}

}  // namespace pinion

#include "link_direction.h"

#include <algorithm>
#include <utility>

#include <pinion/net/packet_copy.h>

namespace pinion::detail {
namespace {

constexpr std::size_t kEthernetHeader = 14;
/// IEEE 802.3: without its checksum of 4 bytes a frame has at least 60; in front of it stand 8
/// bytes of preamble, behind it the gap of 12.
constexpr std::size_t kLeastFrame = 60;
constexpr std::size_t kFraming = 8 + 4 + 12;

}  // namespace

LinkDirection::LinkDirection(const LinkOptions& options, PacketPool& pool)
    : options_(options),
      pool_(pool),
      line_(options.bits_per_second),
      frames_(options.capacity_packets) {}

LinkDirection::~LinkDirection() {
  for (; first_ != end_; ++first_) frame(first_).packet->release();
}

void LinkDirection::send(PacketPtr packet, Instant now) noexcept {
  const std::size_t bytes = packet->chain_size();
  count_departures(now);
  if (!admits(*packet, bytes)) return;
  ++sent_packets_;
  sent_bytes_ += bytes;
  // What the receiver has no room for takes the line's time all the same.
  const Instant departs = line_.send(time_on_line(bytes), now);
  if (end_ - first_ == frames_.size()) {
    ++drops_.capacity_full;
    return;
  }
  PacketPtr received = as_received(std::move(packet));
  if (!received) {
    ++drops_.no_buffer;
    return;
  }
  frame(end_) = {.packet = received.take(), .bytes = bytes, .departs = departs};
  ++end_;
  queued_bytes_ += bytes;
}

std::size_t LinkDirection::receive(Instant now, std::span<Packet*> into) noexcept {
  count_departures(now);
  std::size_t count = 0;
  while (count < into.size() && next_arrival() <= now && first_ != end_) {
    const Frame& taken = frame(first_);
    into[count] = taken.packet;
    ++count;
    ++received_packets_;
    received_bytes_ += taken.bytes;
    ++first_;
  }
  return count;
}

Instant LinkDirection::next_arrival() const noexcept {
  if (first_ == end_) return kNever;
  return frames_[first_ % frames_.size()].departs + options_.delay;
}

/// Whether the packet may wait for the line; counts why not.
bool LinkDirection::admits(const Packet& packet, std::size_t bytes) noexcept {
  if (bytes > kEthernetHeader + options_.mtu) {
    ++drops_.too_long;
    return false;
  }
  if (chain_length(packet) > options_.max_tx_segments) {
    ++drops_.too_many_segments;
    return false;
  }
  const std::uint64_t queued = end_ - departed_;
  if (queued == 0) return true;
  const bool fits = queued < options_.queue_packets && queued_bytes_ <= options_.queue_bytes &&
                    bytes <= options_.queue_bytes - queued_bytes_;
  if (!fits) ++drops_.queue_full;
  return fits;
}

/// The packet that the receiver will get: one that nobody else sees, of its pool.
PacketPtr LinkDirection::as_received(PacketPtr packet) noexcept {
  const bool passes = &packet->pool() == &pool_ && packet->next_segment() == nullptr &&
                      !packet->is_view() && !packet->shared();
  PacketPtr received = passes ? std::move(packet) : copy_packet(*packet, pool_);
  if (received) received->clear_marks();
  return received;
}

void LinkDirection::count_departures(Instant now) noexcept {
  while (departed_ != end_ && frame(departed_).departs <= now) {
    queued_bytes_ -= frame(departed_).bytes;
    ++departed_;
  }
}

std::size_t LinkDirection::time_on_line(std::size_t bytes) const noexcept {
  return options_.count_framing ? std::max(bytes, kLeastFrame) + kFraming : bytes;
}

}  // namespace pinion::detail

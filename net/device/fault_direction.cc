#include "fault_direction.h"

#include <algorithm>
#include <utility>

#include <pinion/net/packet_copy.h>

namespace pinion::detail {
namespace {

/// Whether `a` goes after `b`.
bool later(const FaultDirection::Held& a, const FaultDirection::Held& b) noexcept {
  return a.due != b.due ? a.due > b.due : a.number > b.number;
}

/// The bytes of a chain, by their number.
std::byte& byte_at(Packet& packet, std::size_t index) noexcept {
  Packet* at = &packet;
  while (index >= at->size()) {
    index -= at->size();
    at = at->next_segment();
  }
  return at->data()[index];
}

}  // namespace

FaultDirection::FaultDirection(const FaultPlan& plan, std::uint64_t seed, std::size_t hold_packets,
                               PacketPool& pool)
    : plan_(plan),
      pool_(pool),
      line_(plan.bits_per_second),
      loss_(seed),
      duplication_(seed + 1),
      reordering_(seed + 2),
      corruption_(seed + 3),
      truncation_(seed + 4),
      jitter_(seed + 5) {
  held_.reserve(hold_packets);
}

FaultDirection::~FaultDirection() {
  for (const Held& held : held_) held.packet->release();
}

void FaultDirection::admit(PacketPtr packet, Instant now) noexcept {
  ++stats_.packets;
  const Fate fate = draw();
  if (partitioned(now)) {
    ++stats_.partitioned;
    return;
  }
  if (fate.lost) {
    ++stats_.lost;
    return;
  }
  if (!spoil(packet, fate)) {
    ++stats_.no_buffer;
    return;
  }
  PacketPtr copy;
  if (fate.duplicated) {
    copy = copy_packet(*packet, pool_);
    ++(copy ? stats_.duplicated : stats_.not_duplicated);
  }
  const Instant due = due_time(packet->chain_size(), fate, now);
  if (fate.reordered) ++stats_.reordered;
  if (!hold(std::move(packet), due)) ++stats_.overflowed;
  if (copy && !hold(std::move(copy), due)) ++stats_.overflowed;
}

std::optional<FaultDirection::Held> FaultDirection::take_due(Instant now) noexcept {
  if (next_due() > now || held_.empty()) return std::nullopt;
  std::pop_heap(held_.begin(), held_.end(), &later);
  const Held first = held_.back();
  held_.pop_back();
  return first;
}

void FaultDirection::put_back(const Held& held) noexcept {
  PINION_DCHECK(room() != 0);
  held_.push_back(held);
  std::push_heap(held_.begin(), held_.end(), &later);
}

FaultDirection::Fate FaultDirection::draw() noexcept {
  Fate fate;
  fate.lost = loss_.chance(plan_.loss);
  fate.duplicated = duplication_.chance(plan_.duplication);
  fate.reordered = reordering_.chance(plan_.reordering);
  fate.corrupted = corruption_.chance(plan_.corruption);
  fate.corruption = corruption_.next();
  fate.truncated = truncation_.chance(plan_.truncation);
  fate.truncation = truncation_.next();
  const auto most = static_cast<std::uint64_t>(plan_.jitter.count());
  fate.jitter = std::chrono::nanoseconds(jitter_.between<std::uint64_t>(0, most));
  return fate;
}

bool FaultDirection::partitioned(Instant now) noexcept {
  const auto& partitions = plan_.partitions;
  while (next_partition_ != partitions.size() && partitions[next_partition_].until <= now) {
    ++next_partition_;
  }
  return next_partition_ != partitions.size() && partitions[next_partition_].from <= now;
}

/// Cuts the packet and inverts bits of it, in a copy if anybody else can see it. False when there
/// is no packet for the copy.
bool FaultDirection::spoil(PacketPtr& packet, const Fate& fate) noexcept {
  const std::size_t size = packet->chain_size();
  const bool cut = fate.truncated && size > 1;
  const bool inverted = fate.corrupted && size != 0;
  if (!cut && !inverted) return true;
  if (chain_shared(*packet)) {
    PacketPtr copy = copy_packet(*packet, pool_);
    if (!copy) return false;
    packet = std::move(copy);
  }
  packet->clear_marks();  // What the device has verified is no longer so.
  if (cut) truncate(*packet, fate.truncation);
  if (inverted) corrupt(*packet, fate.corruption);
  return true;
}

void FaultDirection::truncate(Packet& packet, std::uint64_t seed) noexcept {
  Random random(seed);
  truncate_chain(packet, random.between<std::size_t>(1, packet.chain_size() - 1));
  ++stats_.truncated;
}

void FaultDirection::corrupt(Packet& packet, std::uint64_t seed) noexcept {
  Random random(seed);
  const std::size_t bits = packet.chain_size() * 8;
  const std::size_t longest = std::min<std::size_t>(plan_.corrupted_bits, bits);
  const std::size_t run = random.between<std::size_t>(1, longest);
  const std::size_t first = random.between<std::size_t>(0, bits - run);
  for (std::size_t bit = first; bit < first + run; ++bit) {
    byte_at(packet, bit / 8) ^= std::byte{0x80} >> (bit % 8);
  }
  ++stats_.corrupted;
}

Instant FaultDirection::due_time(std::size_t bytes, const Fate& fate, Instant now) noexcept {
  const Instant sent = line_.send(bytes, now);
  const Instant due = std::max(last_due_, sent + plan_.delay + fate.jitter);
  if (fate.reordered) return due + plan_.reorder_by;
  last_due_ = due;
  return due;
}

bool FaultDirection::hold(PacketPtr packet, Instant due) noexcept {
  if (room() == 0) return false;
  put_back({.due = due, .number = next_number_, .packet = packet.take()});
  ++next_number_;
  return true;
}

}  // namespace pinion::detail

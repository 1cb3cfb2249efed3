#include "syn_cache.h"

#include <algorithm>

#include <pinion/lib/assert.h>

namespace pinion {

SynCache::SynCache(const SynCacheOptions& options, const SipKey& secret) noexcept
    : secret_(secret),
      timeout_ms_(options.timeout_ms),
      retransmissions_(options.retransmissions),
      pool_(options.limit),
      table_(options.limit),
      locals_(options.local_addresses) {
  PINION_ASSERT(options.retransmissions <= kMostRetransmissions);
}

SynRecord* SynCache::insert(const FourTuple& tuple, const SynRecord& record, Instant now) noexcept {
  PINION_DCHECK(find(tuple) == nullptr);
  if (pool_.size() == pool_.limit()) return nullptr;
  const auto local = locals_.take(tuple.local);
  if (!local) return nullptr;
  const Index index = pool_.allocate();
  SynRecord& stored = pool_[index];
  stored = record;
  stored.remote = tuple.remote;
  stored.remote_port = tuple.remote_port;
  stored.local_port = tuple.local_port;
  stored.local_address = *local;
  stored.retransmissions = 0;
  stored.answered = false;
  stored.challenged = no_challenge_second(now) & 0x1fU;
  enqueue(index, now);
  const bool inserted = table_.insert(table_hash(secret_, tuple), index);
  PINION_ASSERT(inserted);
  return &stored;
}

SynRecord* SynCache::find(const FourTuple& tuple) noexcept {
  const auto found = table_.find(table_hash(secret_, tuple), [&](std::uint32_t index) {
    return tuple_of(pool_[static_cast<Index>(index)]) == tuple;
  });
  return found ? &pool_[static_cast<Index>(*found)] : nullptr;
}

void SynCache::remove(const SynRecord& record) noexcept {
  const Index index = pool_.index_of(record);
  table_.erase(table_hash(secret_, tuple_of(record)), index);
  locals_.give_back(record.local_address);
  queues_[record.retransmissions].erase(pool_, index);
  pool_.release(index);
}

void SynCache::remove_all_for(std::uint16_t listener) noexcept {
  for (const auto& queue : queues_) {
    Index at = queue.front();
    while (at != RecordPool<SynRecord>::kNone) {
      const SynRecord& record = pool_[at];
      at = record.next;
      if (record.listener == listener) remove(record);
    }
  }
}

void SynCache::enqueue(Index index, Instant now) noexcept {
  constexpr std::uint32_t kLongest = 60'000;  // As for every timeout (RFC 6298, 2.5).
  SynRecord& record = pool_[index];
  const std::uint32_t delay = std::min(timeout_ms_ << record.retransmissions, kLongest);
  record.due = RecordTime::after(now, delay);
  queues_[record.retransmissions].push_back(pool_, index);
}

void SynCache::requeue(Index index, Instant now) noexcept {
  SynRecord& record = pool_[index];
  queues_[record.retransmissions].erase(pool_, index);
  ++record.retransmissions;
  record.answered = false;
  enqueue(index, now);
}

Instant SynCache::next_expiry(Instant now) const noexcept {
  Instant next = kNever;
  for (const auto& queue : queues_) {
    if (queue.front() == RecordPool<SynRecord>::kNone) continue;
    next = std::min(next, pool_[queue.front()].due.near(now));
  }
  return next;
}

}  // namespace pinion

#include "neighbours.h"

#include <algorithm>
#include <utility>

#include <pinion/lib/random.h>
#include <pinion/net/packet_copy.h>

namespace pinion {
namespace {

/// How fine `used` is: a busy neighbour moves to the young end of the table once in this time.
constexpr Delay kUsedGranularity = std::chrono::seconds{1};

/// MIN_RANDOM_FACTOR and MAX_RANDOM_FACTOR of 30 s.
Delay draw_reachable_time(std::uint64_t seed) noexcept {
  return std::chrono::milliseconds{Random(seed).between(15'000, 45'000)};
}

}  // namespace

NeighbourCache::Timer::Timer(NeighbourCache& its) noexcept
    : TimerEntry([](TimerEntry& entry) {
        NeighbourCache& its_owner = static_cast<Timer&>(entry).cache;
        its_owner.on_due(its_owner.wheel_.now());
      }),
      cache(its) {}

NeighbourCache::NeighbourCache(const NeighbourOptions& options, NeighbourHost& host,
                               TimingWheel& wheel, IpCounters& counters, std::uint64_t seed)
    : host_(host),
      wheel_(wheel),
      counters_(counters),
      held_limit_(options.held_packets),
      held_byte_limit_(options.held_bytes),
      reachable_time_(draw_reachable_time(seed)),
      table_(options.capacity, seed + 1) {
  PINION_ASSERT(options.capacity >= 2);
}

NeighbourCache::~NeighbourCache() {
  retransmits_.clear();
  delays_.clear();
  waits_.clear();
}

void NeighbourCache::send(std::uint8_t interface, const IpAddress& to, PacketPtr packet,
                          Instant now) noexcept {
  const NeighbourKey key{.address = to, .interface = interface};
  Neighbour* const found = table_.find(key);
  if (found == nullptr) {
    Neighbour* const asked = ask_for(key, now);
    if (asked == nullptr) {
      ++counters_.neighbour_cache_full;
      return;
    }
    hold(*asked, std::move(packet));
    host_.solicit(interface, to, nullptr, now);
    return;
  }
  touch(*found, now);
  if (found->state == NeighbourState::incomplete) {
    hold(*found, std::move(packet));
    return;
  }
  const bool lapsed = found->state == NeighbourState::reachable &&
                      saturating_sub(now, found->confirmed) > reachable_time_;
  if (lapsed || found->state == NeighbourState::stale) enter(*found, NeighbourState::delay, now);
  host_.transmit(interface, found->mac, std::move(packet), now);
}

void NeighbourCache::answered(std::uint8_t interface, const IpAddress& from,
                              const NeighbourAnswer& answer, Instant now) noexcept {
  Neighbour* const found = table_.find({.address = from, .interface = interface});
  const bool asked = found != nullptr && (found->state == NeighbourState::incomplete ||
                                          found->state == NeighbourState::probe);
  if (!asked) {
    ++counters_.neighbour_not_asked;
    return;
  }
  if (found->state == NeighbourState::incomplete) {
    if (answer.mac == nullptr) {
      ++counters_.neighbour_bad;
      return;
    }
    found->mac = *answer.mac;
    enter(*found, answer.solicited ? NeighbourState::reachable : NeighbourState::stale, now);
    flush(*found, now);
    return;
  }
  // RFC 4861, 7.2.5, for an entry that has an address already.
  const bool differs = answer.mac != nullptr && *answer.mac != found->mac;
  if (differs && !answer.override) return;
  if (differs) found->mac = *answer.mac;
  if (answer.solicited) {
    enter(*found, NeighbourState::reachable, now);
  } else if (differs) {
    enter(*found, NeighbourState::stale, now);
  }
}

void NeighbourCache::asked_by(std::uint8_t interface, const IpAddress& from, const MacAddress& mac,
                              Instant now) noexcept {
  const NeighbourKey key{.address = from, .interface = interface};
  Neighbour* found = table_.find(key);
  if (found == nullptr) {
    found = make(key, now);
    if (found == nullptr) {
      ++counters_.neighbour_cache_full;
      return;
    }
    // Nothing was sent to it so far: of a flood of invented senders, each displaces the last.
    found->used = Instant::min();
    table_.make_oldest(*found);
    found->mac = mac;
    enter(*found, NeighbourState::stale, now);
    return;
  }
  const bool was_incomplete = found->state == NeighbourState::incomplete;
  if (!was_incomplete && found->mac == mac) return;
  found->mac = mac;
  enter(*found, NeighbourState::stale, now);
  if (!was_incomplete) return;
  const bool waited = !found->held.empty();
  flush(*found, now);
  if (waited) enter(*found, NeighbourState::delay, now);
}

void NeighbourCache::confirm(std::uint8_t interface, const IpAddress& to, Instant now) noexcept {
  Neighbour* const found = table_.find({.address = to, .interface = interface});
  if (found == nullptr || found->state == NeighbourState::incomplete) return;
  if (found->state == NeighbourState::reachable) {
    found->confirmed = now;
    return;
  }
  enter(*found, NeighbourState::reachable, now);
}

void NeighbourCache::suspect(std::uint8_t interface, const IpAddress& to, Instant now) noexcept {
  Neighbour* const found = table_.find({.address = to, .interface = interface});
  if (found == nullptr) return;
  const NeighbourState state = found->state;
  if (state == NeighbourState::incomplete || state == NeighbourState::probe) return;
  const bool answers = state == NeighbourState::reachable &&
                       saturating_sub(now, found->confirmed) < kDelayFirstProbe;
  if (answers) return;
  enter(*found, NeighbourState::probe, now);
  rearm();
  host_.solicit(interface, to, &found->mac, now);
}

std::optional<NeighbourState> NeighbourCache::state(std::uint8_t interface,
                                                    const IpAddress& address,
                                                    Instant now) const noexcept {
  const Neighbour* const found = table_.find({.address = address, .interface = interface});
  if (found == nullptr) return std::nullopt;
  const bool lapsed = found->state == NeighbourState::reachable &&
                      saturating_sub(now, found->confirmed) > reachable_time_;
  return lapsed ? NeighbourState::stale : found->state;
}

/// A new record, if need be in the place of one that is out of use.
NeighbourCache::Neighbour* NeighbourCache::make(const NeighbourKey& key, Instant now) noexcept {
  if (table_.full()) {
    Neighbour& oldest = table_.oldest();
    // What is being asked about is in use, too, should the wheel be late.
    if (saturating_sub(now, oldest.used) < kActive || DueList::linked(oldest)) return nullptr;
    table_.erase(oldest);
    ++counters_.neighbours_displaced;
  }
  return table_.insert(key);
}

NeighbourCache::Neighbour* NeighbourCache::ask_for(const NeighbourKey& key, Instant now) noexcept {
  if (incomplete_ >= table_.capacity() / 2) return nullptr;
  Neighbour* const made = make(key, now);
  if (made == nullptr) return nullptr;
  made->used = now;
  ++incomplete_;
  made->asked = 1;
  made->due = now + kRetransmit;
  retransmits_.push_back(*made);
  rearm();
  return made;
}

void NeighbourCache::touch(Neighbour& neighbour, Instant now) noexcept {
  if (saturating_sub(now, neighbour.used) < kUsedGranularity) return;
  neighbour.used = now;
  table_.make_newest(neighbour);
}

void NeighbourCache::hold(Neighbour& neighbour, PacketPtr packet) noexcept {
  const std::size_t cost = chain_true_size(*packet);
  if (held_limit_ == 0 || cost > held_byte_limit_) {
    ++counters_.neighbour_queue_full;
    return;
  }
  if (neighbour.held.size() == kHeldPerNeighbour) drop_one(neighbour);
  while (held_ >= held_limit_ || held_bytes_ + cost > held_byte_limit_) drop_one(waits_.front());
  if (neighbour.held.empty()) waits_.push_back(neighbour);
  neighbour.held.push_back(std::move(packet));
  ++held_;
  held_bytes_ += cost;
}

/// The oldest packet that waits for the neighbour, if there is one.
PacketPtr NeighbourCache::let_go(Neighbour& neighbour) noexcept {
  PacketPtr packet = neighbour.held.pop_front();
  if (!packet) return packet;
  --held_;
  held_bytes_ -= chain_true_size(*packet);
  if (neighbour.held.empty()) WaitList::erase(neighbour);
  return packet;
}

void NeighbourCache::drop_one(Neighbour& neighbour) noexcept {
  let_go(neighbour).reset();
  ++counters_.neighbour_queue_full;
}

void NeighbourCache::flush(Neighbour& neighbour, Instant now) noexcept {
  while (PacketPtr packet = let_go(neighbour)) {
    host_.transmit(neighbour.key.interface, neighbour.mac, std::move(packet), now);
  }
}

/// Enters any state but INCOMPLETE, which a neighbour is born in.
void NeighbourCache::enter(Neighbour& neighbour, NeighbourState state, Instant now) noexcept {
  if (DueList::linked(neighbour)) {
    DueList::erase(neighbour);
    if (neighbour.state == NeighbourState::incomplete) --incomplete_;
  }
  neighbour.state = state;
  if (state == NeighbourState::reachable) neighbour.confirmed = now;
  if (state == NeighbourState::delay) {
    neighbour.due = now + kDelayFirstProbe;
    delays_.push_back(neighbour);
    rearm();
  }
  if (state == NeighbourState::probe) {
    neighbour.asked = 1;
    neighbour.due = now + kRetransmit;
    retransmits_.push_back(neighbour);
  }
}

void NeighbourCache::give_up(Neighbour& neighbour, Instant now) noexcept {
  ++counters_.neighbours_unreachable;
  if (neighbour.state == NeighbourState::incomplete) --incomplete_;
  const NeighbourKey key = neighbour.key;
  PacketQueue held;
  while (PacketPtr packet = let_go(neighbour)) held.push_back(std::move(packet));
  table_.erase(neighbour);
  // The transports that hear of it may send again: the cache must be in order by now.
  while (PacketPtr packet = held.pop_front()) {
    host_.unreachable(key.interface, key.address, std::move(packet), now);
  }
}

void NeighbourCache::on_due(Instant now) noexcept {
  while (!delays_.empty() && delays_.front().due <= now) {
    Neighbour& neighbour = delays_.front();
    enter(neighbour, NeighbourState::probe, now);
    host_.solicit(neighbour.key.interface, neighbour.key.address, &neighbour.mac, now);
  }
  while (!retransmits_.empty() && retransmits_.front().due <= now) {
    Neighbour& neighbour = *retransmits_.pop_front();
    if (neighbour.asked == kSolicitations) {
      give_up(neighbour, now);
      continue;
    }
    ++neighbour.asked;
    neighbour.due = now + kRetransmit;
    retransmits_.push_back(neighbour);
    const bool probes = neighbour.state == NeighbourState::probe;
    host_.solicit(neighbour.key.interface, neighbour.key.address, probes ? &neighbour.mac : nullptr,
                  now);
  }
  rearm();
}

void NeighbourCache::rearm() noexcept {
  Instant first = kNever;
  if (!retransmits_.empty()) first = retransmits_.front().due;
  if (!delays_.empty()) first = std::min(first, delays_.front().due);
  // Without anything due the timer stays as it is, and finds nothing when it fires.
  if (first != kNever) wheel_.extend(timer_, first);
}

}  // namespace pinion

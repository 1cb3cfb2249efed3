#include "reassembly.h"

#include <utility>

#include <pinion/net/packet_copy.h>

namespace pinion {
namespace {

constexpr std::uint8_t kNotEct = 0;
constexpr std::uint8_t kCongestionExperienced = 3;

std::uint8_t bit_of(std::uint8_t ecn) noexcept {
  return static_cast<std::uint8_t>(1U << ecn);
}

/// The codepoint of a datagram whose fragments had those in `seen` (RFC 3168, 5.3). Some with CE
/// and some not capable of ECN at all should be no datagram, says the RFC: see `mixes_ecn`.
std::uint8_t merged_ecn(std::uint8_t seen) noexcept {
  if ((seen & bit_of(kCongestionExperienced)) != 0) return kCongestionExperienced;
  if ((seen & bit_of(kNotEct)) != 0) return kNotEct;
  return (seen & bit_of(2)) != 0 ? 2 : 1;
}

bool mixes_ecn(std::uint8_t seen) noexcept {
  const auto both = static_cast<std::uint8_t>(bit_of(kCongestionExperienced) | bit_of(kNotEct));
  return (seen & both) == both;
}

}  // namespace

Reassembly::Timer::Timer(Reassembly& its) noexcept
    : TimerEntry([](TimerEntry& entry) {
        Reassembly& its_owner = static_cast<Timer&>(entry).reassembly;
        its_owner.on_due(its_owner.wheel_.now());
      }),
      reassembly(its) {}

Reassembly::Reassembly(const ReassemblyOptions& options, ReassemblyHost& host, TimingWheel& wheel,
                       IpCounters& counters, std::uint64_t seed)
    : host_(host),
      wheel_(wheel),
      counters_(counters),
      byte_limit_(options.bytes),
      fragments_(options.fragments),
      table_(options.datagrams, seed) {
  PINION_ASSERT(options.fragments >= kMostFragments);
  const bool reserved = fragments_.reserve(options.fragments);
  PINION_ASSERT(reserved);
}

Reassembly::~Reassembly() {
  while (!table_.empty()) drop_oldest();
}

ReassemblyResult Reassembly::insert(PacketPtr packet, const FragmentKey& key,
                                    const FragmentPlace& place, Instant now) noexcept {
  PINION_DCHECK(place.size > 0 && (place.size % 8 == 0 || !place.more));
  PINION_DCHECK(packet->chain_size() == place.header_size + place.size);
  Datagram& datagram = *find_or_make(key, now);
  if (datagram.condemned) {
    ++counters_.fragment_condemned;
    return {};
  }
  Fragment* before = nullptr;
  const Fit fit = find_place(datagram, place, before);
  if (fit == Fit::repeats) {
    ++counters_.fragment_repeated;
    return {};
  }
  if (fit == Fit::overlaps || !agrees_on_end(datagram, place)) {
    ++counters_.fragment_overlap;
    condemn(datagram);
    return {};
  }
  if (datagram.count == kMostFragments) {
    ++counters_.fragment_too_many;
    condemn(datagram);
    return {};
  }
  const std::size_t cost = chain_true_size(*packet);
  if (!make_room(datagram, cost)) {
    ++counters_.fragment_no_room;
    condemn(datagram);
    return {};
  }

  Fragment* const fragment = fragments_.allocate(std::move(packet), place.offset,
                                                 place.offset + place.size, place.header_size);
  bytes_ += cost;
  Fragment*& link = before == nullptr ? datagram.first : before->next;
  fragment->next = link;
  link = fragment;
  if (fragment->next == nullptr) datagram.last = fragment;
  datagram.have += place.size;
  ++datagram.count;
  datagram.ecn_seen |= bit_of(place.ecn);
  if (datagram.size == 0 || datagram.have < datagram.size) {
    return {.fate = FragmentFate::held};
  }
  return finish(datagram);
}

Reassembly::Datagram* Reassembly::find_or_make(const FragmentKey& key, Instant now) noexcept {
  if (Datagram* const found = table_.find(key)) return found;
  if (table_.full()) displace();
  Datagram* const made = table_.insert(key);
  made->expires = now + kTimeout;
  if (!timer_.armed()) wheel_.arm(timer_, made->expires);
  return made;
}

/// Whether the datagram can end where this fragment lets it.
bool Reassembly::agrees_on_end(Datagram& datagram, const FragmentPlace& place) noexcept {
  const std::uint32_t end = place.offset + place.size;
  if (place.more) return datagram.size == 0 || end < datagram.size;
  if (datagram.size != 0) return end == datagram.size;
  if (datagram.last != nullptr && datagram.last->end > place.offset) return false;
  datagram.size = end;
  return true;
}

/// Where the fragment goes: behind `before`, first when that is null.
Reassembly::Fit Reassembly::find_place(const Datagram& datagram, const FragmentPlace& place,
                                       Fragment*& before) noexcept {
  const std::uint32_t end = place.offset + place.size;
  if (datagram.last != nullptr && datagram.last->end <= place.offset) {
    before = datagram.last;
    return Fit::fits;
  }
  Fragment* after = datagram.first;
  while (after != nullptr && after->end <= place.offset) {
    before = after;
    after = after->next;
  }
  if (after == nullptr || after->offset >= end) return Fit::fits;
  const bool last_too = (after->end == datagram.size) == !place.more;
  const bool repeats = after->offset == place.offset && after->end == end && last_too;
  return repeats ? Fit::repeats : Fit::overlaps;
}

/// Makes room for a fragment of `keep` by giving up what is older; false when that isn't enough.
bool Reassembly::make_room(const Datagram& keep, std::size_t bytes) noexcept {
  while (bytes_ + bytes > byte_limit_ || fragments_.live() == fragments_.limit()) {
    if (&table_.oldest() == &keep) return false;
    displace();
  }
  return true;
}

ReassemblyResult Reassembly::finish(Datagram& datagram) noexcept {
  if (mixes_ecn(datagram.ecn_seen)) {
    ++counters_.fragment_ecn;
    condemn(datagram);
    return {};
  }
  ReassemblyResult result{.fate = FragmentFate::complete,
                          .header_size = datagram.first->header_size,
                          .payload_size = datagram.size,
                          .ecn = merged_ecn(datagram.ecn_seen)};
  Packet* tail = nullptr;
  while (Fragment* const fragment = datagram.first) {
    datagram.first = fragment->next;
    bytes_ -= chain_true_size(*fragment->packet);
    Packet* const packet = fragment->packet.take();
    if (tail == nullptr) {
      // What a device says of a fragment's checksum doesn't hold for the whole.
      packet->clear_marks();
      result.datagram.reset(packet);
    } else {
      packet->remove_prefix(fragment->header_size);
      tail->set_next_segment(packet);
    }
    tail = packet;
    while (tail->next_segment() != nullptr) tail = tail->next_segment();
    fragments_.release(*fragment);
  }
  table_.erase(datagram);
  ++counters_.reassembled;
  return result;
}

/// Drops the datagram and stays to drop the rest of it until its time is over.
void Reassembly::condemn(Datagram& datagram) noexcept {
  release_fragments(datagram);
  datagram.condemned = true;
}

void Reassembly::release_fragments(Datagram& datagram) noexcept {
  while (Fragment* const fragment = datagram.first) {
    datagram.first = fragment->next;
    bytes_ -= chain_true_size(*fragment->packet);
    fragments_.release(*fragment);
  }
  datagram.last = nullptr;
}

void Reassembly::displace() noexcept {
  ++counters_.reassembly_displaced;
  drop_oldest();
}

void Reassembly::drop_oldest() noexcept {
  Datagram& oldest = table_.oldest();
  release_fragments(oldest);
  table_.erase(oldest);
}

void Reassembly::on_due(Instant now) noexcept {
  while (!table_.empty() && table_.oldest().expires <= now) {
    Datagram& oldest = table_.oldest();
    PacketPtr first;
    if (!oldest.condemned) {
      ++counters_.reassembly_timeout;
      if (oldest.first != nullptr && oldest.first->offset == 0) {
        bytes_ -= chain_true_size(*oldest.first->packet);
        first = std::move(oldest.first->packet);
        Fragment* const rest = oldest.first->next;
        fragments_.release(*oldest.first);
        oldest.first = rest;
      }
    }
    drop_oldest();
    if (first) host_.reassembly_timed_out(std::move(first), now);
  }
  if (!table_.empty()) wheel_.arm(timer_, table_.oldest().expires);
}

}  // namespace pinion

#include "peers/plain_wheel.h"

namespace pinion::bench {

PlainWheel::PlainWheel(std::size_t capacity, Tick start)
    : now_(start), entries_(std::make_unique<Entry[]>(capacity)) {
  for (Link& head : slots_) head = {&head, &head};
  overflow_ = {&overflow_, &overflow_};
  for (std::size_t i = 0; i < capacity; ++i) {
    entries_[i].callback = &on_fire;
    entries_[i].index = static_cast<std::uint32_t>(i);
  }
}

/// With placement by XOR every entry of a level comes before every entry of the level above, and
/// all of a level's entries lie in slots after the current one.
Tick PlainWheel::next_event() const {
  for (unsigned level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const auto slot = static_cast<Tick>(std::countr_zero(occupied_[level]));
    const unsigned shift = kBits * level;
    return (((now_ >> shift >> kBits) << kBits) + slot) << shift;
  }
  if (overflow_.next == &overflow_) return kNeverTick;
  constexpr unsigned kRange = kBits * kLevels;
  return ((now_ >> kRange) + 1) << kRange;
}

void PlainWheel::run_to(Tick target) {
  for (Tick event = next_event(); event <= target; event = next_event()) {
    now_ = event;
    if (occupied_[0] != 0 &&
        (event % kSlots) == static_cast<Tick>(std::countr_zero(occupied_[0]))) {
      fire_slot();
      continue;
    }
    for (unsigned level = 1; level < kLevels; ++level) {
      if (occupied_[level] == 0) continue;
      cascade(level);
      break;
    }
    if ((event & ((Tick{1} << (kBits * kLevels)) - 1)) == 0) refill();
  }
  now_ = target;
}

/// Moves a whole list to a head of its own, so that new entries can't join it.
void PlainWheel::take(Link& head, Link& into) {
  into = {head.next, head.prev};
  into.next->prev = &into;
  into.prev->next = &into;
  head = {&head, &head};
}

void PlainWheel::cascade(unsigned level) {
  const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
  Link& head = slots_[level * kSlots + slot];
  if (static_cast<unsigned>(now_ >> (kBits * level)) % kSlots != slot) return;
  occupied_[level] &= ~(std::uint64_t{1} << slot);
  Link list;
  take(head, list);
  for (Link* link = list.next; link != &list;) {
    Link* next = link->next;
    place(static_cast<Entry&>(*link));
    link = next;
  }
}

void PlainWheel::fire_slot() {
  const auto slot = static_cast<unsigned>(now_ % kSlots);
  occupied_[0] &= ~(std::uint64_t{1} << slot);
  Link list;
  take(slots_[slot], list);
  while (list.next != &list) {
    auto& entry = static_cast<Entry&>(*list.next);
    list.next = entry.next;
    entry.next->prev = &list;
    entry.next = nullptr;
    entry.callback(entry);
  }
}

void PlainWheel::refill() {
  Link list;
  if (overflow_.next == &overflow_) return;
  take(overflow_, list);
  for (Link* link = list.next; link != &list;) {
    Link* next = link->next;
    place(static_cast<Entry&>(*link));
    link = next;
  }
}

}  // namespace pinion::bench

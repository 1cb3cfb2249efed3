#include <pinion/timers/wheel_core.h>

#include <algorithm>

#include <pinion/lib/bits.h>

namespace pinion {

void TimerEntry::disarm() noexcept {
  owner_->cancel(*this);
}

WheelCore::WheelCore(Tick start) noexcept : now_(std::min(start, kNeverTick - 1)), floor_(now_) {
  for (Link& head : heads_) head.make_head();
  firing_.make_head();
  never_.make_head();
  scanned_.make_head();
  watermark_.fill(kNeverTick);
}

WheelCore::~WheelCore() {
  for (Link& head : heads_) orphan(head);
  orphan(firing_);
  orphan(never_);
  orphan(scanned_);
  if (destroyed_ != nullptr) *destroyed_ = true;
}

/// Disarms what is in a list, without a callback.
void WheelCore::orphan(Link& head) noexcept {
  for (Link* link = head.next; link != &head; link = link->next) entry_of(*link).owner_ = nullptr;
}

WheelStats WheelCore::stats() const noexcept {
  return {.armed = armed_ - rearmed_,
          .rearmed = rearmed_,
          .fired = fired_,
          .cancelled = cancelled_ - rearmed_,
          .extended = extended_,
          .moved = moved_,
          .early_moved = early_moved_,
          .events = events_,
          .budget_hits = budget_hits_,
          .clock_steps_back = clock_steps_back_,
          .worst_lateness = worst_lateness_};
}

/// For an entry that is armed already, and for a deadline in the past or beyond the levels.
void WheelCore::arm_specially(TimerEntry& entry, Tick deadline) noexcept {
  PINION_ASSERT(entry.owner_ == nullptr || entry.owner_ == this);
  if (entry.owner_ != nullptr) {
    cancel(entry);
    ++rearmed_;
  }
  entry.owner_ = this;
  link(entry, clamped(deadline), armed_++);
}

/// By distance, at any. The deadline is not before now_; at now_ it is due in the running event.
void WheelCore::link(TimerEntry& entry, Tick deadline, std::uint64_t turn) noexcept {
  entry.deadline_ = deadline;
  const Tick delta = deadline - now_;
  if (delta >= kSpan) return link_overflow(entry, deadline);
  link_at(detail::placement_of(delta), entry, deadline, turn);
}

/// `later` is clamped already. What is left of extend(): an entry that isn't armed, and a deadline
/// before the entry's place.
void WheelCore::extend_slowly(TimerEntry& entry, Tick later) noexcept {
  if (entry.owner_ == nullptr) return arm(entry, later);
  PINION_ASSERT(entry.owner_ == this);
  unlink(entry);
  link(entry, later, extended_);
}

/// `head` has just lost its last entry: the bits that said it had any are cleared. Which list it is
/// follows from its address. Returns true.
bool WheelCore::list_emptied(const Link& head) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(&head) - reinterpret_cast<std::uintptr_t>(heads_.data());
  const std::size_t at = offset / sizeof(Link);
  if (at < kOverflowHeads) {
    const std::size_t slot = at / kSubLists;
    const Link* const heads = &heads_[slot * kSubLists];
    const bool empty =
        std::all_of(heads, heads + kSubLists, [](const Link& list) { return list.alone(); });
    if (empty) occupied_[slot / kSlots] &= ~(std::uint64_t{1} << (slot % kSlots));
  } else if (at < kHeads) {
    reset_watermark(static_cast<unsigned>(at - kOverflowHeads));
  }
  return true;
}

/// The tick at which the next occupied slot of a level comes up. The bit of the current slot stands
/// for the slot one rotation later.
Tick WheelCore::first_of_level(unsigned level) const noexcept {
  if (occupied_[level] == 0) return kNeverTick;
  const Tick position = now_ >> shift_of(level);
  const unsigned steps = first_set_from(occupied_[level], digit(position + 1, 0)) + 1;
  return (position + steps) << shift_of(level);
}

/// The next tick at which something must be done: a slot or an overflow list comes up.
Tick WheelCore::first_event() const noexcept {
  Tick first = first_of_level(0);
  // Everything above level 0 comes up at multiples of 64.
  if (first >> kSlotBits == now_ >> kSlotBits) return first;
  for (unsigned level = 1; level < kLevels; ++level) {
    first = std::min(first, first_of_level(level));
  }
  return std::min(first, overflow_expiry());
}

/// The next tick at which advance() has something to do: an event of level 0, work ahead of one, or
/// the next multiple of 64. 0 at the end of time.
Tick WheelCore::first_work() const noexcept {
  const Tick next = now_ + 1;
  if (overflow_near()) return next;
  for (unsigned level = 2; level < kLevels; ++level) {
    if (digit(now_, level - 1) != kSlots - 1) continue;
    if ((occupied_[level] >> digit((now_ >> shift_of(level)) + 1, 0) & 1) != 0) return next;
  }
  return std::min(first_of_level(0), (now_ | (kSlots - 1)) + 1);
}

Tick WheelCore::next_expiry() const noexcept {
  return unfinished() ? now_ : first_event();
}

}  // namespace pinion

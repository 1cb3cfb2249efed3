#include <algorithm>

#include <pinion/timers/wheel_core.h>

/// Moving entries down the levels: forced when their slot comes up, and early in bounded steps.

namespace pinion {
namespace {

/// The quota of the early cascade, per tick. Slots have no counts, so it comes from the total and
/// from what the level's last slots held. The window of level 2 is 64 ticks long and its slot holds
/// 4,096 ticks' worth: with 60 s timers and a tick of 1 ms that is 1/14.6 of all, and 1/800 a tick
/// drains 1/12.5. When the total shrinks without new timers, 1/50 of the last slot does it.
constexpr std::size_t kArmedPerQuota = 800;
constexpr std::size_t kSlotPerQuota = 50;
constexpr std::size_t kLeastQuota = 32;
constexpr Tick kMostTicksAtOnce = 64;

/// Where the walk of one sub-list stands.
struct Walk {
  detail::TimerLink* head;
  detail::TimerLink* at;
};

}  // namespace

/// The levels whose lower digits are all zero, from the top; before them the overflow lists that
/// can't wait. False when `moves` ran out.
bool WheelCore::cascade(std::size_t& moves) noexcept {
  while (overflow_expiry() <= now_) {
    if (moves == 0) return false;
    moves -= scan_overflow(moves, now_ - kOverflowGrain);
  }
  for (unsigned level = kLevels - 1; level > 0; --level) {
    if ((now_ & ((Tick{1} << shift_of(level)) - 1)) != 0) continue;
    const unsigned index = digit(now_, level);
    const std::uint64_t bit = std::uint64_t{1} << index;
    if ((occupied_[level] & bit) == 0) continue;
    const std::size_t moved = drain_slot(level, index, moves);
    note_drained(level, now_, moved);
    moves -= moved;
    if ((occupied_[level] & bit) != 0) return false;
  }
  return true;
}

void WheelCore::note_drained(unsigned level, Tick slot, std::size_t moved) noexcept {
  Drained& drained = drained_[level];
  if (drained.slot != slot) {
    drained = {slot, 0, std::max(drained.moved, drained.last_size / 2)};
  }
  drained.moved += moved;
}

/// The early cascade: while the digit below a level is 63, the level's next slot is drained a bit
/// per tick. Nothing depends on it but the time that the boundary takes.
void WheelCore::work_ahead(Tick elapsed) noexcept {
  const auto ticks = static_cast<std::size_t>(std::min(elapsed, kMostTicksAtOnce));
  const std::size_t by_total = armed_count() / kArmedPerQuota;
  for (unsigned level = 2; level < kLevels; ++level) {
    if (digit(now_, level - 1) != kSlots - 1) continue;
    const Tick position = (now_ >> shift_of(level)) + 1;
    const unsigned index = digit(position, 0);
    if ((occupied_[level] >> index & 1) == 0) continue;
    note_drained(level, position << shift_of(level), 0);
    const std::size_t by_last = drained_[level].last_size / kSlotPerQuota;
    const std::size_t quota = std::max(by_total, by_last) + kLeastQuota;
    const std::size_t moved = drain_slot(level, index, quota * ticks);
    drained_[level].moved += moved;
    early_moved_ += moved;
  }
  early_moved_ += scan_overflow((by_total + kLeastQuota) * ticks, now_);
}

/// Places up to `limit` entries of a slot again, walking its sub-lists in turn, so that the cache
/// miss of each entry overlaps with the work on the others. None comes back to the slot itself.
std::size_t WheelCore::drain_slot(unsigned level, unsigned index, std::size_t limit) noexcept {
  std::array<Walk, kSubLists> walks;
  unsigned count = 0;
  for (unsigned sub_list = 0; sub_list < kSubLists; ++sub_list) {
    Link& head = heads_[heads_of(level, index) + sub_list];
    __builtin_prefetch(head.next);
    if (!head.alone()) walks[count++] = {&head, head.next};
  }
  std::size_t moved = 0;
  for (unsigned turn = 0; count != 0 && moved != limit; ++moved) {
    if (turn >= count) turn = 0;
    Walk& walk = walks[turn];
    Link* const link = walk.at;
    walk.at = link->next;
    __builtin_prefetch(walk.at);
    replace(entry_of(*link), level);
    if (walk.at != walk.head) {
      ++turn;
      continue;
    }
    walk.head->make_head();
    walk = walks[--count];
  }
  for (unsigned turn = 0; turn < count; ++turn) {
    walks[turn].head->next = walks[turn].at;
    walks[turn].at->prev = walks[turn].head;
  }
  if (count == 0) occupied_[level] &= ~(std::uint64_t{1} << index);
  return moved;
}

/// Places an entry of a slot of `level` again. Before its slot comes up, distance alone may say the
/// same slot again: then it goes one level down, where it stands 1 to 64 slots away.
void WheelCore::replace(TimerEntry& entry, unsigned level) noexcept {
  const Tick deadline = entry.deadline_;
  const Tick span = Tick{1} << shift_of(level);
  const bool same_slot = deadline - entry.place_ < span && deadline - now_ >= span;
  if (same_slot) {
    link_at(detail::placement_of(span >> 1), entry, deadline, moved_++);
  } else {
    link(entry, deadline, moved_++);
  }
}

}  // namespace pinion

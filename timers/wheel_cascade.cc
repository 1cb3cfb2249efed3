#include <algorithm>

#include <pinion/timers/wheel_core.h>

/// Moving entries down the levels: forced when their slot comes up, and early in bounded steps.

namespace pinion {
namespace {

/// What the early cascade of level 2 moves in the 64 ticks before its slot comes up. Slots have no
/// counts, so it goes by the total: with 60 s timers and a tick of 1 ms the slot, 4,096 ticks'
/// worth, is 1/14.6 of all. When the total shrinks without new timers, the level's last slot tells
/// more. The windows of the levels above are 64 and 4,096 times as long, so that all of the wheel
/// fits into them, and less each tick than here.
constexpr std::size_t kArmedParts = 2, kSlotParts = 32, kParts = 25;
/// Beside that, each time: a small slot takes one step.
constexpr std::size_t kLeastQuota = 32;

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
    moves -= scan_overflow(moves, 0);
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

/// How many entries the early cascade of `level` may move after `elapsed` ticks.
std::size_t WheelCore::early_quota(unsigned level, Tick elapsed) const noexcept {
  std::size_t share = armed_count();
  if (level == 2) {
    share = std::max(share * kArmedParts, drained_[2].last_size * kSlotParts) / kParts;
  }
  const unsigned window = shift_of(level - 1);
  return (share * std::min(elapsed, Tick{1} << window) >> window) + kLeastQuota;
}

/// The early cascade: while the digit below a level is 63, the level's next slot is drained, a bit
/// in each call and no more than `moves` in all. Nothing depends on it but the time that the
/// boundary takes.
void WheelCore::work_ahead(Tick elapsed, std::size_t moves) noexcept {
  const std::size_t before = moves;
  for (unsigned level = 2; level < kLevels; ++level) {
    if (digit(now_, level - 1) != kSlots - 1) continue;
    const Tick position = (now_ >> shift_of(level)) + 1;
    const unsigned index = digit(position, 0);
    if ((occupied_[level] >> index & 1) == 0) continue;
    note_drained(level, position << shift_of(level), 0);
    const std::size_t moved =
        drain_slot(level, index, std::min(early_quota(level, elapsed), moves));
    drained_[level].moved += moved;
    moves -= moved;
  }
  if (overflow_near()) {
    // As if it were a slot above the top level, whose window is a slot of that level.
    moves -= scan_overflow(std::min(early_quota(kLevels, elapsed), moves), kOverflowAhead);
  }
  early_moved_ += before - moves;
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

#include <algorithm>

#include <pinion/lib/bits.h>
#include <pinion/timers/wheel_core.h>

/// Moving entries down the levels: forced when their slot comes up, and early in bounded steps.

namespace pinion {
namespace {

/// The quota of the early cascade, per tick. Slots have no counts, so it comes from the total: the
/// window of level 2 is 64 ticks long and its slot holds 4,096 ticks' worth; with 60 s timers and
/// a tick of 1 ms that is 1/14.6 of all, and 1/800 a tick drains 1/12.5.
constexpr std::size_t kArmedPerQuota = 800;
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
    moves -= drain_slot(level, index, moves);
    if ((occupied_[level] & bit) != 0) return false;
  }
  return true;
}

/// The early cascade: while the digit below a level is 63, the level's next slot is drained a bit
/// per tick. Nothing depends on it but the time that the boundary takes.
void WheelCore::work_ahead(Tick elapsed) noexcept {
  const auto ticks = static_cast<std::size_t>(std::min(elapsed, kMostTicksAtOnce));
  std::size_t quota = (armed_count() / kArmedPerQuota + kLeastQuota) * ticks;
  for (unsigned level = 2; level < kLevels; ++level) {
    if (digit(now_, level - 1) != kSlots - 1) continue;
    const unsigned index = (digit(now_, level) + 1) & (kSlots - 1);
    if ((occupied_[level] >> index & 1) == 0) continue;
    const std::size_t moved = drain_slot(level, index, quota);
    early_moved_ += moved;
    quota -= moved;
  }
  early_moved_ += scan_overflow(quota, now_);
}

/// Places up to `limit` entries of a slot again, walking its sub-lists in turn, so that the cache
/// miss of each entry overlaps with the work on the others. None comes back to the slot itself.
std::size_t WheelCore::drain_slot(unsigned level, unsigned index, std::size_t limit) noexcept {
  const std::size_t slot = slot_of(level, index);
  unsigned used = sub_lists_[slot];
  std::array<Walk, kSubLists> walks;
  unsigned count = 0;
  for (std::uint64_t left = used; left != 0; left &= left - 1) {
    Link* const head = &heads_[kUpperHeads + slot * kSubLists + count_trailing_zeros(left)];
    __builtin_prefetch(head->next);
    walks[count++] = {head, head->next};
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
  used = 0;
  Link* const heads = &heads_[kUpperHeads + slot * kSubLists];
  for (unsigned turn = 0; turn < count; ++turn) {
    walks[turn].head->next = walks[turn].at;
    walks[turn].at->prev = walks[turn].head;
    used |= 1U << (walks[turn].head - heads);
  }
  sub_lists_[slot] = static_cast<std::uint8_t>(used);
  if (used == 0) occupied_[level] &= ~(std::uint64_t{1} << index);
  return moved;
}

/// Places an entry of a slot of `level` again. Before its slot comes up, distance alone may say the
/// same slot again: then it goes one level down, where it stands 1 to 64 slots away.
void WheelCore::replace(TimerEntry& entry, unsigned level) noexcept {
  const Tick deadline = entry.deadline_;
  const Tick span = Tick{1} << shift_of(level);
  const bool same_slot = deadline - entry.place_ < span && deadline - now_ >= span;
  if (same_slot) {
    entry.deadline_ = deadline;
    link_level(entry, deadline, level - 1, moved_++);
  } else {
    link(entry, deadline, moved_++);
  }
}

}  // namespace pinion

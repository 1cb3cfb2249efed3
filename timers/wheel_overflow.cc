#include <algorithm>
#include <bit>

#include <pinion/timers/wheel_core.h>

/// What is 2^30 ticks away and more. It waits in lists by powers of two of the distance, each with
/// a watermark: the first place in it, which is a deadline rounded down to a slot of the top level.
/// By then the list must have been scanned, so that its nearest entries go straight to the levels
/// below the top one. The scan begins half the wheel's span earlier, a bit per advance(). What
/// can't enter yet goes to the list of its new distance. After a scan nothing in the list is nearer
/// than the list's distance, so the next one is due after half that time at the earliest, and an
/// entry is visited at most three times per list, where a single list would be scanned whole for
/// each entry that enters. A fine tick makes these lists matter: at 1 us they begin at 18 minutes.

namespace pinion {

/// `deadline` is kSpan or more ticks away, or never.
void WheelCore::link_overflow(TimerEntry& entry, Tick deadline) noexcept {
  if (deadline == kNeverTick) {
    entry.place_ = kNeverTick;
    never_.append(entry);
    return;
  }
  const auto distance = static_cast<unsigned>(std::bit_width(deadline - now_));
  const unsigned list = distance - 1 - kSlotBits * kLevels;
  entry.place_ = deadline & ~(kOverflowGrain - 1);
  heads_[kOverflowHeads + list].append(entry);
  watermark_[list] = std::min(watermark_[list], entry.place_);
  overflow_due_ = std::min(overflow_due_, entry.place_);
}

/// For a list that has become empty.
void WheelCore::reset_watermark(unsigned list) noexcept {
  watermark_[list] = kNeverTick;
  overflow_due_ = *std::min_element(watermark_.begin(), watermark_.end());
}

/// When a scan must be finished.
Tick WheelCore::overflow_expiry() const noexcept {
  return scanned_.alone() ? overflow_due_ : std::min(scan_by_, overflow_due_);
}

/// Takes a list that is due within `ahead` for scanning. False when there is none.
bool WheelCore::begin_overflow_scan(Tick ahead) noexcept {
  if (!overflow_within(ahead)) return false;
  const auto first = std::min_element(watermark_.begin(), watermark_.end());
  const auto list = static_cast<unsigned>(first - watermark_.begin());
  scan_by_ = *first;
  scanned_.take_all(heads_[kOverflowHeads + list]);
  reset_watermark(list);
  return true;
}

/// Visits up to `limit` entries: goes on with the scan under way, then with the lists that are due
/// within `ahead`. Returns how many it visited.
std::size_t WheelCore::scan_overflow(std::size_t limit, Tick ahead) noexcept {
  std::size_t visited = 0;
  while (visited != limit) {
    if (scanned_.alone() && !begin_overflow_scan(ahead)) break;
    TimerEntry& entry = entry_of(*scanned_.next);
    scanned_.next = entry.next;
    entry.next->prev = &scanned_;
    __builtin_prefetch(entry.next);
    link(entry, entry.deadline_, moved_++);
    ++visited;
  }
  return visited;
}

}  // namespace pinion

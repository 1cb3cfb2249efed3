#include <algorithm>
#include <bit>

#include <pinion/lib/bits.h>
#include <pinion/timers/wheel_core.h>

/// What is 2^30 ticks away and more. It waits in lists by powers of two of the distance, each with
/// a watermark: the first tick at which one of its entries can enter the levels, rounded up to
/// kOverflowGrain. From there the list is scanned, a bit per tick, and must be through one grain
/// later; no deadline is nearer than 62 grains then. What can't enter yet goes to the list of
/// its new distance. So an entry is visited a bounded number of times on its way, where a single
/// list would be scanned whole for each entry that enters. A fine tick makes these lists matter: at
/// 1 us they begin at 18 minutes.

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
  const Tick enters = round_up_to_multiple(deadline - kSpan + 1, kOverflowGrain);
  entry.place_ = enters + kOverflowGrain;
  heads_[kOverflowHeads + list].append(entry);
  watermark_[list] = std::min(watermark_[list], enters);
  overflow_due_ = std::min(overflow_due_, enters);
}

/// For a list that has become empty.
void WheelCore::reset_watermark(unsigned list) noexcept {
  watermark_[list] = kNeverTick;
  overflow_due_ = *std::min_element(watermark_.begin(), watermark_.end());
}

/// When a scan must be finished.
Tick WheelCore::overflow_expiry() const noexcept {
  const Tick running = scanned_.alone() ? kNeverTick : scan_by_;
  if (overflow_due_ == kNeverTick) return running;
  return std::min(running, overflow_due_ + kOverflowGrain);
}

/// Takes a list whose watermark is at or before `due` for scanning. False when there is none.
bool WheelCore::begin_overflow_scan(Tick due) noexcept {
  if (overflow_due_ > due) return false;
  const auto first = std::min_element(watermark_.begin(), watermark_.end());
  const auto list = static_cast<unsigned>(first - watermark_.begin());
  scan_by_ = *first + kOverflowGrain;
  scanned_.take_all(heads_[kOverflowHeads + list]);
  reset_watermark(list);
  return true;
}

/// Visits up to `limit` entries: goes on with the scan under way, then with the lists whose
/// watermark is at or before `due`. Returns how many it visited.
std::size_t WheelCore::scan_overflow(std::size_t limit, Tick due) noexcept {
  std::size_t visited = 0;
  while (visited != limit) {
    if (scanned_.alone() && !begin_overflow_scan(due)) break;
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

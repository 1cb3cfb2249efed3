#include <pinion/timers/wheel_core.h>

/// census(): the wheel keeps no counts, so its lists are walked.

namespace pinion {
namespace {

std::size_t length_of(const detail::TimerLink& head) noexcept {
  std::size_t length = 0;
  for (const detail::TimerLink* at = head.next; at != &head; at = at->next) ++length;
  return length;
}

}  // namespace

WheelCensus WheelCore::census() const noexcept {
  WheelCensus census;
  for (std::size_t head = 0; head < kOverflowHeads; ++head) {
    census.levels[head / detail::kHeadsPerLevel] += length_of(heads_[head]);
  }
  for (std::size_t head = kOverflowHeads; head < kHeads; ++head) {
    census.overflow += length_of(heads_[head]);
  }
  census.overflow += length_of(scanned_);
  census.never = length_of(never_);
  census.due = length_of(firing_);
  return census;
}

}  // namespace pinion

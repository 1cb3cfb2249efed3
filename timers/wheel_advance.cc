#include <algorithm>

#include <pinion/lib/guarded.h>
#include <pinion/timers/wheel_core.h>

/// advance(): from event to event, never tick by tick. An event is a tick at which a slot or an
/// overflow list comes up; it cascades from the top, then its level-0 slot becomes the firing list.

namespace pinion {
namespace {

std::size_t moves_within(std::size_t budget) noexcept {
  if (budget > kNoBudget / WheelCore::kMovesPerBudget) return kNoBudget;
  return std::max(budget * WheelCore::kMovesPerBudget, WheelCore::kLeastMoves);
}

}  // namespace

std::size_t WheelCore::advance_slowly(Tick target, std::size_t budget) noexcept {
  PINION_ASSERT(destroyed_ == nullptr);  // advance() was called from a callback
  if (target < now_) {
    ++clock_steps_back_;
    target = now_;
  }
  target = std::min(target, kNeverTick - 1);
  const Tick before = now_;
  bool destroyed = false;
  destroyed_ = &destroyed;
  floor_ = target;
  next_work_ = 0;  // so that a nested call ends up here

  std::size_t fired = 0;
  std::size_t moves = moves_within(budget);
  const Firing outcome = run(target, budget, fired, moves);
  if (outcome == Firing::destroyed) return fired;
  if (outcome == Firing::stopped) {
    ++budget_hits_;
  } else {
    if (now_ != before) work_ahead(now_ - before, moves);
    next_work_ = first_work();
  }
  floor_ = now_;
  destroyed_ = nullptr;
  return fired;
}

/// Works through the events up to `target`; moves now_ there unless the budget ends first.
WheelCore::Firing WheelCore::run(Tick target, std::size_t budget, std::size_t& fired,
                                 std::size_t& moves) noexcept {
  bool counted = false;
  for (;;) {
    if (!unfinished()) {
      const Tick event = first_event();
      if (event > target) {
        now_ = target;
        return Firing::drained;
      }
      now_ = event;
      event_open_ = true;
    }
    if (!counted) ++events_;
    counted = true;
    if (event_open_ && !run_event(moves)) return Firing::stopped;
    const Firing outcome = fire(fired, budget, moves);
    if (outcome != Firing::drained) return outcome;
  }
}

/// Cascades what comes up at now_ and detaches the level-0 slot. False when `moves` ran out: then
/// the event stays open and is gone on with, since a slot that is drained stays empty.
bool WheelCore::run_event(std::size_t& moves) noexcept {
  const unsigned index = digit(now_, 0);
  if (index == 0 && !cascade(moves)) return false;
  firing_.take_all(heads_[heads_of(0, index)]);
  occupied_[0] &= ~(std::uint64_t{1} << index);
  event_open_ = false;
  return true;
}

/// Calls what is due on the firing list; what was extended is placed again. Each entry is unlinked
/// and disarmed before its callback, which may therefore do anything, to the wheel as well.
WheelCore::Firing WheelCore::fire(std::size_t& fired, std::size_t budget,
                                  std::size_t& moves) noexcept {
  const bool* const destroyed = destroyed_;
  while (!firing_.alone()) {
    TimerEntry& entry = entry_of(*firing_.next);
    const bool due = entry.deadline_ == now_;
    if (due ? fired == budget : moves == 0) return Firing::stopped;
    firing_.next = entry.next;
    entry.next->prev = &firing_;
    if (!due) {
      --moves;
      link(entry, entry.deadline_, moved_++);
      continue;
    }
    entry.owner_ = nullptr;
    ++fired_;
    ++fired;
    worst_lateness_ = std::max(worst_lateness_, floor_ - now_);
    detail::guarded("a timer callback", [&entry] { entry.callback_(entry); });
    if (*destroyed) return Firing::destroyed;
  }
  return Firing::drained;
}

}  // namespace pinion

#include <pinion/eventloop/shared_timer_poller.h>

#include <utility>

namespace pinion {

SharedTimerPoller::SharedTimerPoller(Loop& loop, SharedTimerShard& shard) noexcept
    : loop_(loop), shard_(shard) {
  const auto nudge = [](void* context) noexcept { static_cast<Loop*>(context)->nudge(); };
  shard.attach(loop.wheel(), {.wake = nudge, .context = &loop});
  loop.add_poller(*this);
}

SharedTimerPoller::~SharedTimerPoller() {
  drain();
}

void SharedTimerPoller::drain() noexcept {
  if (std::exchange(drained_, true)) return;
  loop_.remove_poller(*this);
  shard_.drain();
}

std::size_t SharedTimerPoller::poll(Instant now, std::size_t budget) {
  return shard_.poll(now, budget);
}

/// The loop has announced its sleep to nudge() before, and polls once more afterwards.
ParkAnswer SharedTimerPoller::prepare_park() {
  shard_.announce_sleep();
  return ParkAnswer::elsewhere();
}

void SharedTimerPoller::cancel_park() {
  shard_.wake_up();
}

}  // namespace pinion

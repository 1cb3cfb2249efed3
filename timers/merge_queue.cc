#include <pinion/timers/merge_queue.h>

#include <pinion/lib/assert.h>
#include <pinion/timers/shared_timers.h>

#include "shared_timer_block.h"

namespace pinion::detail {

/// A shard that closes meanwhile looks at the inboxes when it has, and one that opens does, too. So
/// it is enough to wake one that hasn't closed. Even when what was put there can wait: urgent
/// timers may stand behind it, left by a drain that could not see past its unfinished push.
void MergeQueue::announce() noexcept {
  announced_.store(true, std::memory_order_seq_cst);
  for (const auto& shard : timers_.shards_) {
    if (shard->running()) return shard->wake();
  }
}

bool MergeQueue::try_hand_over() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  hand_over();
  return true;
}

void MergeQueue::open(SharedTimerShard& shard) noexcept {
  shard.closed_.store(false, std::memory_order_seq_cst);
  ++running_;
}

void MergeQueue::close(SharedTimerShard& shard) noexcept {
  shard.closed_.store(true, std::memory_order_seq_cst);
  --running_;
}

/// What is put into these inboxes after they were looked at is announced again.
void MergeQueue::hand_over() noexcept {
  if (running_ == 0) return;  // attach() comes here
  announced_.exchange(false, std::memory_order_seq_cst);
  for (const auto& shard : timers_.shards_) {
    if (shard->running()) continue;
    while (SharedTimerBlock* const block = shard->inbox_.pop()) adopt(*block);
  }
}

/// Its owner no longer runs, and has unlinked it. It stays queued, from one inbox to the other.
void MergeQueue::adopt(SharedTimerBlock& block) noexcept {
  PINION_ASSERT(!block.entry.armed());
  const std::uint8_t attention = block.attention.load(std::memory_order_seq_cst);
  if ((attention & SharedTimerBlock::kReleased) != 0) return timers_.give_back(block);
  SharedTimerShard& heir = next_running();
  block.owner.store(&heir, std::memory_order_seq_cst);
  heir.inbox_.push(block);
  heir.wake();
}

SharedTimerShard& MergeQueue::next_running() noexcept {
  do {
    last_ = (last_ + 1) % timers_.shard_count();
  } while (!timers_.shards_[last_]->running());
  return *timers_.shards_[last_];
}

}  // namespace pinion::detail

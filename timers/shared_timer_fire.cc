#include <pinion/lib/guarded.h>
#include <pinion/timers/shared_timer_shard.h>

#include "shared_timer_block.h"

/// Where shared timers' callbacks are called.

namespace pinion {

using Word = detail::SharedTimerWord;

void detail::SharedTimerBlock::Entry::on_fire(TimerEntry& entry) noexcept {
  SharedTimerBlock& block = static_cast<Entry&>(entry).block;
  SharedTimerShard& shard = *block.owner.load(std::memory_order_relaxed);
  shard.settle(block, TimingWheel::tick_before(shard.wheel_->now()),
               SharedTimerShard::Entry::came_up);
}

/// Unless the word is no longer `word`: then that is what it is now. The callback may end the
/// handle; the block stays until the shard takes it out of its inbox.
bool SharedTimerShard::fire(Block& block, std::uint64_t& word) noexcept {
  block.calling.store(true, std::memory_order_relaxed);
  const std::uint64_t fired = Word::with_state(word, SharedTimerState::fired);
  const bool won = block.word.compare_exchange_strong(word, fired, std::memory_order_seq_cst);
  if (won) {
    count(fired_);
    block.fired_in = polls_;
    calling_ = true;
    detail::guarded("a shared timer's callback", [&block] { block.callback(block.context); });
    calling_ = false;
  }
  block.calling.store(false, std::memory_order_release);
  return won;
}

}  // namespace pinion

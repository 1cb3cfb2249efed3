#include <pinion/timers/shared_timer_shard.h>

#include <algorithm>
#include <ctime>
#include <mutex>

#include <pinion/lib/assert.h>
#include <pinion/timers/shared_timers.h>

#include "shared_timer_block.h"

/// A shard of shared timers: the only one that touches its timers' wheel entries.

namespace pinion {

using Word = detail::SharedTimerWord;

void SharedTimerShard::attach(TimingWheel& wheel, ShardWaker waker) noexcept {
  detail::MergeQueue& queue = timers_.merge_queue_;
  const std::scoped_lock lock(queue.mutex());
  PINION_ASSERT(!running());
  wheel_ = &wheel;
  waker_ = waker;
  sleep_.store(Sleep::awake, std::memory_order_seq_cst);
  queue.open(*this);
  queue.hand_over();
}

std::size_t SharedTimerShard::poll(Instant now, std::size_t budget) noexcept {
  PINION_ASSERT(running());
  PINION_ASSERT(!calling_);
  detail::MergeQueue& queue = timers_.merge_queue_;
  const bool ask_again = queue.announced() && !queue.try_hand_over();
  if (inbox_.empty()) [[likely]]
    return ask_again ? 1 : 0;
  const Tick tick = TimingWheel::tick_before(now);
  ++polls_;
  std::size_t done = 0;
  for (; done < budget; ++done) {
    Block* const block = inbox_.pop();
    if (block == nullptr) break;
    // Its callback has put it there again: whatever came before this poll has had its turn.
    if (block->fired_in == polls_) {
      inbox_.push(*block);
      break;
    }
    take_in(*block, tick);
  }
  return std::max<std::size_t>(done, 1);  // a push that is under way must not be slept through
}

/// A drain is rare, and may wait for whoever is just waking this shard.
void SharedTimerShard::drain() noexcept {
  PINION_ASSERT(!calling_);
  detail::MergeQueue& queue = timers_.merge_queue_;
  {
    const std::scoped_lock lock(queue.mutex());
    PINION_ASSERT(running());
    queue.close(*this);
    for (std::size_t index = 0; index < timers_.capacity_; ++index) {
      Block& block = timers_.blocks_[index];
      if (block.owner.load(std::memory_order_acquire) == this) leave(block);
    }
    queue.hand_over();
  }
  // It sleeps: a thread of a higher priority on the caller's CPU would never let it go on.
  constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 20'000};
  while (waking_.load(std::memory_order_seq_cst) > 0) nanosleep(&kMoment, nullptr);
}

/// Unlinks the timer and puts it into the inbox that is the merge queue's now. Whoever has queued
/// it and is about to push it, for a cancel perhaps, wakes an heir: what is scheduled is urgent.
void SharedTimerShard::leave(Block& block) noexcept {
  const bool linked = unlink(block);
  block.armed_for.store(Word::kNeverDue, std::memory_order_seq_cst);
  std::uint64_t word = block.word.load(std::memory_order_seq_cst);
  while (Word::state(word) == SharedTimerState::scheduled) {
    const std::uint64_t left = Word::with_state(word, SharedTimerState::migrating);
    if (!block.word.compare_exchange_weak(word, left, std::memory_order_seq_cst)) continue;
    count(migrated_);
    constexpr std::uint8_t kLeft = Block::kQueued | Block::kUrgent;
    const std::uint8_t before = block.attention.fetch_or(kLeft, std::memory_order_seq_cst);
    if ((before & Block::kQueued) == 0) inbox_.push(block);
    return;
  }
  if (linked) count(stale_);
}

/// Something was put into the inbox.
void SharedTimerShard::notice(bool urgent) noexcept {
  if (closed_.load(std::memory_order_seq_cst)) [[unlikely]]
    return timers_.merge_queue_.announce();
  if (urgent) wake();
}

void SharedTimerShard::wake() noexcept {
  if (sleep_.load(std::memory_order_seq_cst) != Sleep::asleep) return;
  Sleep expected = Sleep::asleep;
  if (!sleep_.compare_exchange_strong(expected, Sleep::rung, std::memory_order_seq_cst)) return;
  waking_.fetch_add(1, std::memory_order_seq_cst);
  if (!closed_.load(std::memory_order_seq_cst) && waker_.wake != nullptr) {
    waker_.wake(waker_.context);
  }
  waking_.fetch_sub(1, std::memory_order_seq_cst);
}

/// Takes a timer out of the inbox, whence it may be put there again.
void SharedTimerShard::take_in(Block& block, Tick now) noexcept {
  constexpr std::uint8_t kTaken = Block::kQueued | Block::kUrgent;
  const std::uint8_t before =
      block.attention.fetch_and(static_cast<std::uint8_t>(~kTaken), std::memory_order_seq_cst);
  if ((before & Block::kReleased) == 0) return settle(block, now, Entry::where_it_is);
  if (unlink(block)) count(stale_);
  block.armed_for.store(Word::kNeverDue, std::memory_order_relaxed);
  timers_.give_back(block);
}

/// Looks at the word and does what it says: fires, arms or unlinks the entry.
void SharedTimerShard::settle(Block& block, Tick now, Entry entry) noexcept {
  block.armed_for.store(Word::kNeverDue, std::memory_order_seq_cst);
  std::uint64_t word = block.word.load(std::memory_order_seq_cst);
  for (;;) {
    const Tick due = Word::due(word);
    switch (Word::state(word)) {
      case SharedTimerState::migrating: {
        const std::uint64_t adopted = Word::with_state(word, SharedTimerState::scheduled);
        if (!block.word.compare_exchange_strong(word, adopted, std::memory_order_seq_cst)) break;
        word = adopted;
        count(adopted_);
        if (due <= now) count(adopted_late_);
        break;
      }
      case SharedTimerState::scheduled:
        if (due > now) return arm(block, due);
        unlink(block);
        if (fire(block, word)) return;
        break;
      case SharedTimerState::cancelled:
      case SharedTimerState::fired:
        if (unlink(block) || entry == Entry::came_up) count(stale_);
        return;
    }
  }
}

void SharedTimerShard::arm(Block& block, Tick due) noexcept {
  if (due == Word::kNeverDue) {
    unlink(block);
    return;
  }
  wheel_->arm(block.entry, TimingWheel::instant_of(due));
  block.armed_for.store(due, std::memory_order_seq_cst);
}

bool SharedTimerShard::unlink(Block& block) noexcept {
  return block.entry.armed() && wheel_->cancel(block.entry);
}

}  // namespace pinion

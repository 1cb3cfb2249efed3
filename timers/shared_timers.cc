#include <pinion/timers/shared_timers.h>

#include <fmt/format.h>

#include <memory>
#include <new>

#include <pinion/lib/assert.h>

#include "shared_timer_block.h"

/// The handles' side of shared timers, and where their blocks come from.

namespace pinion {

using detail::SharedTimerBlock;
using Word = detail::SharedTimerWord;

namespace {

constexpr std::uint64_t kFreeMask = 0xffff'ffffU;
constexpr std::uint64_t kOneChange = std::uint64_t{1} << 32;

}  // namespace

Result<std::unique_ptr<SharedTimers>> SharedTimers::create(SharedTimersOptions options) {
  if (options.capacity == 0 || options.capacity > kMaxCapacity) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("room for {} shared timers asked for", options.capacity),
                fmt::format("set SharedTimersOptions::capacity to 1 to {}", kMaxCapacity));
  }
  if (options.shards == 0 || options.shards > kMaxShards) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} shards of shared timers asked for", options.shards),
                fmt::format("set SharedTimersOptions::shards to 1 to {}", kMaxShards));
  }
  const std::size_t bytes = options.capacity * sizeof(Block);
  void* const memory = ::operator new(bytes, std::align_val_t{alignof(Block)}, std::nothrow);
  if (memory == nullptr) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("no {} MiB for {} shared timers", bytes >> 20, options.capacity),
                "a smaller SharedTimersOptions::capacity");
  }
  Block* const blocks = static_cast<Block*>(memory);
  std::uninitialized_value_construct_n(blocks, options.capacity);
  return std::unique_ptr<SharedTimers>(new SharedTimers(blocks, options));
}

SharedTimers::SharedTimers(Block* blocks, const SharedTimersOptions& options)
    : capacity_(options.capacity), blocks_(blocks), merge_queue_(*this) {
  for (unsigned index = 0; index < options.shards; ++index) {
    shards_.push_back(std::unique_ptr<SharedTimerShard>(new SharedTimerShard(*this)));
  }
  for (std::size_t index = 0; index + 1 < capacity_; ++index) {
    blocks_[index].next_free.store(static_cast<std::uint32_t>(index + 2),
                                   std::memory_order_relaxed);
  }
  free_.store(1, std::memory_order_release);
}

SharedTimers::~SharedTimers() {
  const bool every_handle_is_gone = handles_.load(std::memory_order_acquire) == 0;
  PINION_ASSERT(every_handle_is_gone);
  for (const auto& shard : shards_) {
    const bool drained = !shard->running();
    PINION_ASSERT(drained);
  }
  std::destroy_n(blocks_, capacity_);
  ::operator delete(blocks_, std::align_val_t{alignof(Block)});
}

tl::expected<SharedTimer, ErrorCode> SharedTimers::make(unsigned shard,
                                                        SharedTimer::Callback callback,
                                                        void* context) noexcept {
  PINION_ASSERT(shard < shards_.size());
  PINION_ASSERT(callback != nullptr);
  Block* const block = take_free();
  if (block == nullptr) {
    for (const auto& running : shards_) running->wake();
    return tl::unexpected(ErrorCode::resource_exhausted);
  }
  handles_.fetch_add(1, std::memory_order_relaxed);
  block->callback = callback;
  block->context = context;
  block->attention.store(0, std::memory_order_relaxed);
  block->word.store(
      Word::with_state(block->word.load(std::memory_order_relaxed), SharedTimerState::cancelled),
      std::memory_order_relaxed);
  block->owner.store(shards_[shard].get(), std::memory_order_seq_cst);
  return SharedTimer(*this, *block);
}

SharedTimerStats SharedTimers::stats() const noexcept {
  SharedTimerStats sum;
  const auto read = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  for (const auto& shard : shards_) {
    sum.fired += read(shard->fired_);
    sum.migrated += read(shard->migrated_);
    sum.adopted += read(shard->adopted_);
    sum.adopted_late += read(shard->adopted_late_);
    sum.stale += read(shard->stale_);
  }
  for (const Stripe& stripe : stripes_) {
    sum.cancelled += read(stripe.cancelled);
    sum.replaced += read(stripe.replaced);
    sum.scheduled += read(stripe.scheduled);
  }
  const std::uint64_t ended = sum.fired + sum.cancelled + sum.replaced;
  sum.pending = sum.scheduled > ended ? sum.scheduled - ended : 0;
  sum.handles = read(handles_);
  return sum;
}

Scheduled SharedTimers::schedule(Block& block, Instant deadline) noexcept {
  Stripe& stripe = own_stripe();
  stripe.scheduled.fetch_add(1, std::memory_order_relaxed);
  const Tick due = Word::due_at(deadline);
  std::uint64_t old = block.word.load(std::memory_order_relaxed);
  std::uint64_t word = 0;
  do {
    word = Word::make(due, Word::generation(old) + 1, SharedTimerState::scheduled);
  } while (!block.word.compare_exchange_weak(old, word, std::memory_order_seq_cst));
  const bool replaced = Word::pending(old);
  if (replaced) stripe.replaced.fetch_add(1, std::memory_order_relaxed);
  if (due < block.armed_for.load(std::memory_order_seq_cst)) attend(block, true);
  return {.generation = Word::generation(word), .replaced = replaced};
}

bool SharedTimers::cancel(Block& block) noexcept {
  std::uint64_t word = block.word.load(std::memory_order_seq_cst);
  do {
    if (!Word::pending(word)) return false;
  } while (!block.word.compare_exchange_weak(
      word, Word::with_state(word, SharedTimerState::cancelled), std::memory_order_seq_cst));
  own_stripe().cancelled.fetch_add(1, std::memory_order_relaxed);
  // An entry that is about to be armed for what was cancelled comes up for nothing, that is all.
  if (block.armed_for.load(std::memory_order_seq_cst) != Word::kNeverDue) attend(block, false);
  return true;
}

/// Nobody but the shard touches it any more, which may be at it right now: so it goes through the
/// inbox even when it isn't linked.
void SharedTimers::release(Block& block) noexcept {
  cancel(block);
  handles_.fetch_sub(1, std::memory_order_release);
  const std::uint8_t before = block.attention.fetch_or(
      SharedTimerBlock::kQueued | SharedTimerBlock::kReleased, std::memory_order_seq_cst);
  if ((before & SharedTimerBlock::kQueued) != 0) return;
  SharedTimerShard& owner = *block.owner.load(std::memory_order_seq_cst);
  owner.inbox_.push(block);
  owner.notice(false);
}

/// Makes the owner look at the word, now when it is urgent, otherwise in its next turn.
void SharedTimers::attend(Block& block, bool urgent) noexcept {
  const std::uint8_t wanted =
      urgent ? SharedTimerBlock::kQueued | SharedTimerBlock::kUrgent : SharedTimerBlock::kQueued;
  const std::uint8_t before = block.attention.fetch_or(wanted, std::memory_order_seq_cst);
  SharedTimerShard& owner = *block.owner.load(std::memory_order_seq_cst);
  if ((before & SharedTimerBlock::kQueued) == 0) {
    owner.inbox_.push(block);
    // Whoever came in between found it queued although it wasn't in the inbox, and woke in vain.
    const std::uint8_t since = block.attention.load(std::memory_order_seq_cst);
    owner.notice(urgent || (since & SharedTimerBlock::kUrgent) != 0);
  } else if (urgent) {
    owner.notice(true);
  }
}

SharedTimers::Block* SharedTimers::take_free() noexcept {
  std::uint64_t first = free_.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t number = first & kFreeMask;
    if (number == 0) return nullptr;
    Block& block = blocks_[number - 1];
    const std::uint64_t next = block.next_free.load(std::memory_order_relaxed);
    const std::uint64_t changes = (first & ~kFreeMask) + kOneChange;
    if (free_.compare_exchange_weak(first, changes | next, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      return &block;
    }
  }
}

/// It isn't linked, and not in any inbox.
void SharedTimers::give_back(Block& block) noexcept {
  block.owner.store(nullptr, std::memory_order_relaxed);
  const auto number = static_cast<std::uint64_t>(&block - blocks_) + 1;
  std::uint64_t first = free_.load(std::memory_order_relaxed);
  do {
    block.next_free.store(static_cast<std::uint32_t>(first & kFreeMask), std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(first, ((first & ~kFreeMask) + kOneChange) | number,
                                        std::memory_order_acq_rel, std::memory_order_relaxed));
}

SharedTimers::Stripe& SharedTimers::own_stripe() noexcept {
  static std::atomic<unsigned> threads{0};
  thread_local const unsigned stripe = threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return stripes_[stripe];
}

Scheduled SharedTimer::schedule(Instant deadline) noexcept {
  PINION_ASSERT(block_ != nullptr);
  return timers_->schedule(*block_, deadline);
}

bool SharedTimer::cancel() noexcept {
  PINION_ASSERT(block_ != nullptr);
  return timers_->cancel(*block_);
}

SharedTimerLook SharedTimer::look() const noexcept {
  PINION_ASSERT(block_ != nullptr);
  const std::uint64_t word = block_->word.load(std::memory_order_seq_cst);
  return {.state = Word::state(word),
          .generation = Word::generation(word),
          .deadline = Word::instant_of(Word::due(word))};
}

bool SharedTimer::calling() const noexcept {
  PINION_ASSERT(block_ != nullptr);
  return block_->calling.load(std::memory_order_acquire);
}

void SharedTimer::reset() noexcept {
  if (block_ == nullptr) return;
  timers_->release(*std::exchange(block_, nullptr));
  timers_ = nullptr;
}

}  // namespace pinion

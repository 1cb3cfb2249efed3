#pragma once

#include <atomic>
#include <cstdint>

#include <pinion/lib/mpsc_queue.h>
#include <pinion/lib/time.h>
#include <pinion/timers/shared_timer.h>
#include <pinion/timers/timer_entry.h>
#include <pinion/timers/timing_wheel.h>

/// The control block of a SharedTimer: a cache line that every thread may write, and one that only
/// the shard does which the timer is linked on.

namespace pinion {

class SharedTimerShard;

namespace detail {

/// How a block's word is made up: the deadline in ticks, the generation, the state.
struct SharedTimerWord {
  static constexpr unsigned kStateBits = 2;
  static constexpr unsigned kGenerationBits = 20;
  static constexpr unsigned kDueShift = kStateBits + kGenerationBits;
  static constexpr std::uint64_t kStateMask = (std::uint64_t{1} << kStateBits) - 1;
  static constexpr std::uint32_t kGenerationMask = (std::uint32_t{1} << kGenerationBits) - 1;
  static constexpr Tick kNeverDue = (Tick{1} << (64 - kDueShift)) - 1;

  static constexpr std::uint64_t make(Tick due, std::uint32_t generation,
                                      SharedTimerState state) noexcept {
    return (due << kDueShift) | (std::uint64_t{generation & kGenerationMask} << kStateBits) |
           static_cast<std::uint64_t>(state);
  }
  static constexpr Tick due(std::uint64_t word) noexcept { return word >> kDueShift; }
  static constexpr std::uint32_t generation(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> kStateBits) & kGenerationMask;
  }
  static constexpr SharedTimerState state(std::uint64_t word) noexcept {
    return static_cast<SharedTimerState>(word & kStateMask);
  }
  static constexpr bool pending(std::uint64_t word) noexcept {
    return state(word) == SharedTimerState::scheduled || state(word) == SharedTimerState::migrating;
  }
  static constexpr std::uint64_t with_state(std::uint64_t word, SharedTimerState state) noexcept {
    return (word & ~kStateMask) | static_cast<std::uint64_t>(state);
  }

  static constexpr Tick due_at(Instant deadline) noexcept {
    const Tick tick = TimingWheel::tick_after(deadline);
    return tick < kNeverDue ? tick : kNeverDue;
  }
  static constexpr Instant instant_of(Tick due) noexcept {
    return due == kNeverDue ? kNever : TimingWheel::instant_of(due);
  }
};

struct alignas(64) SharedTimerBlock : MpscNode {
  /// In `attention`. Queued: it lies in an inbox, or whoever set the bit is about to put it there;
  /// nobody else may, and the owner stays who it is. Urgent: whoever puts it there must wake the
  /// owner. Released: the handle is gone, and who takes it out gives it back.
  static constexpr std::uint8_t kQueued = 1;
  static constexpr std::uint8_t kUrgent = 2;
  static constexpr std::uint8_t kReleased = 4;

  struct Entry : TimerEntry {
    explicit Entry(SharedTimerBlock& its) noexcept : TimerEntry(&Entry::on_fire), block(its) {}
    static void on_fire(TimerEntry& entry) noexcept;
    SharedTimerBlock& block;
  };

  std::atomic<std::uint64_t> word{0};
  /// No later than this the owner looks at the word: when the entry comes up. Never while it isn't
  /// linked, and while the owner is looking.
  std::atomic<Tick> armed_for{SharedTimerWord::kNeverDue};
  std::atomic<SharedTimerShard*> owner{nullptr};  ///< Whose inbox and wheel are its; null: free.
  SharedTimer::Callback callback = nullptr;
  void* context = nullptr;
  std::atomic<std::uint32_t> next_free{0};
  std::atomic<std::uint8_t> attention{0};
  std::atomic<bool> calling{false};

  // The owner's alone.
  alignas(64) Entry entry{*this};
  std::uint32_t fired_in = 0;  ///< The poll in which it fired last, or before the wheel fired it.
};

static_assert(sizeof(SharedTimerBlock) == 128);

}  // namespace detail
}  // namespace pinion

#include <pinion/eventloop/metronome_board.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include <pinion/lib/assert.h>

namespace pinion::detail {
namespace {

/// Of a count that one thread writes.
template <class T>
void add(std::atomic<T>& count, T more) noexcept {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

bool Tempo::on_beat(Delay late) noexcept {
  if (late.count() > period_.count() / 2) {
    in_time_ = 0;
    period_ = std::min(Delay{std::chrono::nanoseconds{2 * period_.count()}}, options_.widest);
    return true;
  }
  if (period_ > options_.resolution && ++in_time_ >= kInTime) {
    in_time_ = 0;
    period_ = std::max(Delay{std::chrono::nanoseconds{period_.count() / 2}}, options_.resolution);
  }
  return false;
}

void MetronomeSlot::wake() noexcept {
  std::int64_t state = sleeps_until.load(std::memory_order_acquire);
  do {
    // The descriptor may be closed as soon as this has returned.
    while (state == kRinging) {
      sleeps_until.wait(kRinging, std::memory_order_acquire);
      state = sleeps_until.load(std::memory_order_acquire);
    }
  } while (!sleeps_until.compare_exchange_weak(state, kAwake, std::memory_order_acq_rel));
}

MetronomeSlot& MetronomeBoard::take(std::size_t index) noexcept {
  PINION_ASSERT(index < slots_.size());
  MetronomeSlot& slot = slots_[index];
  const bool another_clock_has_it = slot.taken.exchange(true);
  PINION_ASSERT(!another_clock_has_it);
  std::size_t used = used_.load(std::memory_order_relaxed);
  while (used <= index && !used_.compare_exchange_weak(used, index + 1)) {
  }
  return slot;
}

bool MetronomeBoard::in_use() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const MetronomeSlot& slot) { return slot.taken.load(); });
}

Instant MetronomeBoard::beat(Instant now) noexcept {
  bool pauses = paused();
  if (!pauses) publish(now);
  const Sleepers sleepers = look_after_sleepers(now);
  quiet_beats_ = sleepers.all ? quiet_beats_ + 1 : 0;
  if (!pauses && quiet_beats_ >= kQuietBeats) {
    pauses = true;
    last_ = kNever;
    add(pauses_, std::uint64_t{1});
    paused_.store(true, std::memory_order_release);
  }
  // One that has woken meanwhile and stays awake resumes.
  if (pauses) return saturating_add(sleepers.first_due, kPatience);
  planned_ = saturating_add(now, tempo_.period());
  return planned_;
}

void MetronomeBoard::publish(Instant now) noexcept {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    slots_[i].now.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  add(beats_, std::uint64_t{1});
  if (last_ != kNever) {
    if (tempo_.on_beat(saturating_sub(now, planned_))) add(late_beats_, std::uint64_t{1});
    const std::int64_t gap = saturating_sub(now, last_).count();
    const std::int64_t recent = recent_gap_ns_.load(std::memory_order_relaxed);
    recent_gap_ns_.store(std::max(gap, recent - recent / 64), std::memory_order_relaxed);
    if (gap > widest_gap_ns_.load(std::memory_order_relaxed)) {
      widest_gap_ns_.store(gap, std::memory_order_relaxed);
    }
  }
  last_ = now;
}

MetronomeBoard::Sleepers MetronomeBoard::look_after_sleepers(Instant now) noexcept {
  Sleepers sleepers;
  const std::size_t used = used_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    MetronomeSlot& slot = slots_[i];
    const std::int64_t state = slot.sleeps_until.load(std::memory_order_acquire);
    if (state == MetronomeSlot::kAwake) {
      sleepers.all = false;
      continue;
    }
    if (state == MetronomeSlot::kRung || state == MetronomeSlot::kForEver) continue;
    const Instant until{std::chrono::nanoseconds{state}};
    if (saturating_sub(now, until) >= kPatience) {
      ring(slot, state);
    } else {
      sleepers.first_due = std::min(sleepers.first_due, until);
    }
  }
  return sleepers;
}

/// Once for each sleep. What wakes up at the same time wins, or waits.
void MetronomeBoard::ring(MetronomeSlot& slot, std::int64_t until) noexcept {
  if (!slot.sleeps_until.compare_exchange_strong(until, MetronomeSlot::kRinging,
                                                 std::memory_order_acq_rel)) {
    return;
  }
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the doorbell has been rung.
  static_cast<void>(!write(slot.doorbell_fd, &one, sizeof(one)));
  add(rings_, std::uint64_t{1});
  slot.sleeps_until.store(MetronomeSlot::kRung, std::memory_order_release);
  slot.sleeps_until.notify_one();
}

void MetronomeBoard::wait(std::uint32_t knocks, Instant until) noexcept {
  const std::int64_t nanoseconds = until.time_since_epoch().count();
  const timespec limit{.tv_sec = nanoseconds / 1'000'000'000,
                       .tv_nsec = nanoseconds % 1'000'000'000};
  // An absolute time by CLOCK_MONOTONIC. Whatever ends the wait, the caller looks again.
  syscall(SYS_futex, &knocks_, FUTEX_WAIT_BITSET_PRIVATE, knocks,
          until == kNever ? nullptr : &limit, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void MetronomeBoard::knock() noexcept {
  knocks_.fetch_add(1, std::memory_order_acq_rel);
  syscall(SYS_futex, &knocks_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

MetronomeStats MetronomeBoard::stats() const noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.beats = beats_.load(kRelaxed),
          .late_beats = late_beats_.load(kRelaxed),
          .pauses = pauses_.load(kRelaxed),
          .rings = rings_.load(kRelaxed),
          .widest_gap = std::chrono::nanoseconds{widest_gap_ns_.load(kRelaxed)},
          .recent_gap = std::chrono::nanoseconds{recent_gap_ns_.load(kRelaxed)}};
}

}  // namespace pinion::detail

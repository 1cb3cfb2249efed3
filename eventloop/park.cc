#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <pinion/eventloop/loop.h>

/// Idling and sleeping. Why there is one place to sleep: docs/decisions/one-place-to-sleep.md.

namespace pinion {
namespace {

constexpr int kPausesPerTurn = 16;
/// The kernel's work on what a sleep submits counts as sleep, and isn't part of the timeout: a few
/// operations at most.
constexpr unsigned kSubmittedAsleep = 4;
constexpr Delay kFirstDoze = std::chrono::microseconds{4};
/// Before a descriptor that was in error is waited for again.
constexpr Delay kErrorPause = std::chrono::milliseconds{100};

void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

/// Submits what the turn queued, and spins or sleeps as the idle policy says. A sleep submits in
/// the system call that sleeps: after a busy turn too, when there is nothing left to do.
void Loop::rest() {
  const bool busy = spent_ == Spent::busy;
  const Delay idle = busy ? Delay{} : saturating_sub(now_, idle_since_);
  const bool more = busy && has_more();
  if (holds(more)) return;
  const IdleController::Step next = idle_controller_.next_step(idle, now_);
  if (next != IdleController::Step::park || more) {
    submit();
    if (busy || next != IdleController::Step::pause) return;
    for (int i = 0; i < kPausesPerTurn; ++i) pause_processor();
    return;
  }
  if (ring_->queued() > kSubmittedAsleep) {
    submit();
    if (ring_->ready()) return;
  }
  // What the sleep's length is counted from; and a busy turn ends here.
  if (busy || time_.resolution() > Delay{}) note_clock(time_.fresh());
  if (busy) {
    spent_ = Spent::idle;
    begin_idling();
  }
  if (!park()) submit();
}

/// Returns whether the ring was entered.
bool Loop::park() {
  const Instant until = std::min(wheel_.next_expiry(), park_limit_);
  if (until <= now_) return false;
  Delay longest = saturating_sub(until, now_);
  if (doorbell_.in_flight() == 0) arm_doorbell();
  mailbox_.announce_sleep();
  RingWake cause = RingWake::refused;
  const bool sleeps = still_nothing_to_do(longest);
  if (sleeps) {
    spent_ = Spent::parked;
    time_.note_sleep(saturating_add(now_, longest), doorbell_fd_);
    cause = ring_->sleep(longest);
    time_.note_wake();
  }
  const bool rung = mailbox_.wake_up();
  cancel_park();
  count_wake(cause, rung);
  return sleeps;
}

bool Loop::still_nothing_to_do(Delay& longest) {
  bool refused = false;
  for (std::size_t i = 0; i < poller_count_; ++i) {
    PollerSlot& slot = pollers_[i];
    if (slot.poller == nullptr) continue;
    if (slot.failed) slot.poll_again_at = saturating_add(now_, kErrorPause);
    const ParkAnswer answer = prepare_park(slot);
    const bool announced =
        answer.kind == ParkAnswer::Kind::elsewhere ||
        (answer.kind == ParkAnswer::Kind::descriptor && arm_descriptor(slot, answer.fd, longest));
    if (announced) continue;
    if (answer.kind == ParkAnswer::Kind::refuse || !doze(longest)) refused = true;
  }
  std::size_t arrived = handle_messages();
  arrived += poll_pollers();
  if (arrived > 0) {
    // What they armed or queued belongs to the next turn.
    static_cast<void>(idle_controller_.on_arrival(saturating_sub(now_, idle_since_), false));
    spent_ = Spent::busy;
    was_idle_ = false;
    doze_ = {};
    return false;
  }
  // A poller may arm and queue although it calls itself idle.
  if (poller_count_ > 0) {
    const Instant due = wheel_.next_expiry();
    if (due <= now_) return false;
    longest = std::min(longest, saturating_sub(due, now_));
  }
  if (ready_count_ > 0) return false;
  return !refused && requests_.load(std::memory_order_seq_cst) == 0 && !ring_->ready();
}

void Loop::count_wake(RingWake cause, bool rung) noexcept {
  stats_.doorbells = mailbox_.doorbells();
  if (spent_ != Spent::parked || cause == RingWake::refused) {
    ++stats_.failed_parks;
    return;
  }
  ++stats_.parks;
  if (rung) {
    ++stats_.wakes_by_message;
  } else if (cause == RingWake::completion) {
    ++stats_.wakes_by_completion;
  } else if (cause == RingWake::timeout) {
    ++stats_.wakes_by_timer;
  } else {
    ++stats_.wakes_by_signal;
  }
}

/// Shortens the sleep to what may pass beside a poller that nothing announces. False: no sleep.
bool Loop::doze(Delay& longest) noexcept {
  const Delay doubled = std::chrono::nanoseconds{2 * doze_.count()};
  doze_ = std::min(std::max(doubled, kFirstDoze), options_.doze_max);
  if (doze_ < longest) ++stats_.dozes;
  longest = std::min(longest, doze_);
  return doze_.count() > 0;
}

/// Whether the descriptor will end the sleep. Not after an error, which would end each one at once;
/// then the sleep ends at the latest when it is tried again.
bool Loop::arm_descriptor(PollerSlot& slot, int fd, Delay& longest) {
  if (slot.fd == fd) {
    // One that is still armed from an earlier sleep serves this one.
    if (slot.in_flight() > 0) return true;
    if (now_ < slot.poll_again_at) {
      longest = std::min(longest, saturating_sub(slot.poll_again_at, now_));
      return false;
    }
  }
  ring_->cancel(slot);
  slot.fd = fd;
  io_uring_prep_poll_add(&ring_->get_sqe(slot), fd, POLLIN);
  return true;
}

/// The wake-up is what matters: the turn that follows polls the poller.
void Loop::PollerSlot::on_readable(Completion& self, std::int32_t result, std::uint32_t) noexcept {
  PollerSlot& slot = static_cast<PollerSlot&>(self);
  const bool refused = result < 0 && result != -ECANCELED;
  slot.failed = refused || (result > 0 && (result & (POLLERR | POLLHUP | POLLNVAL)) != 0);
}

void Loop::arm_doorbell() {
  // Each write to the descriptor gives one completion, although nobody ever reads it.
  io_uring_prep_poll_multishot(&ring_->get_sqe(doorbell_), doorbell_fd_, POLLIN);
}

void Loop::Doorbell::on_rung(Completion&, std::int32_t, std::uint32_t) noexcept {
  // The wake-up is all that matters. If it was the last, the next sleep arms the doorbell again.
}

void Loop::ring_eventfd() noexcept {
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the doorbell has been rung.
  static_cast<void>(!write(doorbell_fd_, &one, sizeof(one)));
}

}  // namespace pinion

#include <pinion/eventloop/wait.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <pinion/eventloop/loop.h>

namespace pinion {

void Wait::begin(detail::PromiseBase& promise) noexcept {
  PINION_DCHECK(promise_ == nullptr);
  PINION_DCHECK(promise.context->wait == nullptr);
  promise_ = &promise;
  promise.context->wait = this;
  if (promise.context->cancel_requested) cancel_(*this);
}

void Wait::resume() noexcept {
  PINION_ASSERT(promise_ != nullptr);
  detail::PromiseBase& promise = *std::exchange(promise_, nullptr);
  promise.context->wait = nullptr;
  promise.context->queue->loop->make_ready(promise);
}

void Wait::resume_at_once() noexcept {
  PINION_ASSERT(promise_ != nullptr);
  detail::PromiseBase& promise = *std::exchange(promise_, nullptr);
  promise.context->wait = nullptr;
  promise.context->queue->loop->hand_over(promise);
}

void Wait::abandon() noexcept {
  promise_->context->wait = nullptr;
  promise_ = nullptr;
}

void SleepAwaiter::start(detail::PromiseBase& promise) noexcept {
  Loop& loop = loop_of(promise);
  const bool due = relative_ ? delay_.count() <= 0 : deadline_ <= loop.now();
  if (due) {
    begin(promise);
    if (waiting()) resume();
    return;
  }
  if (relative_) deadline_ = saturating_add(loop.fresh_now(), delay_);
  loop.wheel().arm(*this, deadline_);
  begin(promise);
}

void SleepAwaiter::on_timer(TimerEntry& entry) noexcept {
  static_cast<SleepAwaiter&>(entry).resume();
}

void SleepAwaiter::on_cancel(Wait& wait) noexcept {
  SleepAwaiter& self = static_cast<SleepAwaiter&>(wait);
  if (self.armed()) Loop::current().wheel().cancel(self);
  self.wake_ = Wake::cancelled;
  self.resume();
}

Wake YieldAwaiter::start(detail::PromiseBase& promise) noexcept {
  promise.context->queue->loop->make_ready(promise);
  return promise.context->cancel_requested ? Wake::cancelled : Wake::elapsed;
}

constinit thread_local std::uint64_t detail::go_on_until = 0;

bool detail::must_yield() noexcept {
  return Loop::current().must_yield();
}

bool Loop::something_arrived() const noexcept {
  return requests_.load(std::memory_order_relaxed) != 0 || !mailbox_.empty() || ring_->ready();
}

/// When the tasks of this turn have to let the turn go on.
Instant Loop::end_of_slice() const noexcept {
  return std::min(saturating_add(now_, options_.task_slice), wheel_.next_expiry());
}

/// Whatever arrives is seen within kLookEvery, and a timer within its due time: what lies between
/// two looks is one comparison. Of groups, the others may go on (run_groups()), unless it is for
/// one of them that the task yields.
bool Loop::must_yield() noexcept {
  constexpr Delay kLookEvery = std::chrono::microseconds{5};
  PINION_ASSERT(detail::running_task != nullptr);
  if (cancelled()) return true;
  const bool arrived = something_arrived();
  if (arrived && groups_ == 1) return true;
  const Instant now = std::max(now_, time_.now());
  const Instant end = end_of_slice();
  other_group_waits_ = groups_ > 1 && other_group_first(now);
  if (arrived || other_group_waits_ || now >= end) return true;
  detail::go_on_until = time_.counter_after(std::min(kLookEvery, saturating_sub(end, now)));
  return false;
}

}  // namespace pinion

#include <pinion/eventloop/wait.h>

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
  promise.context->loop->make_ready(promise);
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

void YieldAwaiter::on_cancel(Wait& wait) noexcept {
  YieldAwaiter& self = static_cast<YieldAwaiter&>(wait);
  self.wake_ = Wake::cancelled;
  self.resume();
}

}  // namespace pinion

#include <pinion/eventloop/call.h>

#include <ctime>
#include <utility>

#include <pinion/eventloop/loop.h>

/// Calls between loops: on their way there and back, and what becomes of them when a loop ends.

namespace pinion {
namespace detail {

bool CallBase::start(PromiseBase& promise) noexcept {
  home_ = &loop_of(promise);
  if (promise.context->cancel_requested) {
    begin(promise);  // It calls the hook.
    return true;
  }
  if (lane_ != nullptr) lane_->claim(*home_);
  const bool may_go = lane_ == nullptr || lane_->enter();
  if (!may_go && if_full_ == IfFull::refuse) {
    error_ = CallError::full;
    return false;
  }
  begin(promise);
  if (may_go) {
    launch();
  } else {
    lane_->waiting_.push_back(*this);
  }
  return true;
}

void CallBase::on_cancel(Wait& wait) noexcept {
  CallBase& self = static_cast<CallBase&>(wait);
  if (self.state_ == State::in_flight) return;
  if (self.linked()) List<CallBase>::erase(self);
  self.give_up(CallError::cancelled);
}

void CallBase::give_up(CallError error) noexcept {
  error_ = error;
  resume();
}

/// Its place in the lane is taken.
void CallBase::launch() noexcept {
  Loop& target = *target_;
  if (!target.call_gate_.enter()) {
    if (lane_ != nullptr) lane_->leave();
    give_up(CallError::ended);
    return;
  }
  state_ = State::in_flight;
  ++home_->calls_in_flight_;
  target.post(*this);
  target.call_gate_.leave();
}

bool CallBase::admitted() noexcept {
  if (!target_->call_gate_.closed()) return true;
  error_ = CallError::ended;
  return false;
}

void CallBase::answer() noexcept {
  answered_ = true;
  home_->post(*this);
}

void CallBase::finish() noexcept {
  state_ = State::here;
  --home_->calls_in_flight_;
  if (lane_ != nullptr) lane_->leave();
  resume();
}

}  // namespace detail

bool CallLane::enter() noexcept {
  if (free_ == 0) return false;
  --free_;
  ++in_flight_;
  return true;
}

/// The place goes to whoever has waited longest. One that finds the other loop ended gives it back
/// in here: a loop, since any number may wait.
void CallLane::leave() noexcept {
  ++free_;
  --in_flight_;
  if (std::exchange(leaving_, true)) return;
  while (free_ > 0) {
    detail::CallBase* const next = waiting_.pop_front();
    if (next == nullptr) break;
    static_cast<void>(enter());
    next->launch();
  }
  leaving_ = false;
}

/// The run is over. What calls have come in are answered: they stand before the marker.
void Loop::end_calls() {
  struct Marker : Message {
    Marker() noexcept : Message(&on_message) {}
    static void on_message(Message& message) noexcept { static_cast<Marker&>(message).come = true; }
    bool come = false;
  } marker;
  // It sleeps: a thread of a higher priority on a sender's CPU would never let it go on.
  const auto wait_a_moment = [] {
    constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 20'000};
    nanosleep(&kMoment, nullptr);
  };
  call_gate_.close(wait_a_moment);
  post(marker);
  while (!marker.come) {
    if (handle_messages() == 0 && !marker.come) wait_a_moment();
  }
  destroy_unstarted_tasks();  // Those that a handler spawned just now.
}

}  // namespace pinion

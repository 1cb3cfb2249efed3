#include <pinion/eventloop/when.h>

#include <pinion/eventloop/loop.h>

namespace pinion::detail {

/// Children that are left belong to a frame that dies while it waits; their own frames have gone.
ChildGroup::~ChildGroup() {
  while (!children_.empty()) {
    TaskContext& child = children_.front();
    child.queue->loop->give_back(child);
  }
}

void ChildGroup::add(PromiseBase& parent, PromiseBase* child) noexcept {
  Loop& loop = loop_of(parent);
  TaskContext* const context =
      child == nullptr ? nullptr
                       : loop.take_context(*child, *parent.context->queue, parent.context->name);
  if (context == nullptr) {
    refused_ = true;
    return;
  }
  context->group = this;
  context->order = added_++;
  children_.push_back(*context);
}

bool ChildGroup::start(PromiseBase& parent) noexcept {
  Loop& loop = loop_of(parent);
  if (refused_) {
    ++loop.stats_.tasks_refused;
    while (!children_.empty()) {
      TaskContext& child = children_.front();
      child.root->context = nullptr;
      loop.give_back(child);
    }
    return false;
  }
  for (TaskContext& child : children_) loop.hand_over(*child.root);
  begin(parent);
  return true;
}

void ChildGroup::cancel_children() noexcept {
  for (TaskContext& child : children_) child.queue->loop->cancel(child);
}

void ChildGroup::on_cancel(Wait& wait) noexcept {
  static_cast<ChildGroup&>(wait).cancel_children();
}

void ChildGroup::on_end(TaskContext& child) noexcept {
  const bool first = first_ == kNone;
  if (first) first_ = child.order;
  child.queue->loop->give_back(child);
  if (children_.empty()) {
    resume_at_once();
  } else if (first && until_ == Until::first) {
    cancel_children();
  }
}

bool DeadlineGroup::start_until_deadline(PromiseBase& parent) noexcept {
  if (!start(parent)) return false;
  Loop& loop = loop_of(parent);
  if (relative_ ? delay_.count() <= 0 : deadline_ <= loop.now()) {
    expire();
    return true;
  }
  if (relative_) deadline_ = saturating_add(loop.fresh_now(), delay_);
  if (deadline_ != kNever) loop.wheel().arm(*this, deadline_);
  return true;
}

/// The task may have ended already, when the one that waits for it has not yet gone on.
void DeadlineGroup::on_timer(TimerEntry& entry) noexcept {
  DeadlineGroup& self = static_cast<DeadlineGroup&>(entry);
  if (!self.all_ended()) self.expire();
}

void DeadlineGroup::expire() noexcept {
  expired_ = true;
  cancel_children();
}

}  // namespace pinion::detail

#include <liburing.h>

#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/guarded.h>

/// Where the loop calls handlers, pollers, drainables and reports. The one file of it that is built
/// with exceptions: one that leaves such a call ends the process here, whoever turns the loop.

namespace pinion {

using detail::guarded;

void Ring::deliver(const Entry& entry) {
  if (entry.user_data < kReservedData) return;
  Completion& completion = *reinterpret_cast<Completion*>(entry.user_data);
  if ((entry.flags & IORING_CQE_F_MORE) == 0) {
    PINION_ASSERT(completion.in_flight_ > 0);
    --completion.in_flight_;
    --in_flight_;
  }
  running_->note("completion", nullptr, reinterpret_cast<const void*>(completion.handler_));
  guarded("a completion handler",
          [&] { completion.handler_(completion, entry.result, entry.flags); });
}

std::size_t Loop::handle_messages() {
  if (mailbox_.empty()) [[likely]]
    return 0;
  std::size_t done = 0;
  for (; done < options_.message_budget; ++done) {
    Message* const message = mailbox_.pop();
    if (message == nullptr) break;
    note_running("message", nullptr, reinterpret_cast<const void*>(message->handler_));
    guarded("a message handler", [message] { message->handler_(*message); });
  }
  stats_.messages += done;
  return done;
}

/// A poller that had nothing to do doesn't count as what ran last.
std::size_t Loop::poll_pollers() {
  if (poller_count_ == 0) return 0;
  Running last = running_.look();
  std::size_t done = 0;
  for (std::size_t i = 0; i < poller_count_; ++i) {
    Poller* const poller = pollers_[i].poller;
    if (poller == nullptr) continue;
    const Running now{poller->name(), nullptr, poller};
    running_.note(now);
    const std::size_t did =
        guarded("a poller", [&] { return poller->poll(now_, options_.poll_budget); });
    if (did == 0) continue;
    done += did;
    ++ran_;
    last = now;
  }
  running_.note(last);
  return done;
}

/// Some of them leave when they hear of it.
void Loop::end_pollers() {
  for (std::size_t i = 0; i < poller_count_; ++i) {
    Poller* const poller = pollers_[i].poller;
    if (poller != nullptr) guarded("a poller", [&] { poller->on_run_ended(); });
  }
}

ParkAnswer Loop::prepare_park(PollerSlot& slot) {
  slot.prepared = true;
  return guarded("a poller", [&slot] {
    if (std::exchange(slot.failed, false)) slot.poller->on_wait_error();
    if (slot.poller == nullptr) return ParkAnswer::elsewhere();  // It has left for that.
    return slot.poller->prepare_park();
  });
}

/// Tells the pollers that prepared that the sleep is over.
void Loop::cancel_park() {
  for (std::size_t i = 0; i < poller_count_; ++i) {
    PollerSlot& slot = pollers_[i];
    const bool prepared = std::exchange(slot.prepared, false);
    if (!prepared || slot.poller == nullptr) continue;
    guarded("a poller", [&slot] { slot.poller->cancel_park(); });
  }
}

void Loop::tell(Drainable& drainable, Order order) {
  guarded("a drainable", [&] { (drainable.*order)(); });
}

void Lcore::write_reports(ReportText& text) {
  for (const auto& write : reports_) {
    guarded("a report", [&] { write(text); });
  }
}

/// Through a list of what is left to tell, since they may remove themselves or each other.
void Loop::tell_all(Order order) {
  List<Drainable> untold;
  untold.splice(drainables_);
  while (Drainable* const drainable = untold.pop_front()) {
    drainables_.push_back(*drainable);
    tell(*drainable, order);
  }
}

bool Loop::all_drained() {
  return guarded("a drainable", [this] {
    for (const Drainable& drainable : drainables_) {
      if (!drainable.drained()) return false;
    }
    return true;
  });
}

}  // namespace pinion

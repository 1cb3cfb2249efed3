#include "listener.h"

#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "kernel_core.h"
#include "socket.h"

namespace pinion::detail {

KernelListener::KernelListener(KernelCore& core, int fd, const Endpoint& endpoint,
                               bool shared) noexcept
    : core_(core),
      fd_(fd),
      endpoint_(endpoint),
      shared_(shared),
      accept_operation_(&on_accepted, *this),
      retry_timer_(*this) {}

KernelListener::~KernelListener() {
  PINION_ASSERT(fd_ < 0 && waiting_.empty());
}

bool KernelListener::accept_ready(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == nullptr);
  if (end_) {
    accept.settle(tl::unexpected(*end_));
    return true;
  }
  if (waiting_.empty() || !core_.may_open()) return false;
  accept.settle(next_waiting().hand_out());
  want_accept();
  return true;
}

bool KernelListener::start_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == nullptr);
  want_accept();
  if (!waiting_.empty()) core_.make_room(true);
  if (!waiting_.empty() && core_.may_open()) {
    accept.settle(next_waiting().hand_out());
    return false;
  }
  accept_ = &accept;
  return true;
}

void KernelListener::cancel_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == &accept);
  std::exchange(accept_, nullptr)->finish(tl::unexpected(StreamError::cancelled));
}

void KernelListener::abandon_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == &accept);
  accept_ = nullptr;
}

void KernelListener::release() noexcept {
  handle_ = false;
  if (!end_) return stop(StreamError::closed);
  end_if_quiet();
}

void KernelListener::stop(StreamError why) noexcept {
  if (end_) return;
  end_ = why;
  stop_listening(fd_, endpoint_, shared_);
  if (accept_operation_.in_flight() != 0) core_.ring().cancel(accept_operation_);
  while (!waiting_.empty()) next_waiting().end(why);
  if (accept_ != nullptr) std::exchange(accept_, nullptr)->finish(tl::unexpected(why));
  end_if_quiet();
}

KernelConnection& KernelListener::next_waiting() noexcept {
  --waiting_count_;
  core_.uncount_pending();
  return *waiting_.pop_front();
}

void KernelListener::room_appeared() noexcept {
  paused_ = false;
  hand_over();
  want_accept();
}

void KernelListener::hand_over() noexcept {
  if (end_ || accept_ == nullptr || waiting_.empty() || !core_.may_open()) return;
  std::exchange(accept_, nullptr)->finish(next_waiting().hand_out());
}

/// Arms the accept, unless there is no room for what it would bring: then it waits for a
/// client that somebody should make room for.
void KernelListener::want_accept() noexcept {
  if (end_ || accept_operation_.in_flight() != 0 || waiting_count_ >= kMaxWaiting) return;
  if (paused_ || core_.full()) return watch();
  at_limit_ = client_waits_ = false;
  io_uring_sqe& entry = core_.ring().get_sqe(accept_operation_);
  if (core_.ring().has(RingFeature::multishot_accept)) {
    io_uring_prep_multishot_accept(&entry, fd_, nullptr, nullptr, SOCK_CLOEXEC);
  } else {
    io_uring_prep_accept(&entry, fd_, nullptr, nullptr, SOCK_CLOEXEC);
  }
}

void KernelListener::watch() noexcept {
  if (!paused_ && !std::exchange(at_limit_, true)) ++core_.counters().accept_pauses;
  if (client_waits_) return;
  watching_ = true;
  io_uring_sqe& entry = core_.ring().get_sqe(accept_operation_);
  io_uring_prep_poll_add(&entry, fd_, POLLIN);
}

/// May end the listener.
void KernelListener::watched(std::int32_t result) noexcept {
  watching_ = false;
  if (end_) return end_if_quiet();
  if (result <= 0) return retry_later();  // Whoever quiesces the ring ended it.
  client_waits_ = true;
  want_accept();
  core_.make_room(false);
}

void KernelListener::on_accepted(Completion& completion, std::int32_t result,
                                 std::uint32_t flags) noexcept {
  KernelListener& listener = static_cast<Operation&>(completion).listener;
  if (listener.watching_) return listener.watched(result);
  listener.accepted(result, (flags & IORING_CQE_F_MORE) != 0);
}

/// May end the listener.
void KernelListener::accepted(std::int32_t result, bool more) noexcept {
  if (result >= 0) take_socket(result);
  if (more) {
    const bool enough = core_.full() || waiting_count_ >= kMaxWaiting;
    if (!enough || stopping_) return;
    stopping_ = true;
    return core_.ring().cancel(accept_operation_);
  }
  const bool stopped = std::exchange(stopping_, false);
  if (end_) return end_if_quiet();
  if (result >= 0 || stopped) return want_accept();
  accept_failed(-result);
}

void KernelListener::take_socket(int fd) noexcept {
  if (end_) return discard_socket(fd);
  KernelConnection* const connection = core_.adopt(fd);
  if (connection == nullptr) {
    ++core_.counters().accept_dropped;
    return discard_socket(fd);
  }
  ++core_.counters().accepted;
  ++waiting_count_;
  core_.count_pending();
  waiting_.push_back(*connection);
  hand_over();
  if (wants_room()) core_.make_room(false);
}

/// Accepting again at once without a descriptor would fail at once, for ever.
void KernelListener::accept_failed(int errno_value) noexcept {
  const bool the_peers_fault =
      errno_value == ECONNABORTED || errno_value == EPROTO || is_transient(errno_value);
  if (the_peers_fault) return want_accept();
  // Some kernels (6.1) end it as cancelled when the completion queue is full; and so does whoever
  // quiesces the ring.
  const bool passes = errno_value == ECANCELED || is_exhaustion(errno_value);
  if (!passes) ++core_.counters().io_errors;
  paused_ = true;
  ++core_.counters().accept_pauses;
  retry_later();
  if (errno_value != ECANCELED) want_accept();
}

void KernelListener::retry_later() noexcept {
  Loop& loop = core_.loop();
  loop.wheel().extend(retry_timer_, saturating_add(loop.now(), core_.options().accept_retry));
}

void KernelListener::on_retry(TimerEntry& entry) {
  KernelListener& listener = static_cast<Timer&>(entry).listener;
  listener.paused_ = false;
  listener.want_accept();
}

void KernelListener::end_if_quiet() noexcept {
  if (!end_ || accept_operation_.in_flight() != 0) return;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!handle_) core_.free(*this);
}

}  // namespace pinion::detail

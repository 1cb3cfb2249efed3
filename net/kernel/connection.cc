#include "connection.h"

#include <utility>

#include "kernel_core.h"
#include "socket.h"

namespace pinion::detail {

KernelConnection::KernelConnection(KernelCore& core, int fd) noexcept
    : core_(core),
      fd_(fd),
      receive_operation_(&on_received, *this),
      send_operation_(&on_sent, *this),
      keepalive_timer_(&on_keepalive_timer, *this),
      read_timer_(&on_read_timer, *this),
      write_timer_(&on_write_timer, *this) {}

Stream KernelConnection::hand_out() noexcept {
  PINION_ASSERT(!handle_);
  handle_ = true;
  ++core_.counters().open;
  return Stream(*this);
}

void KernelConnection::release() noexcept {
  PINION_ASSERT(handle_);
  handle_ = false;
  --core_.counters().open;
  if (phase_ == Phase::open) return close();
  drop_unread();
  end_if_quiet();
}

void KernelConnection::shutdown_write() noexcept {
  if (phase_ != Phase::open || write_end_) return;
  write_end_ = StreamError::closed;
  finish_sending();
}

void KernelConnection::close() noexcept {
  const bool open = phase_ == Phase::open;
  const bool reset = open && (has_unread() || write_failed_);
  drop_unread();
  read_end_ = write_end_ = StreamError::closed;
  if (read_ != nullptr) finish_read(tl::unexpected(StreamError::closed));
  if (!open) return;
  if (reset) return end(StreamError::closed);
  linger();
}

void KernelConnection::abort() noexcept {
  drop_unread();
  read_end_ = write_end_ = StreamError::closed;
  end(StreamError::closed);
}

void KernelConnection::end(StreamError why) noexcept {
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::connecting) return cancel_connect(why);
  leave();
  fin_after_write_ = false;
  if (why != StreamError::reset && why != StreamError::peer_timeout &&
      why != StreamError::unreachable) {
    reset_socket(fd_);
    ++core_.counters().resets_sent;
  }
  if (!read_end_) read_end_ = why;
  if (!write_end_) write_end_ = why;
  if (read_ != nullptr) finish_read(tl::unexpected(why));
  if (in_write_line()) {
    std::exchange(write_, nullptr)->finish(tl::unexpected(*write_end_));
  }
  if (send_operation_.in_flight() != 0) stop_write(why);
  expect_quiet();
  if (receive_operation_.in_flight() != 0) core_.ring().cancel(receive_operation_);
  end_if_quiet();
}

/// FIN once nothing is being sent. After a failed write there is no order to keep.
void KernelConnection::finish_sending() noexcept {
  fin_after_write_ = send_operation_.in_flight() != 0;
  if (fin_after_write_) core_.ring().hurry();
  expect_quiet();
  if (!fin_after_write_ && !write_failed_) send_fin(fd_);
}

/// The connection is over, and its place will be free when the kernel is done with it.
void KernelConnection::leave() noexcept {
  if (phase_ == Phase::lingering) --core_.counters().closing;
  phase_ = Phase::ended;
  core_.count_leaving();
  if (in_line()) List<KernelConnection, StarvedTag>::erase(*this);
  if (List<KernelConnection, LingerTag>::linked(*this)) {
    List<KernelConnection, LingerTag>::erase(*this);
  }
  if (core_.pool().owns(sending_)) core_.pool().let_go(sending_.token());
}

void KernelConnection::give_way() noexcept {
  ++core_.counters().gave_way;
  if (!unread_.empty()) read_end_ = StreamError::no_resources;  // Not the end of what was dropped.
  drop_unread();
  end(StreamError::no_resources);
}

/// Sends FIN and waits for the peer's, discarding what still comes, so that it meets no closed
/// socket and provokes no reset. May end the connection.
void KernelConnection::linger() noexcept {
  phase_ = Phase::lingering;
  finish_sending();
  ++core_.counters().closing;
  if (!fin_after_write_) return await_fin();
  core_.wheel().cancel(read_timer_);  // A write that goes on has its own timeout.
  want_receive();
  linger_behind_send();
}

/// What is being sent may wait for the peer without a limit: then it gives up its place to who
/// needs one. May end the connection.
void KernelConnection::linger_behind_send() noexcept {
  if (phase_ != Phase::lingering || !accepted_waits_ || write_due().at != kNever) return;
  core_.lingering().push_back(*this);
  core_.make_room(false);
}

/// Our FIN is out: the linger time begins. May end the connection.
void KernelConnection::await_fin() noexcept {
  if (peer_closed_ || core_.options().linger <= Delay{}) return stop_lingering();
  core_.wheel().extend(read_timer_, deadline_of(core_.options().linger));
  want_receive();
  if (!List<KernelConnection, LingerTag>::linked(*this)) core_.lingering().push_back(*this);
  core_.make_room(false);
}

void KernelConnection::stop_lingering() noexcept {
  if (phase_ != Phase::lingering) return;
  if (send_operation_.in_flight() != 0) return end(StreamError::closed);
  leave();
  if (receive_operation_.in_flight() != 0) core_.ring().cancel(receive_operation_);
  end_if_quiet();
}

void KernelConnection::drain() noexcept {
  if (phase_ == Phase::connecting) return cancel_connect(StreamError::draining);
  if (phase_ == Phase::open && read_ != nullptr) end_read(StreamError::draining);
}

bool KernelConnection::has_unread() const noexcept {
  if (!unread_.empty()) return true;
  return !read_end_ && !peer_closed_ && anything_arrived();
}

bool KernelConnection::busy() const noexcept {
  return receive_operation_.in_flight() != 0 || send_operation_.in_flight() != 0;
}

/// Closes the descriptor once the kernel is done with it, and goes when the handle is gone too. The
/// last thing that its callers do.
void KernelConnection::end_if_quiet() noexcept {
  if (phase_ != Phase::ended || busy()) return;
  if (fd_ >= 0) core_.close_descriptor(std::exchange(fd_, -1));
  if (!handle_) core_.free(*this);
}

/// The earlier of an operation's own deadline and the exchange's; at equality its own.
KernelConnection::Due KernelConnection::earlier(Instant own, StreamError timeout) const noexcept {
  if (own <= exchange_deadline_) return {own, timeout};
  return {exchange_deadline_, StreamError::deadline_exceeded};
}

Instant KernelConnection::deadline_of(Delay timeout) noexcept {
  return timeout == kNoTimeout ? kNever : saturating_add(core_.loop().fresh_now(), timeout);
}

void KernelConnection::set_deadline(Instant deadline) noexcept {
  if (phase_ != Phase::open && phase_ != Phase::lingering) return;
  exchange_deadline_ = deadline;
  if (read_ != nullptr) {
    core_.wheel().extend(read_timer_, read_due().at);
  }
  if (write_ != nullptr || accepted_) arm_write_timer();
}

void KernelConnection::set_deadline(Delay from_now) noexcept {
  set_deadline(deadline_of(from_now));
}

Endpoint KernelConnection::local() const noexcept {
  return local_endpoint(fd_);
}

Endpoint KernelConnection::peer() const noexcept {
  return peer_endpoint(fd_);
}

}  // namespace pinion::detail

#include <liburing.h>

#include <algorithm>
#include <cerrno>

#include "connection.h"
#include "kernel_core.h"
#include "socket.h"

// A connection's sending half: one send at a time, continued until everything was accepted.

namespace pinion::detail {
namespace {

/// The most that one operation of the ring can say it sent.
constexpr std::size_t kMaxSend = std::size_t{1} << 30;

}  // namespace

bool KernelConnection::write_ready(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  if (write_end_) {
    write.settle(tl::unexpected(*write_end_));
    return true;
  }
  if (!write.bytes().empty()) return false;
  write.settle({});
  return true;
}

KernelConnection::Due KernelConnection::write_due() const noexcept {
  const bool connecting = phase_ == Phase::connecting;
  return earlier(write_deadline_,
                 connecting ? StreamError::connect_timeout : StreamError::write_timeout);
}

/// A write without time sends what the socket takes at once. So does one from a receive buffer
/// while these are scarce, and its rest waits in a spare buffer, if there is one.
bool KernelConnection::start_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  PINION_ASSERT(send_operation_.in_flight() == 0);
  const Instant now = core_.loop().fresh_now();
  write_deadline_ = saturating_add(now, write.timeout());
  const Due due = write_due();
  ReceivePool& pool = core_.pool();
  const bool scarce = pool.low() && pool.in_ring(write.chunk());
  unsent_ = write.bytes();
  if (due.at <= now || scarce) {
    const int error = send_what_fits();
    if (error != 0 || unsent_.empty() || due.at <= now) {
      const auto stopped = error == 0 ? std::optional(due.why) : std::nullopt;
      const StreamResult<void> outcome = write_outcome(stopped, error);
      write.settle(outcome);
      unsent_ = {};
      if (!outcome && !stopped) end(outcome.error());
      return false;
    }
  }
  write_ = &write;
  sending_ = std::move(write.chunk());
  if (scarce) {
    sending_.remove_prefix(sending_.size() - unsent_.size());
    pool.move_out(sending_);
    unsent_ = sending_.span();
  }
  if (pool.owns(sending_)) {
    pool.hold(sending_.token(), *this, core_.loop().now());
    core_.watch_buffers();
  }
  submit_send();
  if (due.at != kNever) core_.wheel().extend(write_timer_, due.at);
  return true;
}

void KernelConnection::count_sent(std::size_t count) noexcept {
  unsent_ = unsent_.subspan(count);
  stats_.bytes_out += count;
  core_.counters().bytes_out += count;
}

/// Sends what the socket takes without waiting; an errno when the connection is broken.
int KernelConnection::send_what_fits() noexcept {
  const std::int64_t sent = send_at_once(fd_, unsent_);
  if (sent > 0) count_sent(static_cast<std::size_t>(sent));
  const int error = sent < 0 ? static_cast<int>(-sent) : 0;
  return is_transient(error) ? 0 : error;
}

/// What came of a write that is over. With something unsent it was stopped for a reason, or the
/// connection is broken. Nothing may follow the part that was sent, not even FIN.
StreamResult<void> KernelConnection::write_outcome(std::optional<StreamError> stopped,
                                                   int errno_value) noexcept {
  if (unsent_.empty()) return {};
  const StreamError why = stopped ? *stopped : stream_error(errno_value);
  write_failed_ = true;
  if (!write_end_) write_end_ = why;
  const bool late = why == StreamError::write_timeout || why == StreamError::deadline_exceeded;
  if (late || !stopped) core_.count_failure(why);  // Who ended the connection counted that.
  return tl::unexpected(why);
}

void KernelConnection::submit_send() noexcept {
  io_uring_sqe& entry = core_.ring().get_sqe(send_operation_);
  io_uring_prep_send(&entry, fd_, unsent_.data(), std::min(unsent_.size(), kMaxSend),
                     MSG_NOSIGNAL | MSG_WAITALL);
}

void KernelConnection::on_sent(Completion& completion, std::int32_t result,
                               std::uint32_t) noexcept {
  KernelConnection& connection = static_cast<Operation&>(completion).connection;
  if (connection.phase_ == Phase::connecting) return connection.connected(result);
  connection.sent(result);
}

/// May end the connection.
void KernelConnection::sent(std::int32_t result) noexcept {
  if (result > 0) count_sent(static_cast<std::size_t>(result));
  const std::optional<StreamError> stopped = stop_reason_;
  const bool goes_on = result > 0 || is_transient(-result);
  if (goes_on && !unsent_.empty() && !stopped) return submit_send();
  const StreamResult<void> outcome = write_outcome(stopped, -result);
  settle_write(outcome);
  if (!outcome && !stopped) return end(outcome.error());
  if (phase_ == Phase::ended) return end_if_quiet();
  if (!fin_after_write_) return;
  finish_sending();
  if (phase_ != Phase::lingering) return;
  if (write_failed_) return end(StreamError::closed);
  await_fin();
}

void KernelConnection::settle_write(StreamResult<void> result) noexcept {
  unsent_ = {};
  sending_.reset();
  stop_reason_.reset();
  if (write_ != nullptr) std::exchange(write_, nullptr)->finish(result);
}

/// Takes the outstanding send back; its last completion settles the write.
void KernelConnection::stop_write(StreamError reason) noexcept {
  if (stop_reason_) return;
  stop_reason_ = reason;
  core_.ring().cancel(send_operation_);
}

void KernelConnection::cancel_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  stop_write(StreamError::cancelled);
}

void KernelConnection::abandon_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  write_ = nullptr;
  if (!write_end_) write_end_ = StreamError::cancelled;
  stop_write(StreamError::cancelled);
  if (sending_.empty()) core_.withdraw(send_operation_);
}

void KernelConnection::on_write_timer(TimerEntry& entry) {
  static_cast<Timer&>(entry).connection.write_timer_fired();
}

/// May end the connection.
void KernelConnection::write_timer_fired() noexcept {
  if (write_ == nullptr && connect_ == nullptr) return;
  const Due due = write_due();
  if (due.at > core_.loop().now()) {
    if (due.at != kNever) core_.wheel().extend(write_timer_, due.at);
    return;
  }
  if (connect_ != nullptr) return cancel_connect(due.why);
  stop_write(due.why);
}

}  // namespace pinion::detail

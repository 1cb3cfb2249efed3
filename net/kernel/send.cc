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
    untold_.reset();
    write.settle(tl::unexpected(*write_end_));
    return true;
  }
  if (!write.bytes().empty()) {
    const bool stands_behind = send_operation_.in_flight() != 0;
    if (stands_behind || !may_accept(write)) return false;
    accept(write, kNever);
  }
  write.settle({});
  return true;
}

KernelConnection::Due KernelConnection::write_due() const noexcept {
  const bool connecting = phase_ == Phase::connecting;
  return earlier(write_deadline_,
                 connecting ? StreamError::connect_timeout : StreamError::write_timeout);
}

/// Whether a chunk may be taken over before the socket has it: there is time, and room elsewhere.
bool KernelConnection::may_accept(WriteAwaiter& write) noexcept {
  const Chunk& chunk = write.chunk();
  const ReceivePool& pool = core_.pool();
  // Whoever lent another chunk may wait for it, and isn't told of a sleep.
  if (!pool.owns(chunk) || chunk.size() > kMaxSend) return false;
  if (write.timeout() <= Delay{} || (pool.low() && pool.in_ring(chunk))) return false;
  return exchange_deadline_ == kNever || exchange_deadline_ > core_.loop().fresh_now();
}

/// Takes a chunk over. The kernel sends what the socket has room for while it takes the operation
/// over, and speaks only of a part that is left; that waits here. `deadline` is the write's, if it
/// is known.
void KernelConnection::accept(WriteAwaiter& write, Instant deadline) noexcept {
  accepted_ = true;
  accepted_timeout_ = deadline == kNever ? write.timeout() : kNoTimeout;
  write_deadline_ = deadline;
  sending_ = std::move(write.chunk());
  unsent_ = sending_.span();
  const std::size_t size = unsent_.size();
  count_accepted(size);
  io_uring_sqe& entry =
      core_.ring().get_quiet_sqe(send_operation_, static_cast<std::int32_t>(size));
  io_uring_prep_send(&entry, fd_, unsent_.data(), size, MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT);
}

bool KernelConnection::start_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  const Instant now = core_.loop().fresh_now();
  const Instant deadline = saturating_add(now, write.timeout());
  if (accepted_) {
    queue_write(write, deadline);
    return true;
  }
  PINION_ASSERT(send_operation_.in_flight() == 0);
  const std::optional<StreamResult<void>> outcome = begin_write(write, now, deadline);
  if (!outcome) return true;
  write.settle(*outcome);
  if (broken_) end(*broken_);
  return false;
}

/// The write stands behind the chunk that was accepted before it.
void KernelConnection::queue_write(WriteAwaiter& write, Instant deadline) noexcept {
  write_ = &write;
  queued_deadline_ = deadline;
  if (is_quiet()) return expect_quiet();  // The next turn knows whether the socket took it.
  arm_write_timer();
}

/// What stood in line goes on when what it waited for is over.
void KernelConnection::begin_queued() noexcept {
  WriteAwaiter& write = *std::exchange(write_, nullptr);
  const Instant now = core_.loop().fresh_now();
  if (queued_deadline_ > now && may_accept(write)) {
    accept(write, queued_deadline_);
    return write.finish({});
  }
  if (const auto outcome = begin_write(write, now, queued_deadline_)) write.finish(*outcome);
}

/// Sends; the outcome, when that takes no waiting. A write without time sends what the socket takes
/// at once. So does one from a receive buffer while these are scarce, and its rest waits in a spare
/// buffer, if there is one.
std::optional<StreamResult<void>> KernelConnection::begin_write(WriteAwaiter& write, Instant now,
                                                                Instant deadline) noexcept {
  write_deadline_ = deadline;
  const Due due = write_due();
  ReceivePool& pool = core_.pool();
  const bool scarce = pool.low() && pool.in_ring(write.chunk());
  unsent_ = write.bytes();
  if (due.at <= now || scarce) {
    const int error = send_what_fits();
    if (error != 0 || unsent_.empty() || due.at <= now) {
      const StreamResult<void> outcome =
          write_outcome(error == 0 ? std::optional(due.why) : std::nullopt, error);
      unsent_ = {};
      return outcome;
    }
  }
  write_ = &write;
  sending_ = std::move(write.chunk());
  if (scarce) {
    move_rest();
  } else {
    hold_sending();
  }
  submit_send();
  arm_write_timer();
  return std::nullopt;
}

/// What is unsent waits in a spare buffer, if there is one.
void KernelConnection::move_rest() noexcept {
  core_.pool().let_go(sending_.token());
  sending_.remove_prefix(sending_.size() - unsent_.size());
  core_.pool().move_out(sending_);
  unsent_ = sending_.span();
  hold_sending();
}

void KernelConnection::hold_sending() noexcept {
  ReceivePool& pool = core_.pool();
  if (!pool.owns(sending_)) return;
  pool.hold(sending_.token(), *this, core_.loop().now());
  core_.watch_buffers();
}

void KernelConnection::arm_write_timer() noexcept {
  const Instant sending = write_due().at;
  const Instant at = in_write_line() ? std::min(sending, queued_deadline_) : sending;
  if (at != kNever) core_.wheel().extend(write_timer_, at);
}

void KernelConnection::count_accepted(std::size_t count) noexcept {
  stats_.bytes_out += count;
  core_.counters().bytes_out += count;
}

/// The socket took `count` bytes more. Those of an accepted chunk have been counted.
void KernelConnection::count_sent(std::size_t count) noexcept {
  unsent_ = unsent_.subspan(count);
  if (!accepted_) count_accepted(count);
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
  if (!stopped) broken_ = why;
  const bool late = why == StreamError::write_timeout || why == StreamError::deadline_exceeded;
  // Who ended the connection counted that.
  if (late || !stopped) count_stream_failure(core_.counters(), why);
  return tl::unexpected(why);
}

void KernelConnection::submit_send() noexcept {
  io_uring_sqe& entry = core_.ring().get_sqe(send_operation_);
  io_uring_prep_send(&entry, fd_, unsent_.data(), std::min(unsent_.size(), kMaxSend),
                     MSG_NOSIGNAL | MSG_WAITALL);
}

void KernelConnection::on_sent(Completion& completion, std::int32_t result,
                               std::uint32_t) noexcept {
  KernelConnection& connection = static_cast<Send&>(completion).connection;
  if (connection.phase_ == Phase::connecting) return connection.connected(result);
  connection.sent(result);
}

/// May end the connection.
void KernelConnection::sent(std::int32_t result) noexcept {
  if (result > 0) count_sent(static_cast<std::size_t>(result));
  const bool goes_on = result > 0 || is_transient(-result);
  if (goes_on && !unsent_.empty() && !stop_reason_) return send_rest();
  const bool told = write_failed_;
  const StreamResult<void> outcome = write_outcome(stop_reason_, -result);
  unsent_ = {};
  sending_.reset();
  stop_reason_.reset();
  accepted_waits_ = false;
  const bool accepted = std::exchange(accepted_, false);
  if (write_ != nullptr) {
    if (accepted && outcome) {
      begin_queued();
    } else {
      std::exchange(write_, nullptr)->finish(outcome);
    }
  } else if (accepted && !outcome && !told) {
    tell_reader(outcome.error());
  }
  send_ended();
}

/// Nothing is being sent, unless a write that stood in line is. May end the connection.
void KernelConnection::send_ended() noexcept {
  if (phase_ == Phase::ended) return end_if_quiet();
  if (broken_) return end(*broken_);
  if (!fin_after_write_) return;
  if (send_operation_.in_flight() != 0) return expect_quiet();
  finish_sending();
  if (phase_ != Phase::lingering) return;
  if (write_failed_) return end(StreamError::closed);
  await_fin();
}

/// The socket took a part. What is left of an accepted chunk has a time limit from now on. May end
/// the connection.
void KernelConnection::send_rest() noexcept {
  if (!accepted_ || std::exchange(accepted_waits_, true)) return submit_send();
  const ReceivePool& pool = core_.pool();
  if (pool.low() && pool.in_ring(sending_)) {
    move_rest();
  } else {
    hold_sending();
  }
  submit_send();
  if (accepted_timeout_ != kNoTimeout) write_deadline_ = deadline_of(accepted_timeout_);
  arm_write_timer();
  linger_behind_send();
}

/// The write that nobody waits for has failed: whoever reads is told, once.
void KernelConnection::tell_reader(StreamError why) noexcept {
  if (phase_ != Phase::open) return;
  if (read_ != nullptr) return finish_read(tl::unexpected(why));
  untold_ = why;
}

/// Takes the outstanding send back; its last completion settles the write.
void KernelConnection::stop_write(StreamError reason) noexcept {
  if (stop_reason_) return;
  stop_reason_ = reason;
  core_.ring().cancel(send_operation_);
}

void KernelConnection::cancel_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  if (!in_write_line()) return stop_write(StreamError::cancelled);
  leave_line(StreamError::cancelled);
  write.finish(tl::unexpected(StreamError::cancelled));
}

void KernelConnection::abandon_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  if (in_write_line()) return leave_line(StreamError::cancelled);
  write_ = nullptr;
  if (!write_end_) write_end_ = StreamError::cancelled;
  stop_write(StreamError::cancelled);
  if (sending_.empty()) core_.withdraw(send_operation_);
}

/// The write that stands behind an accepted chunk is given up. The chunk still goes out.
void KernelConnection::leave_line(StreamError why) noexcept {
  write_ = nullptr;
  write_failed_ = true;
  if (!write_end_) write_end_ = why;
}

/// Whether a write stands behind an accepted chunk.
bool KernelConnection::in_write_line() const noexcept {
  return accepted_ && write_ != nullptr;
}

/// Whether what was accepted is on its way to the socket, which the next turn knows.
bool KernelConnection::is_quiet() const noexcept {
  return accepted_ && !accepted_waits_;
}

/// Before whatever waits for the end of a send.
void KernelConnection::expect_quiet() noexcept {
  if (is_quiet()) core_.ring().expect_quiet();
}

void KernelConnection::on_write_timer(TimerEntry& entry) {
  static_cast<Timer&>(entry).connection.write_timer_fired();
}

/// May end the connection.
void KernelConnection::write_timer_fired() noexcept {
  if (write_ == nullptr && connect_ == nullptr && !accepted_) return;
  const Instant now = core_.loop().now();
  const Due due = write_due();
  if (due.at <= now) return connect_ != nullptr ? cancel_connect(due.why) : stop_write(due.why);
  const Due queued = earlier(queued_deadline_, StreamError::write_timeout);
  if (in_write_line() && queued.at <= now) {
    WriteAwaiter& write = *write_;
    leave_line(queued.why);
    core_.count_failure(queued.why);
    write.finish(tl::unexpected(queued.why));
  }
  arm_write_timer();
}

}  // namespace pinion::detail

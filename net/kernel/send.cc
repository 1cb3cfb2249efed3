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

bool KernelConnection::start_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  PINION_ASSERT(send_operation_.in_flight() == 0);
  const Instant now = core_.loop().fresh_now();
  write_deadline_ = saturating_add(now, write.timeout());
  const Instant deadline = std::min(write_deadline_, exchange_deadline_);
  if (deadline <= now) {
    const bool timeout = write_deadline_ <= exchange_deadline_;
    write.settle(send_now(write.bytes(),
                          timeout ? StreamError::write_timeout : StreamError::deadline_exceeded));
    return false;
  }
  write_ = &write;
  unsent_ = write.bytes();
  sending_ = std::move(write.chunk());
  submit_send();
  if (deadline != kNever) core_.wheel().extend(write_timer_, deadline);
  return true;
}

/// What the socket takes at once is all that a write without time may send.
StreamResult<void> KernelConnection::send_now(std::span<const std::byte> bytes,
                                              StreamError late) noexcept {
  const std::int64_t sent = send_at_once(fd_, bytes);
  if (sent > 0) {
    stats_.bytes_out += static_cast<std::uint64_t>(sent);
    core_.counters().bytes_out += static_cast<std::uint64_t>(sent);
  }
  if (sent == static_cast<std::int64_t>(bytes.size())) return {};
  const bool full = sent >= 0 || sent == -EAGAIN;
  const StreamError why = full ? late : stream_error(static_cast<int>(-sent));
  write_failed(why);
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
  if (result > 0) {
    const auto count = static_cast<std::size_t>(result);
    unsent_ = unsent_.subspan(count);
    stats_.bytes_out += count;
    core_.counters().bytes_out += count;
    if (!unsent_.empty() && !stop_reason_) return submit_send();
  }
  if (unsent_.empty()) {
    settle_write({});
  } else {
    const bool broken = !stop_reason_ && result <= 0;
    const StreamError why = broken ? stream_error(-result) : *stop_reason_;
    write_failed(why);
    settle_write(tl::unexpected(why));
    if (broken) {
      count_failure(why);
      return end(why);
    }
  }
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

/// A part may have been sent: nothing may follow it, not even FIN.
void KernelConnection::write_failed(StreamError reason) noexcept {
  write_failed_ = true;
  if (!write_end_) write_end_ = reason;
  if (reason == StreamError::write_timeout || reason == StreamError::deadline_exceeded) {
    count_failure(reason);
  }
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
  const Instant deadline = std::min(write_deadline_, exchange_deadline_);
  if (deadline > core_.loop().now()) {
    if (deadline != kNever) core_.wheel().extend(write_timer_, deadline);
    return;
  }
  if (connect_ != nullptr) return cancel_connect(StreamError::connect_timeout);
  const bool timeout = write_deadline_ <= exchange_deadline_;
  stop_write(timeout ? StreamError::write_timeout : StreamError::deadline_exceeded);
}

}  // namespace pinion::detail

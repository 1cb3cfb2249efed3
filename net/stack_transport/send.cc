#include <algorithm>
#include <utility>

#include "stack_connection.h"
#include "stack_core.h"

// A connection's sending half: the stack takes what its buffer has room for, and says when there is
// more.

namespace pinion::detail {
StackConnection::Due StackConnection::write_due() const noexcept {
  const bool connecting = phase_ == Phase::connecting;
  return earlier(write_deadline_,
                 connecting ? StreamError::connect_timeout : StreamError::write_timeout);
}

bool StackConnection::write_ready(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  if (write_end_) {
    write.settle(tl::unexpected(*write_end_));
    return true;
  }
  if (!write.bytes().empty()) {
    packet_ = core_.take_back(write.chunk());
    unsent_ = write.bytes();
    if (!push()) return false;
    forget_write();
  }
  write.settle({});
  return true;
}

/// Gives the stack what it takes. Whether that was all.
bool StackConnection::push() noexcept {
  const Instant now = core_.loop().now();
  const TcpTransferred sent =
      packet_ ? core_.tcp().write(tcp_, packet_, now) : core_.tcp().write(tcp_, unsent_, now);
  unsent_ = unsent_.subspan(sent.bytes);
  stats_.bytes_out += sent.bytes;
  core_.counters().bytes_out += sent.bytes;
  if (sent.bytes != 0) {
    if (!std::exchange(unacked_, true)) unacked_since_ = now;
    core_.note_holding(*this);
    core_.make_way();
  }
  return sent.outcome == TcpOutcome::done;
}

bool StackConnection::start_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == nullptr);
  const Instant now = core_.loop().fresh_now();
  write_deadline_ = saturating_add(now, write.timeout());
  const Due due = write_due();
  if (due.at <= now) {
    poison(due.why);
    write.settle(tl::unexpected(due.why));
    return false;
  }
  write_ = &write;
  arm_write_deadline(now);
  return true;
}

/// A part of what was to be written may be missing: nothing may follow it.
void StackConnection::poison(StreamError why) noexcept {
  write_failed_ = true;
  if (!write_end_) write_end_ = why;
  core_.count_failure(why);
  forget_write();
}

void StackConnection::forget_write() noexcept {
  unsent_ = {};
  packet_.reset();
}

/// May end the connection.
void StackConnection::on_writable(TcpHandle, Instant) noexcept {
  if (write_ == nullptr || !push()) return;
  forget_write();
  std::exchange(write_, nullptr)->finish({});
  write_ended();
}

/// May end the connection.
void StackConnection::write_ended() noexcept {
  if (!std::exchange(fin_after_write_, false)) return;
  if (phase_ != Phase::closing) {
    if (!write_failed_) core_.tcp().shutdown_write(tcp_, core_.loop().now());
    return;
  }
  if (write_failed_) return end(StreamError::closed);
  linger();
}

/// May end the connection.
void StackConnection::fail_write(StreamError why) noexcept {
  poison(why);
  std::exchange(write_, nullptr)->finish(tl::unexpected(why));
  write_ended();
}

void StackConnection::cancel_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  fail_write(StreamError::cancelled);
}

void StackConnection::abandon_write(WriteAwaiter& write) noexcept {
  PINION_ASSERT(write_ == &write);
  write_ = nullptr;
  poison(StreamError::cancelled);
  write_ended();
}

void StackConnection::arm_write_deadline(Instant now) noexcept {
  const Instant at = write_due().at;
  if (at == kNever) return;
  const Instant latest = saturating_add(now, kLongestStep);
  core_.tcp().set_write_deadline(tcp_, std::clamp(at, now, latest), now);
}

/// May end the connection.
void StackConnection::on_write_deadline(TcpHandle, Instant now) noexcept {
  if (write_ == nullptr && connect_ == nullptr) return;
  const Due due = write_due();
  if (due.at > now) return arm_write_deadline(now);
  if (connect_ != nullptr) return cancel_connect(due.why);
  fail_write(due.why);
}

}  // namespace pinion::detail

#include <algorithm>
#include <utility>

#include "stack_connection.h"
#include "stack_core.h"

// A connection's receiving half. What has come waits in the stack until a read takes it.

namespace pinion::detail {
StackConnection::Due StackConnection::read_due() const noexcept {
  return earlier(read_deadline_, StreamError::read_timeout);
}

/// What a read gets without waiting; none when it has to. May end the connection.
std::optional<StreamResult<Chunk>> StackConnection::take() noexcept {
  if (read_end_) return tl::unexpected(*read_end_);
  const Instant now = core_.loop().now();
  PacketPtr packet;
  switch (core_.tcp().take(tcp_, packet, now)) {
    case TcpOutcome::done:
      core_.make_way();
      stats_.bytes_in += packet->size();
      unread_since_ = now;
      if (std::optional<Chunk> chunk = core_.lend(std::move(packet))) return std::move(*chunk);
      core_.count_failure(StreamError::no_resources);
      read_end_ = StreamError::no_resources;
      end(StreamError::no_resources);
      return tl::unexpected(StreamError::no_resources);
    case TcpOutcome::again:
      return std::nullopt;
    case TcpOutcome::finished:
      read_end_ = StreamError::end_of_file;
      break;
    case TcpOutcome::closed:
    case TcpOutcome::gone:
      read_end_ = over_.value_or(StreamError::closed);
      break;
  }
  if (phase_ == Phase::ended) let_go_of_tcp();
  return tl::unexpected(*read_end_);
}

bool StackConnection::read_ready(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == nullptr);
  std::optional<StreamResult<Chunk>> result = take();
  if (!result) return false;
  read.settle(std::move(*result));
  return true;
}

/// A read without time gets what has arrived, and so does each read while the lcore drains: also
/// what the devices have and nobody has taken yet.
bool StackConnection::start_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == nullptr);
  const Instant now = core_.loop().fresh_now();
  read_deadline_ = saturating_add(now, read.timeout());
  read_ = &read;
  unread_ = false;
  const Due due = read_due();
  if (core_.draining()) {
    read_ending_ = StreamError::draining;
  } else if (due.at <= now) {
    read_ending_ = due.why;
  }
  if (read_ending_) {
    core_.settle_later(*this);
  } else {
    arm_read_deadline(now);
  }
  return true;
}

void StackConnection::cancel_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == &read);
  finish_read(tl::unexpected(StreamError::cancelled));
}

void StackConnection::abandon_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == &read);
  if (std::exchange(read_ending_, std::nullopt)) List<StackConnection, LateTag>::erase(*this);
  read_ = nullptr;
}

void StackConnection::finish_read(StreamResult<Chunk> result) noexcept {
  read_ending_.reset();
  if (List<StackConnection, LateTag>::linked(*this)) List<StackConnection, LateTag>::erase(*this);
  std::exchange(read_, nullptr)->finish(std::move(result));
}

/// May end the connection.
void StackConnection::on_readable(TcpHandle, Instant now) noexcept {
  if (phase_ == Phase::closing) return discard_unread();
  if (!std::exchange(unread_, true)) unread_since_ = now;
  core_.note_holding(*this);
  if (read_ == nullptr) return;
  std::optional<StreamResult<Chunk>> result = take();
  if (result && read_ != nullptr) finish_read(std::move(*result));
}

void StackConnection::arm_read_deadline(Instant now) noexcept {
  const Instant at = read_due().at;
  if (at == kNever) return;  // One that is set from before finds nothing due.
  const Instant latest = saturating_add(now, kLongestStep);
  core_.tcp().set_read_deadline(tcp_, std::clamp(at, now, latest), now);
}

/// May end the connection.
void StackConnection::on_read_deadline(TcpHandle, Instant now) noexcept {
  if (read_ == nullptr || read_ending_) return;
  const Due due = read_due();
  if (due.at > now) return arm_read_deadline(now);
  end_read_in_vain(due.why);
}

/// May end the connection.
void StackConnection::settle_late_read() noexcept {
  PINION_ASSERT(read_ != nullptr);
  end_read_in_vain(*read_ending_);
}

/// Ends the read that waits for a reason that bytes go before. May end the connection.
void StackConnection::end_read_in_vain(StreamError why) noexcept {
  std::optional<StreamResult<Chunk>> result = take();
  if (!result) {
    if (why == StreamError::draining) read_end_ = why;
    core_.count_failure(why);
    result = tl::unexpected(why);
  }
  if (read_ != nullptr) finish_read(std::move(*result));
}

/// What nobody will read, so that the peer's window stays open.
void StackConnection::discard_unread() noexcept {
  const Instant now = core_.loop().now();
  PacketPtr packet;
  while (core_.tcp().take(tcp_, packet, now) == TcpOutcome::done) {
    stats_.bytes_in += packet->size();
    packet.reset();
  }
}

bool StackConnection::has_unread() noexcept {
  const std::optional<TcpInfo> info = core_.tcp().info(tcp_);
  return info && info->unread != 0;
}

}  // namespace pinion::detail

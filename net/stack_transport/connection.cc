#include <algorithm>
#include <utility>

#include "stack_connection.h"
#include "stack_core.h"

// How a connection begins and ends.

namespace pinion::detail {
namespace {

/// What the end of an open connection means to who uses it.
StreamError stream_error(TcpEnd why) noexcept {
  switch (why) {
    case TcpEnd::reset:
    case TcpEnd::refused:
      return StreamError::reset;
    case TcpEnd::unreachable:
      return StreamError::unreachable;
    case TcpEnd::peer_timeout:
    case TcpEnd::connect_timeout:
      return StreamError::peer_timeout;
    case TcpEnd::keepalive_timeout:
      return StreamError::keepalive_timeout;
    case TcpEnd::orderly:
    case TcpEnd::aborted:
    case TcpEnd::close_timeout:
    case TcpEnd::data_after_close:
      return StreamError::closed;
  }
  return StreamError::io_error;
}

StreamError connect_error(TcpEnd why) noexcept {
  switch (why) {
    case TcpEnd::refused:
    case TcpEnd::reset:
      return StreamError::refused;
    case TcpEnd::unreachable:
      return StreamError::unreachable;
    case TcpEnd::connect_timeout:
    case TcpEnd::peer_timeout:
      return StreamError::connect_timeout;
    default:
      return StreamError::io_error;
  }
}

}  // namespace

Stream StackConnection::hand_out(TcpHandle tcp) noexcept {
  PINION_ASSERT(!handle_);
  tcp_ = tcp;
  phase_ = Phase::open;
  handle_ = true;
  ++core_.counters().open;
  return Stream(*this);
}

void StackConnection::start_connect(ConnectAwaiter& connect, TcpHandle tcp) noexcept {
  const Instant now = core_.loop().fresh_now();
  phase_ = Phase::connecting;
  tcp_ = tcp;
  connect_ = &connect;
  connect.set_operation(this);
  write_deadline_ = saturating_add(now, connect.timeout());
  arm_write_deadline(now);
}

void StackConnection::on_connected(TcpHandle, Instant) noexcept {
  PINION_ASSERT(connect_ != nullptr);
  ++core_.counters().connected;
  std::exchange(connect_, nullptr)->finish(hand_out(tcp_));
}

void StackConnection::cancel_connect(StreamError reason) noexcept {
  PINION_ASSERT(phase_ == Phase::connecting);
  if (connect_ != nullptr) {
    core_.count_failure(reason);
    std::exchange(connect_, nullptr)->finish(tl::unexpected(reason));
  }
  reset_tcp();
  leave();
  free_if_unused();
}

void StackConnection::abandon_connect() noexcept {
  connect_ = nullptr;
  cancel_connect(StreamError::cancelled);
}

void StackConnection::connect_failed(TcpEnd why) noexcept {
  const StreamError reason = connect_error(why);
  core_.count_failure(reason);
  std::exchange(connect_, nullptr)->finish(tl::unexpected(reason));
  leave();
  free_if_unused();
}

void StackConnection::release() noexcept {
  PINION_ASSERT(handle_);
  handle_ = false;
  --core_.counters().open;
  if (phase_ == Phase::open) return close();
  free_if_unused();
}

void StackConnection::shutdown_write() noexcept {
  if (phase_ != Phase::open || write_end_) return;
  write_end_ = StreamError::closed;
  fin_after_write_ = write_ != nullptr;
  if (!fin_after_write_) core_.tcp().shutdown_write(tcp_, core_.loop().now());
}

void StackConnection::close() noexcept {
  // What came after the answer `draining` doesn't count as unread.
  if (read_end_ && phase_ == Phase::open) discard_unread();
  const bool open = phase_ == Phase::open;
  const bool reset = open && (write_failed_ || has_unread());
  read_end_ = write_end_ = StreamError::closed;
  if (read_ != nullptr) finish_read(tl::unexpected(StreamError::closed));
  if (phase_ == Phase::ended) let_go_of_tcp();
  if (!open) return;
  if (reset) return end(StreamError::closed);
  phase_ = Phase::closing;
  ++core_.counters().closing;
  fin_after_write_ = write_ != nullptr;
  if (!fin_after_write_) linger();
}

/// The stack sends FIN, and discards what still comes until the peer's. May end the connection.
void StackConnection::linger() noexcept {
  core_.tcp().close(tcp_, core_.loop().now());
  core_.make_way();
  core_.closing().push_back(*this);
  core_.make_room(false);
}

void StackConnection::abort() noexcept {
  read_end_ = write_end_ = StreamError::closed;
  if (phase_ == Phase::ended) let_go_of_tcp();
  end(StreamError::closed);
}

void StackConnection::end(StreamError why) noexcept {
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::connecting) return cancel_connect(why);
  if (!read_end_) read_end_ = why;
  if (!write_end_) write_end_ = why;
  reset_tcp();
  leave();
  if (read_ != nullptr) finish_read(tl::unexpected(why));
  if (write_ != nullptr) {
    forget_write();
    std::exchange(write_, nullptr)->finish(tl::unexpected(why));
  }
  free_if_unused();
}

void StackConnection::on_closed(TcpHandle, TcpEnd why, Instant) noexcept {
  if (phase_ == Phase::connecting) return connect_failed(why);
  const StreamError reason = stream_error(why);
  count_stream_failure(core_.counters(), reason);
  over_ = reason;
  if (!write_end_) write_end_ = reason;
  leave();
  if (read_ != nullptr) {
    StreamResult<Chunk> result = take().value_or(tl::unexpected(reason));
    if (read_ != nullptr) finish_read(std::move(result));
  }
  if (write_ != nullptr) {
    forget_write();
    std::exchange(write_, nullptr)->finish(tl::unexpected(reason));
  }
  if (read_end_) let_go_of_tcp();
  free_if_unused();
}

/// The connection is over, and its place is free. A handle may be left, and what had come for it.
void StackConnection::leave() noexcept {
  if (phase_ == Phase::closing) --core_.counters().closing;
  phase_ = Phase::ended;
  fin_after_write_ = false;
  if (List<StackConnection, ClosingTag>::linked(*this)) {
    List<StackConnection, ClosingTag>::erase(*this);
  }
  core_.place_freed();
}

/// Of a connection that is over: nobody reads what had come.
void StackConnection::let_go_of_tcp() noexcept {
  if (List<StackConnection, HoldingTag>::linked(*this)) {
    List<StackConnection, HoldingTag>::erase(*this);
  }
  if (!tcp_) return;
  stats_ = stats();
  core_.tcp().close(std::exchange(tcp_, {}), core_.loop().now());
}

/// The stack has nothing to tell any more.
void StackConnection::reset_tcp() noexcept {
  if (List<StackConnection, HoldingTag>::linked(*this)) {
    List<StackConnection, HoldingTag>::erase(*this);
  }
  stats_ = stats();
  core_.tcp().set_observer(tcp_, nullptr);
  core_.tcp().abort(std::exchange(tcp_, {}), core_.loop().now());
  core_.make_way();
}

/// The last thing that its callers do.
void StackConnection::free_if_unused() noexcept {
  if (phase_ != Phase::ended || handle_) return;
  let_go_of_tcp();
  core_.free(*this);
}

void StackConnection::drain() noexcept {
  if (phase_ == Phase::connecting) return cancel_connect(StreamError::draining);
  if (phase_ != Phase::open || read_ == nullptr || read_ending_) return;
  read_ending_ = StreamError::draining;
  core_.settle_later(*this);
}

void StackConnection::transport_ends() noexcept {
  if (phase_ != Phase::ended) return end(StreamError::closed);
  if (!read_end_) read_end_ = StreamError::closed;
  let_go_of_tcp();
}

/// The earlier of an operation's own deadline and the exchange's; at equality its own.
StackConnection::Due StackConnection::earlier(Instant own, StreamError timeout) const noexcept {
  if (own <= exchange_deadline_) return {own, timeout};
  return {exchange_deadline_, StreamError::deadline_exceeded};
}

void StackConnection::set_deadline(Instant deadline) noexcept {
  if (phase_ != Phase::open && phase_ != Phase::closing) return;
  exchange_deadline_ = deadline;
  const Instant now = core_.loop().fresh_now();
  if (read_ != nullptr) arm_read_deadline(now);
  if (write_ != nullptr) arm_write_deadline(now);
}

void StackConnection::set_deadline(Delay from_now) noexcept {
  if (phase_ != Phase::open && phase_ != Phase::closing) return;
  set_deadline(saturating_add(core_.loop().fresh_now(), from_now));
}

void StackConnection::set_keepalive(const Keepalive& keepalive) noexcept {
  if (phase_ != Phase::open) return;
  core_.tcp().set_keepalive(
      tcp_, {.idle = keepalive.idle, .interval = keepalive.interval, .probes = keepalive.probes},
      core_.loop().fresh_now());
}

Endpoint StackConnection::local() const noexcept {
  if (phase_ == Phase::ended) return {};
  const std::optional<TcpInfo> info = core_.tcp().info(tcp_);
  return info ? info->local : Endpoint{};
}

Endpoint StackConnection::peer() const noexcept {
  if (phase_ == Phase::ended) return {};
  const std::optional<TcpInfo> info = core_.tcp().info(tcp_);
  return info ? info->remote : Endpoint{};
}

StreamStats StackConnection::stats() const noexcept {
  StreamStats stats = stats_;
  if (!tcp_) return stats;
  if (const std::optional<TcpInfo> info = core_.tcp().info(tcp_)) stats.bytes_in += info->unread;
  return stats;
}

std::optional<Instant> StackConnection::holds_since(Instant now) noexcept {
  const std::optional<TcpInfo> info = core_.tcp().info(tcp_);
  if (!info || info->unread == 0) unread_ = false;
  if (!info || info->unacknowledged == 0) unacked_ = false;
  if (unacked_ && info->first_unacknowledged != unacked_from_) {
    unacked_from_ = info->first_unacknowledged;
    unacked_since_ = now;
  }
  if (!unread_ && !unacked_) return std::nullopt;
  Instant since = kNever;
  if (unread_) since = unread_since_;
  if (unacked_) since = std::min(since, unacked_since_);
  return since;
}

void StackConnection::give_way() noexcept {
  ++core_.counters().gave_way;
  if (!read_end_) read_end_ = StreamError::no_resources;
  if (phase_ == Phase::ended) return let_go_of_tcp();
  end(StreamError::no_resources);
}

}  // namespace pinion::detail

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "connection.h"
#include "kernel_core.h"
#include "socket.h"

// A connection's receiving half: the multishot receive, what arrived and is unread, and the read
// that waits.

namespace pinion::detail {
namespace {

/// So many receives in a row that find a waiting reader and an emptied socket make a connection
/// calm.
constexpr std::uint8_t kCalmAfter = 16;

}  // namespace

KernelConnection::Due KernelConnection::read_due() const noexcept {
  return earlier(read_deadline_, StreamError::read_timeout);
}

bool KernelConnection::read_ready(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == nullptr);
  ReceivePool& pool = core_.pool();
  if (!unread_.empty()) {
    const std::uint32_t token = unread_.pop(pool);
    pool.let_go(token);
    read.settle(pool.chunk(token));
    want_receive();
    return true;
  }
  if (untold_) {
    read.settle(tl::unexpected(*std::exchange(untold_, std::nullopt)));
    return true;
  }
  if (!read_end_ && core_.draining() && !anything_arrived()) read_end_ = StreamError::draining;
  if (!read_end_) return false;
  read.settle(tl::unexpected(*read_end_));
  return true;
}

/// A read without time gets what has arrived, and so does each read while the lcore drains.
bool KernelConnection::start_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == nullptr);
  const Instant now = core_.loop().fresh_now();
  read_deadline_ = saturating_add(now, read.timeout());
  const Due due = read_due();
  const bool late = due.at <= now;
  if (late && (in_line() || !anything_arrived())) {
    want_receive();
    core_.count_failure(due.why);
    read.settle(tl::unexpected(due.why));
    return false;
  }
  read_ = &read;
  if (core_.draining()) {
    read_ending_ = StreamError::draining;
  } else if (late) {
    read_ending_ = due.why;
  }
  if (due.at != kNever) core_.wheel().extend(read_timer_, due.at);
  if (read_ending_ && receive_operation_.in_flight() != 0) {
    stop_receive();
  } else {
    want_receive();
  }
  return true;
}

void KernelConnection::cancel_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == &read);
  finish_read(tl::unexpected(StreamError::cancelled));
}

void KernelConnection::abandon_read(ReadAwaiter& read) noexcept {
  PINION_ASSERT(read_ == &read);
  read_ = nullptr;
  read_ending_.reset();
}

bool KernelConnection::in_line() const noexcept {
  return List<KernelConnection, StarvedTag>::linked(*this);
}

/// Whether bytes came that were not handed on: they lie in the socket, or an armed receive took
/// them and nobody has looked at its completion.
bool KernelConnection::anything_arrived() const noexcept {
  if (unread_bytes(fd_) != 0) return true;
  if (receive_operation_.in_flight() == 0) return false;
  // The kernel reads the state before it locks the socket: the first look may take FIN for a byte.
  return received_bytes(fd_) != stats_.bytes_in && received_bytes(fd_) != stats_.bytes_in;
}

/// Ends the read that waits for a reason that bytes go before: a timeout, a drain. An armed receive
/// is taken back first, since what it has taken lies in completions that come before its last one.
/// So a loop that stood still finds what came meanwhile, and not a timeout.
void KernelConnection::end_read(StreamError why) noexcept {
  PINION_ASSERT(read_ != nullptr);
  read_ending_ = why;
  if (receive_operation_.in_flight() != 0) return stop_receive();
  settle_read_ending();
}

/// No receive is armed: what has come was handed on, or is in the socket.
void KernelConnection::settle_read_ending() noexcept {
  const StreamError why = *read_ending_;
  const bool may_come = !in_line() || why == StreamError::draining;
  if (may_come && unread_bytes(fd_) != 0) return want_receive();
  if (why == StreamError::draining) read_end_ = why;
  core_.count_failure(why);
  finish_read(tl::unexpected(why));
}

void KernelConnection::stop_receive() noexcept {
  if (std::exchange(receive_stopped_, true)) return;
  core_.ring().cancel(receive_operation_);
}

void KernelConnection::finish_read(StreamResult<Chunk> result) noexcept {
  read_ending_.reset();
  std::exchange(read_, nullptr)->finish(std::move(result));
}

void KernelConnection::drop_unread() noexcept {
  ReceivePool& pool = core_.pool();
  while (!unread_.empty()) pool.release_buffer(unread_.pop(pool));
}

/// Arms the receive unless it is armed, there is nothing to receive for, or the reader is behind. A
/// multishot receive takes all that the socket has: after it took more than its share, single
/// receives follow until the reader keeps up. While buffers are scarce only single ones are armed,
/// and only for a reader that waits.
void KernelConnection::want_receive() noexcept {
  if (receive_operation_.in_flight() != 0 || peer_closed_ || in_line()) return;
  if (phase_ == Phase::open ? read_end_.has_value() : phase_ != Phase::lingering) return;
  ReceivePool& pool = core_.pool();
  const bool scarce = pool.low();
  if (scarce && phase_ == Phase::open && read_ == nullptr) return;
  if (unread_.count() >= pool.share(core_.options().buffers_per_connection)) return;
  io_uring_sqe& entry = core_.ring().get_sqe(receive_operation_);
  if (bulk_ == 0 && !scarce && core_.ring().has(RingFeature::multishot_receive)) {
    io_uring_prep_recv_multishot(&entry, fd_, nullptr, 0, 0);
  } else {
    io_uring_prep_recv(&entry, fd_, nullptr, pool.size(), 0);
  }
  // Without bytes it takes no buffer: only what has something to receive stands in line for one.
  if (!resumed_) entry.ioprio |= IORING_RECVSEND_POLL_FIRST;
  entry.flags |= IOSQE_BUFFER_SELECT;
  entry.buf_group = ReceivePool::kGroup;
}

/// Some kernels (6.1) end a receive for want of a buffer although the socket is empty. It must not
/// hold the place of one that has bytes: it may not need its buffer for a long time.
bool KernelConnection::resume_receive() noexcept {
  const bool waiting = unread_bytes(fd_) != 0;
  if (!waiting && read_ending_) {
    settle_read_ending();
    return false;
  }
  resumed_ = waiting;
  want_receive();
  resumed_ = waiting && receive_operation_.in_flight() != 0;
  return resumed_;
}

void KernelConnection::on_received(Completion& completion, std::int32_t result,
                                   std::uint32_t flags) noexcept {
  static_cast<Receive&>(completion).connection.received(result, flags);
}

/// May end the connection.
void KernelConnection::received(std::int32_t result, std::uint32_t flags) noexcept {
  const bool more = (flags & IORING_CQE_F_MORE) != 0;
  if (result == -ENOBUFS && phase_ != Phase::ended) return receive_starved();
  const bool from_line = std::exchange(resumed_, false);
  if ((flags & IORING_CQE_F_BUFFER) != 0) {
    const auto size = static_cast<std::uint32_t>(std::max(result, 0));
    const bool waits = read_ == nullptr && !read_end_;
    const std::uint32_t token = core_.pool().take(flags >> IORING_CQE_BUFFER_SHIFT, size, waits);
    // Not before: the next in line would be sent for the buffer that this one has.
    if (from_line) core_.resumed();
    take_bytes(token, size, more);
    core_.watch_buffers();
  } else if (from_line) {
    core_.resumed();
  }
  if (!more) receive_ended(result);
}

void KernelConnection::take_bytes(std::uint32_t token, std::uint32_t size, bool more) noexcept {
  ReceivePool& pool = core_.pool();
  if (size == 0) return pool.release_buffer(token);
  stats_.bytes_in += size;
  core_.counters().bytes_in += size;
  peer_heard();
  if (read_end_) return pool.release_buffer(token);
  if (read_ != nullptr) {
    if (bulk_ != 0 && size < pool.size()) --bulk_;
    return finish_read(pool.chunk(token));
  }
  unread_.push(pool, token);
  pool.hold(token, *this, core_.loop().now());
  if (!more || receive_stopped_) return;
  const bool behind = unread_.count() >= pool.share(core_.options().buffers_per_connection);
  if (behind) {
    bulk_ = kCalmAfter;
    ++core_.counters().receive_paused;
  }
  if (behind || pool.low()) stop_receive();
}

/// It found no buffer, and stands in line for one: in front, when it came from there.
void KernelConnection::receive_starved() noexcept {
  receive_stopped_ = false;
  ++core_.counters().receive_starved;
  core_.starve(*this, std::exchange(resumed_, false));
  if (read_ending_ && receive_operation_.in_flight() == 0) settle_read_ending();
}

/// The receive is over: the peer's FIN, a failure, or a reason to arm it again. May end
/// the connection.
void KernelConnection::receive_ended(std::int32_t result) noexcept {
  const bool stopped = std::exchange(receive_stopped_, false);
  if (phase_ == Phase::ended) return end_if_quiet();
  if (result == 0) {
    peer_closed_ = true;
    if (phase_ == Phase::lingering) {
      if (send_operation_.in_flight() == 0) stop_lingering();
      return;
    }
    if (!read_end_) read_end_ = StreamError::end_of_file;
    if (read_ != nullptr) finish_read(tl::unexpected(*read_end_));
    return;
  }
  if (result > 0 || stopped || is_transient(-result)) {
    if (read_ending_) return settle_read_ending();
    want_receive();
  } else if (result != -ECANCELED) {  // Cancelled by others, who quiesce the ring: not again now.
    const StreamError why = stream_error(-result);
    count_stream_failure(core_.counters(), why);
    end(why);
  }
}

void KernelConnection::on_read_timer(TimerEntry& entry) {
  static_cast<Timer&>(entry).connection.read_timer_fired();
}

/// May end the connection.
void KernelConnection::read_timer_fired() noexcept {
  if (phase_ == Phase::lingering) return stop_lingering();
  if (read_ == nullptr) return;
  const Due due = read_due();
  if (due.at > core_.loop().now()) {
    if (due.at != kNever) core_.wheel().extend(read_timer_, due.at);
    return;
  }
  // Of a read that ends already, the receive's last completion says how; in line there is none.
  if (!read_ending_ || in_line()) end_read(due.why);
}

}  // namespace pinion::detail

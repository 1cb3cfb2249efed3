#include <liburing.h>

#include "connection.h"
#include "kernel_core.h"
#include "socket.h"

// Connecting. The connection has no handle yet, and its write timer bounds the wait.

namespace pinion::detail {

bool KernelConnection::start_connect(ConnectAwaiter& connect) noexcept {
  phase_ = Phase::connecting;
  connect_ = &connect;
  connect.set_operation(this);
  connecting_to_ = SocketAddress(connect.peer());
  io_uring_sqe& entry = core_.ring().get_sqe(send_operation_);
  io_uring_prep_connect(&entry, fd_, connecting_to_.raw(), connecting_to_.size);
  write_deadline_ = deadline_of(connect.timeout());
  if (write_deadline_ != kNever) core_.wheel().extend(write_timer_, write_deadline_);
  return true;
}

/// The awaiter lends no memory to the kernel: it is told at once, the attempt ends behind its back.
void KernelConnection::cancel_connect(StreamError reason) noexcept {
  if (connect_ != nullptr) {
    core_.count_failure(reason);
    std::exchange(connect_, nullptr)->finish(tl::unexpected(reason));
  }
  if (stop_reason_) return;
  stop_reason_ = reason;
  core_.ring().cancel(send_operation_);
}

void KernelConnection::abandon_connect() noexcept {
  connect_ = nullptr;
  cancel_connect(StreamError::cancelled);
}

/// May end the connection.
void KernelConnection::connected(std::int32_t result) noexcept {
  ConnectAwaiter* const connect = std::exchange(connect_, nullptr);
  if (result == 0 && connect != nullptr) {
    phase_ = Phase::open;
    ++core_.counters().connected;
    return connect->finish(hand_out());
  }
  leave();
  if (connect != nullptr) {
    const StreamError why = connect_error(-result);
    core_.count_failure(why);
    connect->finish(tl::unexpected(why));
  }
  if (result == 0) reset_socket(fd_);
  end_if_quiet();
}

}  // namespace pinion::detail

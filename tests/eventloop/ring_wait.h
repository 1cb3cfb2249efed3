#pragma once

#include <liburing.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include <pinion/eventloop/loop.h>

/// Operations of the ring that a test's task waits for.

namespace pinion::test {

/// A read into a buffer on the task's frame. A cancelled one returns only after the kernel's last
/// word.
class ReadAwaiter : public Wait, private Completion {
 public:
  ReadAwaiter(int fd, std::byte* buffer, unsigned size) noexcept
      : Wait(&on_cancel), Completion(&on_done), fd_(fd), buffer_(buffer), size_(size) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    ring_ = &loop_of(frame.promise()).ring();
    io_uring_prep_read(&ring_->get_sqe(*this), fd_, buffer_, size_, 0);
    begin(frame);
  }
  [[nodiscard]] int await_resume() const noexcept { return result_; }

 private:
  static void on_done(Completion& completion, std::int32_t result, std::uint32_t) noexcept {
    ReadAwaiter& self = static_cast<ReadAwaiter&>(completion);
    self.result_ = result;
    self.resume();
  }
  static void on_cancel(Wait& wait) noexcept {
    ReadAwaiter& self = static_cast<ReadAwaiter&>(wait);
    self.ring_->cancel(self);
  }

  int fd_;
  std::byte* buffer_;
  unsigned size_;
  Ring* ring_ = nullptr;
  int result_ = 0;
};

/// Two connected sockets that close themselves.
struct SocketPair {
  SocketPair() { ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0; }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  ~SocketPair() {
    if (!ok) return;
    close(ends[0]);
    close(ends[1]);
  }
  std::array<int, 2> ends{};
  bool ok = false;
};

}  // namespace pinion::test

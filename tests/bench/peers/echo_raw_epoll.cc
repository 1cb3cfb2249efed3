#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "peers/echo_server.h"
#include "peers/heap_timeouts.h"

/// An echo server on epoll alone: edge-triggered, registered once, read and written back at once. A
/// connection is its descriptor. What a socket does not take waits beside it, and nothing is read
/// meanwhile; only then has the write timeout something to guard.

namespace pinion::bench {
namespace {

struct Connection {
  std::vector<char> unsent;
  bool open = false;
};

class Server {
 public:
  explicit Server(const EchoServerOptions& options)
      : epoll_(epoll_create1(EPOLL_CLOEXEC)),
        listener_(listen_on_loopback()),
        spins_(options.waiting != Waiting::park) {
    require(epoll_ >= 0, "epoll_create1");
    rlimit limit{};
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    connections_.resize(limit.rlim_cur);
    if (options.timers) timeouts_.emplace(limit.rlim_cur);
    watch(listener_, EPOLLIN);
    announce(port_of(listener_));
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int wait_ms = spins_ ? 0 : timeouts_ ? timeouts_->wait_ms() : -1;
      const int count = epoll_wait(epoll_, events.data(), events.size(), wait_ms);
      if (timeouts_) timeouts_->read_clock();
      for (int i = 0; i < count; ++i) handle(events[static_cast<std::size_t>(i)]);
      if (!timeouts_) continue;
      for (const std::uint32_t fd : timeouts_->expire()) end(static_cast<int>(fd));
    }
  }

 private:
  Connection& at(int fd) { return connections_[static_cast<std::size_t>(fd)]; }

  void watch(int fd, std::uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    require(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  }

  void handle(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == listener_) return accept_all();
    if (!at(fd).open) return;
    if (!at(fd).unsent.empty() && !flush(fd)) return;
    echo(fd);
  }

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      set_no_delay(fd);
      at(fd).open = true;
      watch(fd, EPOLLIN | EPOLLOUT | EPOLLET);
      start(fd, Timeout::read, echo_timeouts.read);
      start(fd, Timeout::idle, echo_timeouts.idle);
    }
  }

  /// Until the socket is empty: a read that does not fill the buffer says so.
  void echo(int fd) {
    std::array<char, kReadSize> buffer;
    for (;;) {
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        if (got < 0 && errno == EAGAIN) return;
        return end(fd);
      }
      start(fd, Timeout::idle, echo_timeouts.idle);
      start(fd, Timeout::read, echo_timeouts.read);
      const ssize_t sent = send(fd, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
      if (sent < got) {
        if (sent < 0 && errno != EAGAIN) return end(fd);
        at(fd).unsent.assign(buffer.data() + (sent < 0 ? 0 : sent), buffer.data() + got);
        return start(fd, Timeout::write, echo_timeouts.write);
      }
      if (got < static_cast<ssize_t>(buffer.size())) return;
    }
  }

  /// Whether everything is gone.
  bool flush(int fd) {
    std::vector<char>& unsent = at(fd).unsent;
    const ssize_t sent = send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
      end(fd);
      return false;
    }
    if (sent > 0) unsent.erase(unsent.begin(), unsent.begin() + sent);
    if (!unsent.empty()) return false;
    if (timeouts_) timeouts_->stop(static_cast<std::uint32_t>(fd), Timeout::write);
    return true;
  }

  void start(int fd, Timeout kind, std::chrono::milliseconds delay) {
    if (timeouts_) timeouts_->start(static_cast<std::uint32_t>(fd), kind, delay);
  }

  void end(int fd) {
    if (!at(fd).open) return;
    at(fd) = {};
    if (timeouts_) timeouts_->stop_all(static_cast<std::uint32_t>(fd));
    close(fd);
  }

  int epoll_;
  int listener_;
  bool spins_;
  std::vector<Connection> connections_;
  std::optional<HeapTimeouts> timeouts_;
};

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  Server(start_echo_server(argc, argv)).run();
}

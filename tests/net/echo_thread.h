#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/net/kernel_transport.h>

/// An echo server on a thread of its own, and plain blocking sockets to talk to it.

namespace pinion::test {

struct EchoOptions {
  KernelOptions kernel;
  LoopOptions loop;
  ListenOptions listen;
  Delay read_timeout = std::chrono::seconds{30};
  Delay write_timeout = std::chrono::seconds{10};
  Keepalive keepalive;
};

class EchoThread {
 public:
  explicit EchoThread(const EchoOptions& options = {});
  ~EchoThread() { stop(); }
  EchoThread(const EchoThread&) = delete;
  EchoThread& operator=(const EchoThread&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// Runs `function` on the server's thread and waits for it.
  void on_loop(std::function<void(Loop&, KernelTransport&)> function);

  [[nodiscard]] TransportStats stats();
  [[nodiscard]] LoopStats loop_stats();

  /// What the server's thread has used so far.
  [[nodiscard]] std::chrono::nanoseconds cpu_time();

  void drain();
  void stop();
  [[nodiscard]] Ending ending() const noexcept { return ending_; }

 private:
  struct Call;

  void serve_forever(const EchoOptions& options);

  std::thread thread_;
  std::atomic<Loop*> loop_ = nullptr;
  KernelTransport* transport_ = nullptr;
  std::uint16_t port_ = 0;
  Ending ending_ = Ending::stopped;
};

/// A blocking TCP socket; an operation that takes longer than 10 s fails.
class PlainSocket {
 public:
  PlainSocket() noexcept = default;
  explicit PlainSocket(int fd) noexcept : fd_(fd) {}
  PlainSocket(PlainSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PlainSocket& operator=(PlainSocket&& other) noexcept;
  ~PlainSocket() { close(); }

  [[nodiscard]] static PlainSocket connect_to(std::uint16_t port);

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }

  bool send(std::string_view text);

  /// Up to `size` bytes; fewer when the peer ended before or time is up.
  std::string receive(std::size_t size);

  /// Whether bytes come within the time.
  [[nodiscard]] bool readable_within(std::chrono::milliseconds time) const;

  /// What the peer's end looks like: "eof", "reset", "data" or "timeout".
  std::string ending();

  void half_close();
  void reset();
  void close();

 private:
  int fd_ = -1;
};

}  // namespace pinion::test

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include <pinion/eventloop/loop.h>
#include <pinion/net/kernel_transport.h>

#include "plain_socket.h"

/// An echo server on a thread of its own.

namespace pinion::test {

struct EchoOptions {
  KernelOptions kernel;
  LoopOptions loop;
  ListenOptions listen;
  Delay read_timeout = std::chrono::seconds{30};
  Delay write_timeout = std::chrono::seconds{10};
  Keepalive keepalive;
  bool writes_spans = false;  ///< Each write waits for the socket, and its timeout is armed.
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

}  // namespace pinion::test

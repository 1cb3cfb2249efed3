#include "echo_thread.h"

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <cstdlib>

#include "kernel_world.h"

namespace pinion::test {
namespace {

Task<> serve(Stream stream, const EchoOptions& options) {
  stream.set_keepalive(options.keepalive);
  while (auto chunk = co_await stream.read(options.read_timeout)) {
    const auto written = options.writes_spans
                             ? co_await stream.write(chunk->span(), options.write_timeout)
                             : co_await stream.write(std::move(*chunk), options.write_timeout);
    if (!written) break;
  }
}

Task<> accept_all(Loop& loop, Listener listener, const EchoOptions& options) {
  while (auto stream = co_await listener.accept()) {
    loop.spawn(serve(std::move(*stream), options), "serve");
  }
}

}  // namespace

EchoThread::EchoThread(const EchoOptions& options) {
  thread_ = std::thread([this, options] { serve_forever(options); });
  while (loop_.load(std::memory_order_acquire) == nullptr) std::this_thread::yield();
}

void EchoThread::serve_forever(const EchoOptions& options) {
  KernelWorld world(options.kernel, options.loop);
  Loop& loop = world.loop();
  Listener listener = or_abort(world.transport().listen(world.any_port(), options.listen));
  port_ = listener.local().port;
  transport_ = &world.kernel();
  loop.spawn(accept_all(loop, std::move(listener), options), "accept");
  loop_.store(&loop, std::memory_order_release);
  ending_ = loop.run();
}

struct EchoThread::Call : Message {
  explicit Call(std::function<void()> work) : Message(&handle), function(std::move(work)) {}
  static void handle(Message& self) noexcept {
    Call& call = static_cast<Call&>(self);
    call.function();
    call.done.store(true, std::memory_order_release);
    call.done.notify_one();
  }
  std::function<void()> function;
  std::atomic<bool> done = false;
};

void EchoThread::on_loop(std::function<void(Loop&, KernelTransport&)> function) {
  Loop& loop = *loop_.load();
  Call call([&] { function(loop, *transport_); });
  loop.post(call);
  call.done.wait(false, std::memory_order_acquire);
}

TransportStats EchoThread::stats() {
  TransportStats stats;
  on_loop([&stats](Loop&, KernelTransport& transport) { stats = transport.stats(); });
  return stats;
}

LoopStats EchoThread::loop_stats() {
  LoopStats stats;
  on_loop([&stats](Loop& loop, KernelTransport&) { stats = loop.stats(); });
  return stats;
}

std::chrono::nanoseconds EchoThread::cpu_time() {
  clockid_t clock = 0;
  timespec used{};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) std::abort();
  clock_gettime(clock, &used);
  return std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec};
}

void EchoThread::drain() {
  loop_.load()->request_drain();
  thread_.join();
}

void EchoThread::stop() {
  if (!thread_.joinable()) return;
  loop_.load()->stop();
  thread_.join();
}

}  // namespace pinion::test

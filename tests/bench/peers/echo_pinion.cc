#include <fmt/core.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/net/kernel_transport.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "peers/echo_server.h"

/// Pinion's echo server, as apps/echo has it.

namespace pinion::bench {
namespace {

using namespace std::chrono_literals;

struct Timeouts {
  Keepalive keepalive;
  Delay read = kNoTimeout;
  Delay write = kNoTimeout;
};

Task<> serve(Stream conn, const Timeouts& timeouts) {
  conn.set_keepalive(timeouts.keepalive);
  while (auto chunk = co_await conn.read(timeouts.read)) {
    if (!co_await conn.write(std::move(*chunk), timeouts.write)) break;
  }
}

Task<> accept_all(Loop& loop, Listener listener, const Timeouts& timeouts) {
  while (auto conn = co_await listener.accept()) {
    loop.spawn(serve(std::move(*conn), timeouts), "connection");
  }
}

IdlePolicy idle_policy(Waiting waiting) {
  if (waiting == Waiting::spin) return IdlePolicy::spin;
  return waiting == Waiting::adaptive ? IdlePolicy::adaptive : IdlePolicy::park;
}

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "error: {}\nfix: {}\n", result.error().what, result.error().hint);
  std::exit(1);
}

Result<> set_up(Lcore& lcore, const Timeouts& timeouts) {
  auto transport = KernelTransport::create(lcore.loop());
  if (!transport) return tl::unexpected(transport.error());
  KernelTransport& kept = lcore.keep(std::move(*transport));
  auto listener = kept.listen({.address = IpAddress::v4({127, 0, 0, 1})});
  if (!listener) return tl::unexpected(listener.error());
  announce(listener->local().port);
  lcore.loop().spawn(accept_all(lcore.loop(), std::move(*listener), timeouts), "acceptor");
  return {};
}

void run(const EchoServerOptions& options) {
  Timeouts timeouts;
  if (options.timers) {
    timeouts = {.keepalive = {.idle = kIdleTimeout}, .read = kReadTimeout, .write = kWriteTimeout};
  }
  const auto runtime = must(Runtime::create({.cpus = {static_cast<unsigned>(options.cpu)},
                                             .loop = {.idle = idle_policy(options.waiting)}}));
  must(runtime->run([&timeouts](Lcore& lcore) { return set_up(lcore, timeouts); }));
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  pinion::bench::run(pinion::bench::start_echo_server(argc, argv));
}

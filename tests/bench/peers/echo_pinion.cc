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

struct Server {
  Keepalive keepalive;
  Delay read_timeout = kNoTimeout;
  Delay write_timeout = kNoTimeout;
  bool once = false;
  std::size_t live = 0;  ///< connections
};

Task<> serve(Server& server, Stream conn) {
  conn.set_keepalive(server.keepalive);
  ++server.live;
  while (auto chunk = co_await conn.read(server.read_timeout)) {
    if (!co_await conn.write(std::move(*chunk), server.write_timeout)) break;
  }
  if (--server.live == 0 && server.once) Loop::current().stop();
}

Task<> accept_all(Loop& loop, Listener listener, Server& server) {
  while (auto conn = co_await listener.accept()) {
    loop.spawn(serve(server, std::move(*conn)), "connection");
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

Result<> set_up(Lcore& lcore, Server& server) {
  auto transport = KernelTransport::create(lcore.loop());
  if (!transport) return tl::unexpected(transport.error());
  KernelTransport& kept = lcore.keep(std::move(*transport));
  auto listener = kept.listen({.address = IpAddress::v4({127, 0, 0, 1})});
  if (!listener) return tl::unexpected(listener.error());
  announce(listener->local().port);
  lcore.loop().spawn(accept_all(lcore.loop(), std::move(*listener), server), "acceptor");
  return {};
}

void run(const EchoServerOptions& options) {
  Server server{.keepalive = {}, .once = options.once};
  if (options.timers) {
    server.keepalive.idle = echo_timeouts.idle;
    server.read_timeout = echo_timeouts.read;
    server.write_timeout = echo_timeouts.write;
  }
  const auto runtime = must(Runtime::create({.cpus = {static_cast<unsigned>(options.cpu)},
                                             .loop = {.idle = idle_policy(options.waiting)}}));
  must(runtime->run([&server](Lcore& lcore) { return set_up(lcore, server); }));
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  pinion::bench::run(pinion::bench::start_echo_server(argc, argv));
}

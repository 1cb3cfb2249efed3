#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <pinion/eventloop/runtime.h>
#include <pinion/net/kernel_transport.h>
#include <pinion/test/running_lcores.h>

#include "plain_socket.h"

/// Lcores that come and go under a server: what becomes of listeners and connections.

namespace pinion {
namespace {

using namespace std::chrono_literals;
using test::PlainSocket;

/// Tells who it is, then echoes. One that `stays` doesn't close when the lcore drains.
Task<> serve(Stream conn, unsigned index, bool stays) {
  const std::string name = std::to_string(index);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(name));
  if (!co_await conn.write(bytes, 1min)) co_return;
  while (auto chunk = co_await conn.read(1h)) {
    if (!co_await conn.write(std::move(*chunk), 1min)) break;
  }
  if (stays) co_await sleep_for(1h);
}

Task<> accept_all(Loop& loop, Listener listener, unsigned index, bool stays) {
  while (auto conn = co_await listener.accept()) {
    loop.spawn(serve(std::move(*conn), index, stays));
  }
}

/// A server on lcores that share a CPU.
class Server {
 public:
  Server(std::size_t lcores, Delay drain_timeout, bool connections_stay = false)
      : connections_stay_(connections_stay), lcores_(options(lcores, drain_timeout), set_up()) {}

  [[nodiscard]] std::uint16_t port() const { return endpoint_.port; }

  Result<Ending> drain(unsigned index) { return lcores_.drain(index); }
  Result<unsigned> add() { return lcores_.add(); }

 private:
  static RuntimeOptions options(std::size_t lcores, Delay drain_timeout) {
    RuntimeOptions options = test::lcores_on_one_cpu(lcores);
    options.loop.drain_timeout = drain_timeout;
    return options;
  }

  Runtime::Setup set_up() {
    return [this](Lcore& lcore) -> Result<> {
      const std::scoped_lock lock(mutex_);
      auto transport = KernelTransport::create(lcore.loop(), {});
      if (!transport) return tl::unexpected(transport.error());
      auto listener = (*transport)->listen(endpoint_, {.share = true});
      if (!listener) return tl::unexpected(listener.error());
      endpoint_ = listener->local();
      lcore.keep(std::move(*transport));
      lcore.loop().spawn(
          accept_all(lcore.loop(), std::move(*listener), lcore.index(), connections_stay_));
      return {};
    };
  }

  const bool connections_stay_;
  std::mutex mutex_;
  Endpoint endpoint_{IpAddress::v4({127, 0, 0, 1}), 0};
  test::RunningLcores lcores_;
};

/// A connection to that lcore; the kernel chooses by the client's port.
PlainSocket connect_to_lcore(const Server& server, unsigned index) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    PlainSocket socket = PlainSocket::connect_to(server.port());
    if (socket.receive(1) == std::to_string(index)) return socket;
  }
  ADD_FAILURE() << "no connection to lcore " << index;
  return {};
}

TEST(KernelLcores, ADrainedOneClosesItsListenerAndItsConnectionsInOrder) {
  Server server(2, 1h);
  PlainSocket there = connect_to_lcore(server, 1);
  PlainSocket here = connect_to_lcore(server, 0);
  ASSERT_TRUE(there.send("to the end"));
  EXPECT_EQ(there.receive(10), "to the end");
  EXPECT_EQ(server.drain(1).value_or(Ending::stopped), Ending::drained);
  EXPECT_EQ(there.ending(), "eof");
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(PlainSocket::connect_to(server.port()).receive(1), "0");
  }
  ASSERT_TRUE(here.send("still here"));
  EXPECT_EQ(here.receive(10), "still here");
}

TEST(KernelLcores, WhatDoesNotFinishIsResetAndTheOthersConnectionsAreNot) {
  Server server(2, 50ms, true);
  PlainSocket there = connect_to_lcore(server, 1);
  PlainSocket here = connect_to_lcore(server, 0);
  EXPECT_EQ(server.drain(1).value_or(Ending::stopped), Ending::drain_expired);
  EXPECT_EQ(there.ending(), "reset");
  ASSERT_TRUE(here.send("still here"));
  EXPECT_EQ(here.receive(10), "still here");
}

TEST(KernelLcores, OneThatComesBackServesAgain) {
  Server server(2, 50ms);
  for (int life = 0; life < 5; ++life) {
    PlainSocket there = connect_to_lcore(server, 1);
    ASSERT_TRUE(server.drain(1));
    ASSERT_TRUE(server.add());
    PlainSocket again = connect_to_lcore(server, 1);
    ASSERT_TRUE(again.send("anew"));
    EXPECT_EQ(again.receive(4), "anew");
  }
}

}  // namespace
}  // namespace pinion

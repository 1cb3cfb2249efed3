#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pinion/eventloop/runtime.h>
#include <pinion/net/kernel_transport.h>

#include "kernel_world.h"
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
      : connections_stay_(connections_stay) {
    RuntimeOptions options;
    options.cpus.assign(lcores, first_cpus(1)->front());
    options.allow_shared_cpus = true;
    options.handle_signals = false;
    options.loop.idle = IdlePolicy::park;
    options.loop.drain_timeout = drain_timeout;
    runtime_ = test::or_abort(Runtime::create(options));
    thread_ = std::thread([this] {
      const auto report = runtime_->run([this](Lcore& lcore) { return set_up(lcore); });
      EXPECT_TRUE(report);
    });
    wait([&] { return set_ups_ == lcores; });
  }
  ~Server() {
    runtime_->request_stop();
    thread_.join();
  }

  [[nodiscard]] std::uint16_t port() const { return endpoint_.port; }

  std::optional<Ending> drain(unsigned index) {
    bool told = false;
    std::optional<Ending> ending;
    runtime_->drain_lcore(index, [&](Result<Ending> result) {
      const std::scoped_lock lock(mutex_);
      if (result) ending = *result;
      told = true;
      changed_.notify_all();
    });
    wait([&] { return told; });
    return ending;
  }

  bool add() {
    std::optional<bool> added;
    runtime_->add_lcore(first_cpus(1)->front(), [&](Result<unsigned> result) {
      const std::scoped_lock lock(mutex_);
      added = result.has_value();
      changed_.notify_all();
    });
    wait([&] { return added.has_value(); });
    return *added;
  }

 private:
  Result<> set_up(Lcore& lcore) {
    const std::scoped_lock lock(mutex_);
    auto transport = KernelTransport::create(lcore.loop(), {});
    if (!transport) return tl::unexpected(transport.error());
    auto listener = (*transport)->listen(endpoint_, {.share = true});
    if (!listener) return tl::unexpected(listener.error());
    endpoint_ = listener->local();
    lcore.keep(std::move(*transport));
    lcore.loop().spawn(
        accept_all(lcore.loop(), std::move(*listener), lcore.index(), connections_stay_));
    ++set_ups_;
    changed_.notify_all();
    return {};
  }

  template <class Predicate>
  void wait(Predicate done) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, done));
  }

  const bool connections_stay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t set_ups_ = 0;
  Endpoint endpoint_{IpAddress::v4({127, 0, 0, 1}), 0};
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
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
  EXPECT_EQ(server.drain(1), Ending::drained);
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
  EXPECT_EQ(server.drain(1), Ending::drain_expired);
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

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "echo_thread.h"
#include "kernel_world.h"

// Lives and deaths of connections over kernel sockets: plain peers of every kind, drain, and frames
// that are destroyed while the kernel works for them.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

/// Opens one connection of the world with itself.
void open_pair(KernelWorld& world, Stream& client, Stream& server) {
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  const auto open = [&]() -> Task<> {
    const Endpoint peer = listener->local();
    auto connected = co_await world.transport().connect(peer, 5s);
    CO_ASSERT_TRUE(connected);
    client = std::move(*connected);
    auto accepted = co_await listener->accept();
    CO_ASSERT_TRUE(accepted);
    server = std::move(*accepted);
  };
  TaskHandle opening = world.loop().spawn(open());
  ASSERT_TRUE(world.loop().run_until([&] { return opening.done(); }, 10s));
}

/// Reads to the end; whether every byte was `expected`.
Task<> read_all(Stream& stream, std::byte expected, bool& right, std::string& ending) {
  for (;;) {
    const auto chunk = co_await stream.read(5s);
    ending = outcome(chunk);
    if (!chunk) co_return;
    for (const std::byte byte : chunk->span()) right = right && byte == expected;
  }
}

constexpr std::size_t kTooMuch = 64'000'000;

TEST(KernelLife, TasksThatDontEndAreDestroyedWithTheirWrites) {
  LoopOptions options;
  options.wind_down = 0s;
  KernelWorld world({}, options);
  Stream client;
  Stream server;
  open_pair(world, client, server);
  const auto send = [](Stream& stream) -> Task<> {
    const std::vector<std::byte> data(kTooMuch, std::byte{7});
    (void)co_await stream.write(data);
  };
  world.loop().spawn(send(server));
  for (int i = 0; i < 20; ++i) world.loop().turn();
  world.loop().stop();
  EXPECT_EQ(world.loop().run(), Ending::stopped);
  server = Stream();
  bool right = true;
  std::string ending;
  TaskHandle reading = world.loop().spawn(read_all(client, std::byte{7}, right, ending));
  EXPECT_TRUE(world.loop().run_until([&] { return reading.done(); }, 10s));
  EXPECT_EQ(ending, "reset");
  EXPECT_TRUE(right);
}

/// Waits in an awaiter that somebody else owns, and may destroy.
struct Borrowed {
  std::unique_ptr<WriteAwaiter>& write;
  [[nodiscard]] bool await_ready() const noexcept { return write->await_ready(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) const noexcept {
    write->await_suspend(frame);
  }
  void await_resume() const noexcept {}
};

// When the awaiter is gone, the kernel must not read its bytes any more: they are freed at once.
TEST(KernelLife, AnAbandonedWriteLeavesItsBytesAlone) {
  LoopOptions options;
  options.wind_down = 0s;
  KernelWorld world({}, options);
  Stream client;
  Stream server;
  open_pair(world, client, server);
  auto data = std::make_unique<std::vector<std::byte>>(kTooMuch, std::byte{7});
  std::unique_ptr<WriteAwaiter> write(new WriteAwaiter(server.write(*data)));
  const auto wait = [&write]() -> Task<> {
    Borrowed borrowed{write};
    co_await borrowed;
    ADD_FAILURE() << "resumed";
  };
  world.loop().spawn(wait());
  for (int i = 0; i < 20; ++i) world.loop().turn();
  write.reset();
  std::fill(data->begin(), data->end(), std::byte{9});
  data.reset();
  server = Stream();
  bool right = true;
  std::string ending;
  TaskHandle reading = world.loop().spawn(read_all(client, std::byte{7}, right, ending));
  EXPECT_TRUE(world.loop().run_until([&] { return reading.done(); }, 10s));
  EXPECT_EQ(ending, "reset");
  EXPECT_TRUE(right);
}

TEST(KernelLife, PeersOfEveryKindMeetTheRightEnd) {
  EchoThread server;
  PlainSocket half = PlainSocket::connect_to(server.port());
  ASSERT_TRUE(half.send("all of it"));
  half.half_close();
  EXPECT_EQ(half.receive(9), "all of it");
  EXPECT_EQ(half.ending(), "eof");

  PlainSocket gone = PlainSocket::connect_to(server.port());
  ASSERT_TRUE(gone.send("never read"));
  gone.reset();

  PlainSocket silent = PlainSocket::connect_to(server.port());
  PlainSocket polite = PlainSocket::connect_to(server.port());
  ASSERT_TRUE(polite.send("x"));
  EXPECT_EQ(polite.receive(1), "x");
  server.drain();
  EXPECT_EQ(server.ending(), Ending::drained);
  EXPECT_EQ(polite.ending(), "eof");
  EXPECT_EQ(silent.ending(), "eof");
}

// L19: peers that half-close and go silent, or reset, cost no CPU.
TEST(KernelLife, L19SilentPeersCostNoCpu) {
  EchoThread server;
  std::vector<PlainSocket> peers;
  for (int i = 0; i < 100; ++i) {
    peers.push_back(PlainSocket::connect_to(server.port()));
    ASSERT_TRUE(peers.back().send("x"));
    if (i % 2 == 0) {
      peers.back().half_close();
    } else {
      peers.back().reset();
    }
  }
  std::this_thread::sleep_for(100ms);
  const auto before = server.cpu_time();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(server.cpu_time() - before, 10ms);
}

TEST(KernelLife, WhatOutstaysTheDrainIsReset) {
  EchoOptions options;
  options.loop.drain_timeout = 100ms;
  EchoThread server(options);
  // A peer that floods and never reads keeps the server writing.
  PlainSocket stubborn = PlainSocket::connect_to(server.port());
  const std::string block(100'000, 'x');
  const timeval bound{0, 100'000};
  setsockopt(stubborn.fd(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
  while (stubborn.send(block)) {
  }
  const auto start = std::chrono::steady_clock::now();
  server.drain();
  EXPECT_EQ(server.ending(), Ending::drain_expired);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
  EXPECT_LE(std::chrono::steady_clock::now() - start, 5s);
}

TEST(KernelLife, AReadTimeoutClosesInOrder) {
  EchoOptions options;
  options.read_timeout = 50ms;
  EchoThread server(options);
  PlainSocket client = PlainSocket::connect_to(server.port());
  ASSERT_TRUE(client.send("once"));
  EXPECT_EQ(client.receive(4), "once");
  EXPECT_EQ(client.ending(), "eof");
  EXPECT_EQ(server.stats().read_timeouts, 1U);
}

TEST(KernelLife, LingeringEndsByItself) {
  EchoOptions options;
  options.read_timeout = 10ms;
  options.kernel.linger = 50ms;
  EchoThread server(options);
  PlainSocket client = PlainSocket::connect_to(server.port());
  EXPECT_EQ(client.ending(), "eof");  // and this end stays open
  const auto start = std::chrono::steady_clock::now();
  while (server.stats().closing != 0) {
    ASSERT_LE(std::chrono::steady_clock::now() - start, 5s);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(server.stats().open, 0U);
}

/// SO_KEEPALIVE of this process's socket with that local port.
int keepalive_option(std::uint16_t local_port) {
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (ntohs(address.sin_port) != local_port) continue;
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    return value;
  }
  return -1;
}

TEST(KernelLife, KeepaliveThatIsTurnedOffIsOffInTheKernelToo) {
  KernelWorld world;
  Stream client;
  Stream server;
  open_pair(world, client, server);
  const auto body = [&]() -> Task<> {
    client.set_keepalive({.idle = 1s, .interval = 10s, .probes = 3});
    (void)co_await client.read(1200ms);
    EXPECT_EQ(world.transport().stats().keepalive_probes, 1U);
    EXPECT_EQ(keepalive_option(client.local().port), 1);
    client.set_keepalive({});
    EXPECT_EQ(keepalive_option(client.local().port), 0);
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 10s));
}

/// One client that does something hostile or not; what comes back must be what went out.
void chaos_step(Random& random, PlainSocket& socket, std::uint16_t port) {
  if (!socket.open()) socket = PlainSocket::connect_to(port);
  ASSERT_TRUE(socket.open());
  const std::string message(1 + random.below(9000), static_cast<char>('a' + random.below(26)));
  switch (random.below(8)) {
    case 0:
      socket.close();
      break;
    case 1:
      socket.reset();
      break;
    case 2:  // answered, then closed in order
      ASSERT_TRUE(socket.send(message));
      socket.half_close();
      EXPECT_EQ(socket.receive(message.size()), message);
      EXPECT_EQ(socket.ending(), "eof");
      socket.close();
      break;
    case 3:  // unread, then reset or closed
      (void)socket.send(message);
      if (random.chance(0.5)) socket.reset();
      socket.close();
      break;
    case 4: {  // a trickle
      for (int i = 0; i < 5; ++i) ASSERT_TRUE(socket.send(message.substr(0, 1)));
      EXPECT_EQ(socket.receive(5), std::string(5, message[0]));
      break;
    }
    default:
      ASSERT_TRUE(socket.send(message));
      EXPECT_EQ(socket.receive(message.size()), message);
      break;
  }
}

TEST(KernelLife, SurvivesHostilePeers) {
  EchoOptions options;
  options.kernel.buffer_count = 32;
  options.kernel.buffer_size = 1024;
  options.kernel.buffers_per_connection = 4;
  options.kernel.max_connections = 30;
  EchoThread server(options);
  Random random(seed());
  std::vector<PlainSocket> sockets(24);
  const std::uint64_t steps = scaled(4000);
  for (std::uint64_t step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
    chaos_step(random, sockets[random.below(sockets.size())], server.port());
  }
  sockets.clear();
  const auto start = std::chrono::steady_clock::now();
  while (server.stats().open != 0 || server.stats().closing != 0) {
    ASSERT_LE(std::chrono::steady_clock::now() - start, 10s);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(server.stats().buffers_free, 32U);
  server.drain();
  EXPECT_EQ(server.ending(), Ending::drained);
}

}  // namespace
}  // namespace pinion::test

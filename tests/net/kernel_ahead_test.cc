#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "echo_thread.h"
#include "kernel_world.h"
#include "plain_socket.h"
#include "stream_world.h"

// Chunks that a write hands over before the socket has them.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

const std::string kRequest(2000, 'x');

std::uint16_t port_of(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  return name(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? ntohs(address.sin_port) : 0;
}

/// Leaves both ends of a connection hardly any room; the server's is looked for among this
/// process's descriptors.
void shrink(const PlainSocket& client) {
  const int least = 1;
  setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
  const std::uint16_t from = port_of(client.fd(), getsockname);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  for (int fd = 0; fd < static_cast<int>(limit.rlim_cur) && fd < 4096; ++fd) {
    if (fd == client.fd() || port_of(fd, getpeername) != from) continue;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    return;
  }
  FAIL() << "the server's socket isn't there";
}

/// A client that has been answered once, a byte, and has hardly any room for more.
PlainSocket shrunk_client(std::uint16_t port) {
  PlainSocket client = PlainSocket::connect_to(port);
  EXPECT_TRUE(client.send("x"));
  EXPECT_EQ(client.receive(1), "x");
  shrink(client);
  return client;
}

/// A server that waits for its writes only.
EchoOptions impatient_writer() {
  EchoOptions options;
  options.write_timeout = 50ms;
  options.read_timeout = 1h;
  return options;
}

/// Polls until `done()`; false when that takes longer than `bound`.
template <class Predicate>
bool eventually(Predicate done, std::chrono::milliseconds bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// The server's task reads when the chunk that it wrote last is stuck: the read answers for it, long
// before its own timeout.
TEST(KernelAhead, AChunkThatTheSocketNeverTakesEndsTheReadThatFollows) {
  EchoThread server(impatient_writer());
  PlainSocket client = shrunk_client(server.port());
  std::uint64_t sent = 1;
  bool stuck = false;
  for (int i = 0; i < 200 && !stuck; ++i) {
    ASSERT_TRUE(client.send(kRequest));
    sent += kRequest.size();
    ASSERT_TRUE(eventually([&] { return server.stats().bytes_out >= sent; }, 10s));
    stuck = eventually([&] { return server.stats().write_timeouts > 0; }, 120ms);
  }
  ASSERT_TRUE(stuck);
  EXPECT_EQ(server.stats().write_timeouts, 1U);
  EXPECT_EQ(server.stats().read_timeouts, 0U);
  EXPECT_TRUE(eventually([&] { return server.stats().open == 0; }, 10s)) << "the read goes on";
  EXPECT_TRUE(eventually([&] { return server.stats().resets_sent == 1; }, 10s));
}

// The same while the server's task stands in its next write.
TEST(KernelAhead, AWriteBehindAStuckChunkTimesOut) {
  EchoThread server(impatient_writer());
  PlainSocket client = shrunk_client(server.port());
  for (int i = 0; i < 1000 && server.stats().write_timeouts == 0; ++i) {
    if (!client.send(kRequest)) break;
  }
  EXPECT_TRUE(eventually([&] { return server.stats().open == 0; }, 10s));
  EXPECT_EQ(server.stats().write_timeouts, 1U);
}

/// Echoes; a write that stands in line when the stream is closed still succeeds.
Task<> echo_all(Stream& stream) {
  while (auto chunk = co_await stream.read(1min)) {
    const auto written = co_await stream.write(std::move(*chunk), 1min);
    if (!written) co_return;
  }
}

/// Closes `stream` once a write has stood in line for a while.
Task<> close_when_stuck(KernelWorld& world, Stream& stream, std::atomic<std::uint64_t>& echoed,
                        std::atomic<bool>& closed) {
  int unchanged = 0;
  while (unchanged < 50) {
    const TransportStats stats = world.kernel().stats();
    echoed = stats.bytes_out;
    unchanged = stats.bytes_out < stats.bytes_in ? unchanged + 1 : 0;
    co_await sleep_for(2ms);
  }
  stream.close();
  closed = true;
}

// A chunk is stuck, a write stands in line behind it, and FIN behind both; the peer then reads. The
// loop parks, and nobody wakes it for the FIN.
TEST(KernelAhead, FinFollowsAWriteThatStoodInLine) {
  LoopOptions parking;
  parking.idle = IdlePolicy::park;
  KernelWorld world({}, parking);
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  Stream stream;
  std::atomic<std::uint64_t> echoed = 0;
  std::atomic<bool> closed = false;
  std::atomic<bool> over = false;
  const auto serve = [&]() -> Task<> {
    auto accepted = co_await listener->accept();
    CO_ASSERT_TRUE(accepted);
    stream = std::move(*accepted);
    Loop::current().spawn(close_when_stuck(world, stream, echoed, closed));
    co_await echo_all(stream);
  };
  world.loop().spawn(serve());
  std::thread peer([&, port = listener->local().port] {
    PlainSocket client = shrunk_client(port);
    std::uint64_t sent = 1;
    for (int i = 0; i < 500 && !closed; ++i) {
      EXPECT_TRUE(client.send(kRequest));
      sent += kRequest.size();
      eventually([&] { return echoed >= sent || closed; }, 10s);
    }
    EXPECT_TRUE(closed);
    EXPECT_EQ(client.receive(sent - 1).size(), sent - 1);
    EXPECT_EQ(client.ending(), "eof");
    over = true;
  });
  EXPECT_TRUE(world.loop().run_until([&over] { return over.load(); }, 60s));
  peer.join();
}

enum class Then : std::uint8_t { close, shut_down, write_again };

/// Answers one request and goes on at once.
Task<> serve_once(Listener& listener, Then then, Stream& kept) {
  auto stream = co_await listener.accept();
  CO_ASSERT_TRUE(stream);
  kept = std::move(*stream);
  auto chunk = co_await kept.read(10s);
  CO_ASSERT_TRUE(chunk);
  const auto written = co_await kept.write(std::move(*chunk), 10s);
  EXPECT_TRUE(written);
  if (then == Then::write_again) {
    const auto more = co_await kept.write(bytes_of("de"), 10s);
    EXPECT_TRUE(more);
  }
  then == Then::shut_down ? kept.shutdown_write() : kept.close();
}

// A parked loop has nobody to wake it: what waits for the end of an accepted chunk must not sleep.
TEST(KernelAhead, WhatFollowsAnAcceptedChunkIsNotLeftToTheNextWakeUp) {
  LoopOptions parking;
  parking.idle = IdlePolicy::park;
  KernelWorld world({}, parking);
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  for (const Then then : {Then::close, Then::shut_down, Then::write_again}) {
    const std::string answer = then == Then::write_again ? "abcde" : "abc";
    Stream kept;
    world.loop().spawn(serve_once(*listener, then, kept));
    std::atomic<bool> over = false;
    std::thread peer([&over, &answer, port = listener->local().port] {
      PlainSocket client = PlainSocket::connect_to(port);
      EXPECT_TRUE(client.send("abc"));
      EXPECT_EQ(client.receive(answer.size()), answer);
      EXPECT_EQ(client.ending(), "eof");
      over = true;  // The end of the socket wakes the loop.
    });
    EXPECT_TRUE(world.loop().run_until([&over] { return over.load(); }, 60s));
    peer.join();
  }
}

}  // namespace
}  // namespace pinion::test

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "echo_thread.h"
#include "kernel_world.h"
#include "plain_socket.h"
#include "stream_world.h"

// Peers that send and never read, against one that does: none may keep the receive buffers for
// itself. Payloads are larger than the small spare buffers.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kBuffers = 16;

/// The bytes of a stream are a function of its number and their place; at most kPeriod at a time.
constexpr std::size_t kPeriod = 65536;

std::string_view bytes_at(std::size_t stream, std::size_t place, std::size_t size) {
  static const std::vector<std::byte> twice = [] {
    std::vector<std::byte> bytes = pattern(kPeriod, seed());
    bytes.resize(2 * kPeriod);
    std::copy_n(bytes.begin(), kPeriod, bytes.begin() + kPeriod);
    return bytes;
  }();
  return {reinterpret_cast<const char*>(twice.data()) + (place + stream * 977) % kPeriod, size};
}

/// A client that sends what the socket takes and reads nothing until it is told to.
class SilentReader {
 public:
  SilentReader(std::size_t number, std::uint16_t port)
      : number_(number), socket_(PlainSocket::connect_to(port)) {}

  /// Whether the socket took anything.
  bool push(std::size_t size) {
    const std::string_view bytes = bytes_at(number_, sent_, size);
    const ssize_t taken =
        ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken > 0) sent_ += static_cast<std::size_t>(taken);
    if (taken < 0 && errno == ECONNRESET) reset_ = true;
    return taken > 0;
  }

  /// Reads to the end, checks every byte, and says how it ended. After "eof" all must have come.
  std::string read_all() {
    socket_.half_close();
    std::vector<char> buffer(kPeriod);
    std::size_t place = 0;
    for (;;) {
      errno = 0;
      const ssize_t got = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 && (reset_ || errno == ECONNRESET)) return "reset";
      if (got < 0) return "timeout";
      if (got == 0) break;
      const auto size = static_cast<std::size_t>(got);
      const bool right = std::string_view(buffer.data(), size) == bytes_at(number_, place, size);
      EXPECT_TRUE(right) << "stream " << number_ << " after " << place;
      place += size;
    }
    EXPECT_EQ(place, sent_) << "stream " << number_;
    return "eof";
  }

 private:
  std::size_t number_;
  PlainSocket socket_;
  std::size_t sent_ = 0;
  bool reset_ = false;  ///< The kernel says so only once.
};

struct Outcome {
  std::size_t complete = 0;
  std::size_t reset = 0;
  TransportStats stats;
};

/// Lets `silent` clients fill the server until none of them gets anything off any more, while an
/// honest one asks and is answered all the time. Then the silent ones read.
Outcome crowd(EchoThread& server, std::size_t silent) {
  Random random(seed());
  Outcome outcome;
  std::vector<SilentReader> crowd;
  for (std::size_t i = 0; i < silent; ++i) crowd.emplace_back(i, server.port());
  PlainSocket honest = PlainSocket::connect_to(server.port());
  std::size_t echoed = 0;
  for (int quiet = 0; quiet < 100;) {
    bool any = false;
    for (SilentReader& reader : crowd)
      any = reader.push(static_cast<std::size_t>(random.between(300, 4000))) || any;
    const std::string_view question =
        bytes_at(silent, echoed, static_cast<std::size_t>(random.between(300, 4000)));
    EXPECT_TRUE(honest.send(question)) << "after " << echoed << " bytes";
    const std::string answer = honest.receive(question.size());
    const bool right = answer == question;
    EXPECT_TRUE(right) << "after " << echoed << " bytes";
    if (!right) break;
    echoed += question.size();
    quiet = any ? 0 : quiet + 1;
    if (!any) std::this_thread::sleep_for(2ms);
  }
  outcome.stats = server.stats();
  for (SilentReader& reader : crowd) {
    const std::string ending = reader.read_all();
    if (ending == "eof") ++outcome.complete;
    if (ending == "reset") ++outcome.reset;
  }
  return outcome;
}

EchoOptions few_buffers(std::uint32_t spare) {
  EchoOptions options;
  options.kernel.buffer_count = kBuffers;
  options.kernel.buffer_size = 4096;
  options.kernel.spare_count = spare;
  options.read_timeout = 60s;
  options.write_timeout = 60s;
  return options;
}

TEST(KernelScarce, SilentReadersWaitInSpareBuffersAndGetEveryByte) {
  EchoThread server(few_buffers(128));
  const Outcome outcome = crowd(server, 2 * kBuffers);
  EXPECT_EQ(outcome.complete, 2 * kBuffers);
  EXPECT_EQ(outcome.stats.gave_way, 0U);
  EXPECT_GT(outcome.stats.receive_copied, 0U);
  EXPECT_GT(outcome.stats.buffers_free, 0U);
}

TEST(KernelScarce, BeyondTheSpareBuffersTheyGiveWayAndAreCounted) {
  EchoThread server(few_buffers(4));
  const Outcome outcome = crowd(server, 3 * kBuffers);
  const TransportStats stats = server.stats();  // Some may still give way while others read.
  EXPECT_GT(outcome.stats.gave_way, 0U);
  EXPECT_EQ(outcome.reset, stats.gave_way);
  EXPECT_EQ(outcome.complete + outcome.reset, 3 * kBuffers);
  EXPECT_EQ(stats.out_of_resources, 0U);
}

// What nobody waits for stays in the socket while buffers are scarce.
TEST(KernelScarce, ReceivesOnlyForReadersThatWait) {
  KernelWorld world({.buffer_count = kBuffers, .buffer_size = 4096});
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  const auto free_buffers = [&] { return world.transport().stats().buffers_free; };
  std::vector<Chunk> kept;
  std::string late;
  const auto body = [&]() -> Task<> {
    const Endpoint endpoint = listener->local();
    PlainSocket flood = PlainSocket::connect_to(endpoint.port);
    auto first = co_await listener->accept();
    CO_ASSERT_TRUE(first);
    EXPECT_TRUE(flood.send(std::string(std::size_t{kBuffers} * 8192, 'x')));
    while (free_buffers() >= kBuffers / 4) {
      auto chunk = co_await first->read(5s);
      CO_ASSERT_TRUE(chunk);
      kept.push_back(std::move(*chunk));
    }
    PlainSocket client = PlainSocket::connect_to(endpoint.port);
    auto second = co_await listener->accept();
    CO_ASSERT_TRUE(second);
    const auto nothing = co_await second->read(0s);
    EXPECT_EQ(outcome(nothing), "read_timeout");
    EXPECT_TRUE(client.send(std::string(1000, 'y')));
    for (int i = 0; i < 20; ++i) co_await yield();
    EXPECT_EQ(second->stats().bytes_in, 0U);
    late = co_await read_text(*second, 1000);
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 10s));
  EXPECT_EQ(late, std::string(1000, 'y'));
}

/// Streams whose peers are plain sockets; each receives from the start.
struct Peers {
  Peers(KernelWorld& world, std::size_t count)
      : listener(world.transport().listen(world.any_port())) {
    if (!listener) return;
    TaskHandle opening = world.loop().spawn(open(count));
    EXPECT_TRUE(world.loop().run_until([&] { return opening.done(); }, 10s));
  }

  Result<Listener> listener;
  std::vector<PlainSocket> sockets;
  std::vector<Stream> streams;  ///< As many as were asked for, unless a check has failed.

 private:
  Task<> open(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      sockets.push_back(PlainSocket::connect_to(listener->local().port));
      auto stream = co_await listener->accept();
      CO_ASSERT_TRUE(stream);
      const auto nothing = co_await stream->read(0s);
      EXPECT_EQ(outcome(nothing), "read_timeout");
      streams.push_back(std::move(*stream));
    }
  }
};

/// How the next read ends.
std::string next_read(KernelWorld& world, Stream& stream) {
  std::string ending;
  const auto read = [&]() -> Task<> {
    const auto chunk = co_await stream.read(5s);
    ending = outcome(chunk);
  };
  TaskHandle reading = world.loop().spawn(read());
  EXPECT_TRUE(world.loop().run_until([&] { return reading.done(); }, 10s));
  return ending;
}

// Three quarters of the buffers are held by peers that nobody reads, since times of plenty. When
// the rest and the spare buffer are gone, the one that has held for longest pays, and not one that
// comes later and whose reader is slow. What was dropped is not taken for a whole: FIN had come.
TEST(KernelScarce, WhoHoldsSinceBetterTimesGivesWayFirst) {
  constexpr std::size_t kBefore = kBuffers - kBuffers / 4;
  KernelWorld world({.buffer_count = kBuffers, .buffer_size = 4096, .spare_count = 1});
  Peers peers(world, kBefore + 2);
  ASSERT_EQ(peers.streams.size(), kBefore + 2);
  const std::string message(1000, 'x');  // no small spare buffer is as large
  const auto arrives = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      EXPECT_TRUE(peers.sockets[i].send(message));
      if (i == 0) peers.sockets[i].half_close();
      const auto there = [&] { return peers.streams[i].stats().bytes_in == message.size(); };
      EXPECT_TRUE(world.loop().run_until(there, 5s)) << i;
    }
  };
  arrives(0, kBefore);
  EXPECT_EQ(world.transport().stats().buffers_free, kBuffers / 4);
  world.loop().run_until([] { return false; }, 150ms);
  EXPECT_EQ(world.transport().stats().gave_way, 0U);
  arrives(kBefore, kBefore + 2);  // one in the spare buffer, one where it came
  world.loop().run_until([] { return false; }, 300ms);
  EXPECT_EQ(world.transport().stats().gave_way, 1U);
  EXPECT_EQ(next_read(world, peers.streams[0]), "no_resources");
  for (std::size_t i = 1; i < peers.streams.size(); ++i) {
    EXPECT_EQ(next_read(world, peers.streams[i]), "ok") << i;
  }
}

/// Lets the peer of a stream that is echoed send until nothing goes on any more.
void fill_both_ways(KernelWorld& world, PlainSocket& socket) {
  const std::string bytes(kPeriod, 'z');
  for (int quiet = 0; quiet < 50;) {
    const ssize_t taken = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    quiet = taken > 0 ? 0 : quiet + 1;
    world.loop().run_until([] { return false; }, 1ms);
  }
}

// The same for a chunk that waits to be sent since times of plenty.
TEST(KernelScarce, AWriteThatStallsSinceBetterTimesGivesWayFirst) {
  KernelWorld world({.buffer_count = kBuffers, .buffer_size = 4096, .spare_count = 1});
  Peers peers(world, 3);
  ASSERT_EQ(peers.streams.size(), 3U);
  std::string stalled;
  const auto echo = [&]() -> Task<> {
    while (auto chunk = co_await peers.streams[0].read(60s)) {
      const auto written = co_await peers.streams[0].write(std::move(*chunk), 60s);
      stalled = outcome(written);
      if (!written) break;
    }
  };
  std::vector<Chunk> kept;
  const std::string message(1000, 'x');
  const auto keep = [&]() -> Task<> {
    while (world.transport().stats().buffers_free >= kBuffers / 4) {
      EXPECT_TRUE(peers.sockets[1].send(message));
      auto chunk = co_await peers.streams[1].read(5s);
      CO_ASSERT_TRUE(chunk);
      kept.push_back(std::move(*chunk));
    }
  };
  std::size_t dropped = 0;  // so that nothing is unread, and only the write holds a buffer
  const auto drop = [&]() -> Task<> {
    while (auto chunk = co_await peers.streams[0].read(150ms)) dropped += chunk->size();
  };
  TaskHandle echoing = world.loop().spawn(echo());
  fill_both_ways(world, peers.sockets[0]);
  EXPECT_EQ(stalled, "ok");
  TaskHandle dropping = world.loop().spawn(drop());
  EXPECT_TRUE(world.loop().run_until([&] { return dropping.done(); }, 10s));
  TaskHandle keeping = world.loop().spawn(keep());
  EXPECT_TRUE(world.loop().run_until([&] { return keeping.done(); }, 5s));
  EXPECT_EQ(world.transport().stats().gave_way, 0U);
  EXPECT_TRUE(peers.sockets[2].send(message));  // takes the spare buffer
  EXPECT_TRUE(world.loop().run_until([&] { return echoing.done(); }, 5s));
  EXPECT_EQ(stalled, "no_resources");
  EXPECT_EQ(world.transport().stats().gave_way, 1U);
  EXPECT_EQ(next_read(world, peers.streams[2]), "ok");
}

// The receive is armed since better times. While buffers are scarce it brings one message after the
// other before the last one is read, but none lies for long.
TEST(KernelScarce, AReaderThatKeepsUpNeverGivesWay) {
  constexpr std::uint32_t kMany = 256;  // a few are a connection's share even when they are scarce
  KernelWorld world({.buffer_count = kMany, .buffer_size = 4096, .spare_count = 1});
  Peers peers(world, 3);
  ASSERT_EQ(peers.streams.size(), 3U);
  std::vector<Chunk> kept;
  std::string failure;
  const auto body = [&]() -> Task<> {
    const std::string message(1000, 'x');
    while (world.transport().stats().buffers_free >= kMany / 4) {
      EXPECT_TRUE(peers.sockets[0].send(message));
      auto chunk = co_await peers.streams[0].read(5s);
      CO_ASSERT_TRUE(chunk);
      kept.push_back(std::move(*chunk));
    }
    // What nobody waits for takes the spare buffer.
    EXPECT_TRUE(peers.sockets[1].send(message));
    while (peers.streams[1].stats().bytes_in == 0) co_await yield();
    EXPECT_EQ(world.transport().stats().receive_copied, 1U);
    auto spare = co_await peers.streams[1].read(0s);
    CO_ASSERT_TRUE(spare);
    kept.push_back(std::move(*spare));
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(peers.sockets[2].send(message));
    for (int i = 0; i < 40; ++i) {
      co_await sleep_for(5ms);
      EXPECT_TRUE(peers.sockets[2].send(message));
      co_await sleep_for(5ms);
      const auto chunk = co_await peers.streams[2].read(5s);
      failure = outcome(chunk);
      CO_ASSERT_TRUE(chunk);
    }
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 10s));
  EXPECT_EQ(failure, "ok");
  EXPECT_EQ(world.transport().stats().gave_way, 0U);
}

}  // namespace
}  // namespace pinion::test

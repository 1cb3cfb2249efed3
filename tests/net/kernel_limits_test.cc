#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/test/seed.h>

#include "echo_thread.h"
#include "kernel_world.h"
#include "plain_socket.h"

// The kernel transport at its limits: buffers, completions, descriptors, connections.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

/// Opens as many connections of `world` with itself as asked, server ends read by `serve`, which
/// must outlive what it makes.
template <class Serve>
Task<> open_many(KernelWorld& world, Listener& listener, std::size_t count,
                 std::vector<Stream>& clients, const Serve& serve) {
  const Endpoint peer = listener.local();
  for (std::size_t i = 0; i < count; ++i) {
    auto client = co_await world.transport().connect(peer, 5s);
    CO_ASSERT_TRUE(client);
    auto server = co_await listener.accept();
    CO_ASSERT_TRUE(server);
    clients.push_back(std::move(*client));
    world.loop().spawn(serve(std::move(*server)));
  }
}

/// `connections` senders of `messages` small messages each; returns the bytes that arrived.
std::uint64_t bytes_through(KernelWorld& world, std::size_t connections, std::size_t messages) {
  auto listener = world.transport().listen(world.any_port());
  EXPECT_TRUE(listener.has_value());
  std::uint64_t received = 0;
  std::size_t ended = 0;
  const auto count = [&](Stream stream) -> Task<> {
    while (auto chunk = co_await stream.read(20s)) received += chunk->size();
    ++ended;
  };
  const auto send = [messages](Stream stream) -> Task<> {
    for (std::size_t i = 0; i < messages; ++i) {
      if (!co_await stream.write(bytes_of("0123456789"), 20s)) co_return;
      if (i % 3 == 0) co_await yield();
    }
  };
  std::vector<Stream> clients;
  TaskHandle opening = world.loop().spawn(open_many(world, *listener, connections, clients, count));
  EXPECT_TRUE(world.loop().run_until([&] { return opening.done(); }, 30s));
  for (Stream& client : clients) world.loop().spawn(send(std::move(client)));
  EXPECT_TRUE(world.loop().run_until([&] { return ended == connections; }, 60s));
  return received;
}

/// A kernel as it is, and kernels that lack what the transport can do without.
struct Kernel {
  const char* name;
  RingFeatures masked;
  friend void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }
};

class EveryKernel : public testing::TestWithParam<Kernel> {
 protected:
  static LoopOptions loop_options() {
    LoopOptions options;
    options.ring.masked = GetParam().masked;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(
    KernelLimits, EveryKernel,
    testing::Values(Kernel{"Whole", {}}, Kernel{"SingleAccepts", {RingFeature::multishot_accept}},
                    Kernel{"SingleReceives", {RingFeature::multishot_receive}}),
    [](const auto& kernel) { return std::string(kernel.param.name); });

TEST_P(EveryKernel, ArmsAnewOnlyWhatTheKernelEnds) {
  constexpr std::size_t kTimes = 20;
  KernelWorld world({}, loop_options());
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  const auto submissions = [&world](auto step) {
    const std::uint64_t before = world.loop().ring().stats().submitted;
    for (std::size_t i = 0; i < kTimes; ++i) {
      TaskHandle task = world.loop().spawn(step());
      EXPECT_TRUE(world.loop().run_until([&task] { return task.done(); }, 10s));
    }
    return world.loop().ring().stats().submitted - before;
  };
  std::vector<Stream> servers;
  std::vector<PlainSocket> clients;
  const std::uint64_t for_accepts = submissions([&]() -> Task<> {
    clients.push_back(PlainSocket::connect_to(listener->local().port));
    auto accepted = co_await listener->accept();
    CO_ASSERT_TRUE(accepted);
    servers.push_back(std::move(*accepted));
  });
  const std::uint64_t for_receives = submissions([&]() -> Task<> {
    EXPECT_TRUE(clients.front().send("x"));
    const auto read = co_await servers.front().read(5s);
    EXPECT_EQ(outcome(read), "ok");
  });
  const Ring& ring = world.loop().ring();
  // The doorbell is armed now and then.
  EXPECT_EQ(for_accepts < kTimes / 2, ring.has(RingFeature::multishot_accept)) << for_accepts;
  EXPECT_EQ(for_receives < kTimes / 2, ring.has(RingFeature::multishot_receive)) << for_receives;
}

// L15: 8 receive buffers and 1000 senders: no stall, no spin, every byte.
TEST_P(EveryKernel, L15EightBuffersAndManySenders) {
  KernelOptions options;
  options.buffer_count = 8;
  options.buffer_size = 64;
  KernelWorld world(options, loop_options());
  const std::uint64_t connections = 1000;
  const std::uint64_t messages = 20;
  EXPECT_EQ(bytes_through(world, connections, messages), connections * messages * 10);
  const TransportStats stats = world.transport().stats();
  EXPECT_GT(stats.receive_starved, 0U);
  EXPECT_EQ(stats.buffers_free, 8U);
  // No spin: a receive that found no buffer is not repeated before there is one.
  EXPECT_LT(stats.receive_starved, 3 * connections * messages);
}

TEST_P(EveryKernel, OneBufferIsEnough) {
  KernelOptions options;
  options.buffer_count = 1;
  options.buffer_size = 64;
  KernelWorld world(options, loop_options());
  EXPECT_EQ(bytes_through(world, 50, 50), 50U * 50 * 10);
}

// L16: a completion queue of 16 entries and 1000 connections: no completion is lost.
TEST_P(EveryKernel, L16SixteenCompletionsAndManyConnections) {
  LoopOptions loop = loop_options();
  loop.ring.submission_entries = 8;
  loop.ring.completion_entries = 16;
  KernelWorld world({}, loop);
  EXPECT_EQ(bytes_through(world, 1000, 10), 1000U * 10 * 10);
}

TEST(KernelLimits, UnreadBytesOfOneConnectionDontPinTheBuffers) {
  KernelOptions options;
  options.buffer_count = 512;
  options.buffer_size = 1024;
  options.buffers_per_connection = 8;
  KernelWorld world(options);
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  std::vector<Stream> servers;
  const auto keep = [&servers](Stream stream) -> Task<> {
    (void)co_await stream.read(0s);  // receiving, but never read
    servers.push_back(std::move(stream));
  };
  const std::vector<std::byte> data(1'000'000);
  const auto flood = [&data](Stream& stream) -> Task<> { (void)co_await stream.write(data, 30s); };
  std::vector<Stream> clients;
  TaskHandle opening = world.loop().spawn(open_many(world, *listener, 1, clients, keep));
  ASSERT_TRUE(world.loop().run_until([&] { return opening.done() && servers.size() == 1; }, 10s));
  TaskHandle flooding = world.loop().spawn(flood(clients[0]));
  world.loop().run_until([] { return false; }, 100ms);
  const TransportStats stats = world.transport().stats();
  EXPECT_GT(stats.receive_paused, 0U);
  // The reader catches up and nothing is missing.
  std::size_t size = 0;
  auto drain = [&]() -> Task<> {
    while (size < data.size()) {
      const auto chunk = co_await servers[0].read(10s);
      CO_ASSERT_TRUE(chunk);
      size += chunk->size();
    }
  };
  TaskHandle reading = world.loop().spawn(drain());
  EXPECT_TRUE(world.loop().run_until([&] { return reading.done() && flooding.done(); }, 20s));
  EXPECT_EQ(size, data.size());
  // From then on it keeps to its share.
  flooding = world.loop().spawn(flood(clients[0]));
  world.loop().run_until([] { return false; }, 100ms);
  EXPECT_GE(world.transport().stats().buffers_free, 512U - 8);
}

TEST(KernelLimits, StalledWritersOfSmallMessagesDontPinTheBuffers) {
  KernelOptions options;
  options.buffer_count = 16;
  options.buffer_size = 1024;
  KernelWorld world(options);
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  std::vector<Chunk> kept;
  const auto hold = [&kept](Stream stream) -> Task<> {
    while (auto chunk = co_await stream.read(20s)) kept.push_back(std::move(*chunk));
  };
  const auto say = [](Stream& stream) -> Task<> {
    (void)co_await stream.write(bytes_of("hold me"), 5s);
  };
  std::vector<Stream> clients;
  TaskHandle opening = world.loop().spawn(open_many(world, *listener, 25, clients, hold));
  ASSERT_TRUE(world.loop().run_until([&] { return opening.done(); }, 10s));
  for (Stream& client : clients) world.loop().spawn(say(client));
  EXPECT_TRUE(world.loop().run_until([&] { return kept.size() == 25; }, 10s));
  for (const Chunk& chunk : kept) EXPECT_EQ(chunk.text(), "hold me");
  EXPECT_GT(world.transport().stats().receive_copied, 0U);
}

TEST_P(EveryKernel, AcceptingPausesAtMaxConnections) {
  EchoOptions options;
  options.loop = loop_options();
  options.kernel.max_connections = 10;
  EchoThread server(options);
  std::vector<PlainSocket> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(PlainSocket::connect_to(server.port()));
    ASSERT_TRUE(clients.back().open());
    ASSERT_TRUE(clients.back().send("x"));
  }
  // As connections end, others take their places; never more than ten at once.
  std::size_t served = 0;
  while (served < clients.size()) {
    std::size_t answered = 0;
    for (PlainSocket& client : clients) {
      if (!client.open() || !client.readable_within(answered == 0 ? 500ms : 20ms)) continue;
      EXPECT_EQ(client.receive(1), "x");
      ++answered;
    }
    EXPECT_LE(server.stats().open, 10U);
    ASSERT_GT(answered, 0U);
    served += answered;
    // Answered ones end; what they leave behind is read once more as end of file.
    std::size_t closed = 0;
    for (PlainSocket& client : clients) {
      if (closed == answered) break;
      if (!client.open()) continue;
      client.close();
      ++closed;
    }
  }
  EXPECT_EQ(served, clients.size());
  EXPECT_GT(server.stats().accept_pauses, 0U);
}

/// Waits until as many streams as asked wait for their peer's FIN.
void expect_closing(EchoThread& server, std::uint64_t count) {
  const auto start = std::chrono::steady_clock::now();
  while (server.stats().closing != count && std::chrono::steady_clock::now() - start < 5s) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(server.stats().closing, count);
}

// At the limit a close still waits for its peer's FIN, until a client comes who needs the place.
// The place is made while accept() looks for one, at once: a close whose receive stands in line for
// a buffer has nothing in flight. accept() must not be finished before it waits.
TEST(KernelLimits, AcceptAtTheLimitTakesThePlaceOfACloseThatEndsAtOnce) {
  KernelWorld world({.buffer_count = 1, .max_connections = 1, .linger = 60s});
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  Stream stream;
  const auto accept = [&]() -> Task<> {
    auto accepted = co_await listener->accept();
    EXPECT_EQ(outcome(accepted), "ok");
    if (accepted) stream = std::move(*accepted);
  };
  Chunk kept;
  const auto read = [&]() -> Task<> {
    auto chunk = co_await stream.read(5s);
    EXPECT_EQ(outcome(chunk), "ok");
    if (chunk) kept = std::move(*chunk);
  };
  PlainSocket first = PlainSocket::connect_to(listener->local().port);
  PlainSocket second = PlainSocket::connect_to(listener->local().port);
  TaskHandle accepting = world.loop().spawn(accept());
  ASSERT_TRUE(world.loop().run_until([&] { return accepting.done(); }, 5s));
  const std::string large(1000, 'x');  // no spare buffer is as large
  ASSERT_TRUE(first.send(large));
  TaskHandle reading = world.loop().spawn(read());
  ASSERT_TRUE(world.loop().run_until([&] { return reading.done(); }, 5s));
  stream.close();
  ASSERT_TRUE(first.send("late"));
  const auto starved = [&] { return world.transport().stats().receive_starved > 0; };
  ASSERT_TRUE(world.loop().run_until(starved, 5s));
  EXPECT_EQ(world.transport().stats().closing, 1U);
  accepting = world.loop().spawn(accept());
  EXPECT_TRUE(world.loop().run_until([&] { return accepting.done(); }, 5s));
  EXPECT_EQ(world.transport().stats().closing, 0U);
}

/// Accepts whatever comes, counts it and closes it at once.
struct Counting {
  explicit Counting(KernelWorld& its_world)
      : world(its_world),
        listener(world.transport().listen(world.any_port())),
        accepting(world.loop().spawn(accept())) {}
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  ~Counting() {
    accepting.cancel();
    EXPECT_TRUE(world.loop().run_until([&] { return accepting.done(); }, 5s));
  }
  Task<> accept() {
    CO_ASSERT_TRUE(listener);
    while (co_await listener->accept()) ++accepted;
  }

  KernelWorld& world;
  Result<Listener> listener;
  std::size_t accepted = 0;
  TaskHandle accepting;
};

// Some kernels end a multishot accept as cancelled when the completion queue is full. Nobody but
// the listener can know that it must be armed again: its task waits already.
TEST_P(EveryKernel, AnAcceptThatOthersCancelledGoesOn) {
  KernelWorld world({}, loop_options());
  Counting clients(world);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) world.loop().turn();
    world.loop().ring().quiesce(1ms);
    const PlainSocket client = PlainSocket::connect_to(clients.listener->local().port);
    const std::size_t before = clients.accepted;
    EXPECT_TRUE(world.loop().run_until([&] { return clients.accepted > before; }, 5s));
  }
}

// At the limit it only watches for clients, and that can be cancelled by others, too.
TEST(KernelLimits, AWatchThatOthersCancelledGoesOn) {
  KernelWorld world({.max_connections = 1, .linger = 60s});
  Counting clients(world);
  const PlainSocket first = PlainSocket::connect_to(clients.listener->local().port);
  EXPECT_TRUE(world.loop().run_until([&] { return clients.accepted == 1; }, 5s));
  for (int i = 0; i < 5; ++i) world.loop().turn();
  EXPECT_EQ(world.transport().stats().closing, 1U);
  world.loop().ring().quiesce(1ms);
  const PlainSocket second = PlainSocket::connect_to(clients.listener->local().port);
  EXPECT_TRUE(world.loop().run_until([&] { return clients.accepted == 2; }, 5s));
}

TEST(KernelLimits, OneCloseGivesUpItsPlaceForEachClientThatNeedsOne) {
  EchoOptions options;
  options.kernel.max_connections = 4;
  options.kernel.linger = 60s;
  options.read_timeout = 20ms;
  EchoThread server(options);
  std::vector<PlainSocket> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(PlainSocket::connect_to(server.port()));
  expect_closing(server, 4);
  for (int i = 0; i < 3; ++i) {
    PlainSocket late = PlainSocket::connect_to(server.port());
    ASSERT_TRUE(late.send("x"));
    EXPECT_EQ(late.receive(1), "x");
    EXPECT_EQ(late.ending(), "eof");
    late.close();
    expect_closing(server, 3);
    clients.push_back(PlainSocket::connect_to(server.port()));
    expect_closing(server, 4);
  }
  EXPECT_EQ(server.stats().resets_sent, 0U);
}

/// The server of L18, in a process of its own: it has 80 descriptors and talks through two pipes.
[[noreturn]] void serve_with_few_descriptors(int out, int in, const LoopOptions& loop) {
  EchoOptions options;
  options.loop = loop;
  const rlimit few{80, 80};
  setrlimit(RLIMIT_NOFILE, &few);
  for (int i = 0; i < 25; ++i) EXPECT_GE(dup(in), 0);  // more than what is left for others
  EchoThread server(options);
  const std::uint16_t port = server.port();
  if (write(out, &port, sizeof port) != sizeof port) _exit(2);
  char command = 0;
  while (read(in, &command, 1) == 1) {
    const std::int64_t used = server.cpu_time().count();
    if (write(out, &used, sizeof used) != sizeof used) _exit(2);
  }
  server.stop();
  _exit(0);
}

/// That server, seen from here.
class FewDescriptors {
 public:
  explicit FewDescriptors(const LoopOptions& loop) {
    EXPECT_EQ(pipe(to_child_), 0);
    EXPECT_EQ(pipe(from_child_), 0);
    child_ = fork();
    if (child_ == 0) {
      close(to_child_[1]);
      close(from_child_[0]);
      serve_with_few_descriptors(from_child_[1], to_child_[0], loop);
    }
    EXPECT_EQ(read(from_child_[0], &port_, sizeof port_), ssize_t{sizeof port_});
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() {
    close(to_child_[1]);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
    for (const int fd : {to_child_[0], from_child_[0], from_child_[1]}) close(fd);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[nodiscard]] std::chrono::nanoseconds cpu_time() const {
    std::int64_t used = 0;
    EXPECT_EQ(write(to_child_[1], "c", 1), 1);
    EXPECT_EQ(read(from_child_[0], &used, sizeof used), ssize_t{sizeof used});
    return std::chrono::nanoseconds{used};
  }

 private:
  int to_child_[2] = {-1, -1};
  int from_child_[2] = {-1, -1};
  pid_t child_ = -1;
  std::uint16_t port_ = 0;
};

/// Reads the answers that come, until none comes for a while; `done` says whose came.
std::size_t collect_answers(std::vector<PlainSocket>& clients, std::vector<bool>& done) {
  std::vector<pollfd> waiting;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    waiting.push_back({done[i] ? -1 : clients[i].fd(), POLLIN, 0});
  }
  std::size_t answered = 0;
  while (poll(waiting.data(), waiting.size(), 300) > 0) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      EXPECT_EQ(clients[i].receive(1), "x");
      waiting[i].fd = -1;
      done[i] = true;
      ++answered;
    }
  }
  return answered;
}

// L18: 80 descriptors and 200 clients: little CPU, the old ones are served, new ones accepted
// later.
TEST_P(EveryKernel, L18WithoutDescriptorsItServesWhatItHasAndDoesntSpin) {
  const FewDescriptors server(loop_options());
  std::vector<PlainSocket> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(PlainSocket::connect_to(server.port()));
    ASSERT_TRUE(clients.back().open());
    ASSERT_TRUE(clients.back().send("x"));
  }
  std::vector<bool> done(clients.size());
  std::size_t answered = collect_answers(clients, done);
  EXPECT_GT(answered, 4U);
  EXPECT_LT(answered, 80U);
  const auto before = server.cpu_time();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(server.cpu_time() - before, 50ms);
  // Old connections are served.
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!done[i]) continue;
    EXPECT_TRUE(clients[i].send("again"));
    EXPECT_EQ(clients[i].receive(5), "again");
  }
  // New ones are accepted as descriptors free up.
  for (int round = 0; round < 50 && answered < clients.size(); ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (done[i]) clients[i].close();
    }
    answered += collect_answers(clients, done);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(answered, clients.size());
}

}  // namespace
}  // namespace pinion::test

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/wait.h>
#include <pinion/test/seed.h>

#include "kernel_world.h"
#include "plain_socket.h"
#include "stream_world.h"

// How a drain and a close treat what is still on its way.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kConnections = 50;

/// A listener and connections to it, both ends of each.
struct Connected {
  Connected(KernelWorld& world, std::size_t count)
      : listener(world.transport().listen(world.any_port(), {})) {
    if (!listener) return;
    TaskHandle opening = world.loop().spawn(open(world, count));
    world.loop().run_until([&] { return opening.done(); }, 20s);
  }

  Result<Listener> listener;
  std::vector<StreamPair> pairs;  ///< As many as were asked for, unless a check has failed.

 private:
  Task<> open(KernelWorld& world, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Endpoint peer = listener->local();
      auto client = co_await world.transport().connect(peer, 5s);
      CO_ASSERT_TRUE(client);
      auto server = co_await listener->accept();
      CO_ASSERT_TRUE(server);
      pairs.push_back({std::move(*client), std::move(*server)});
    }
  }
};

/// Writes `text` and counts it in `sent`.
Task<> ask(Stream& stream, std::string_view text, std::size_t& sent) {
  const auto written = co_await stream.write(bytes_of(text), 5s);
  EXPECT_EQ(outcome(written), "ok");
  ++sent;
}

// With a budget of one completion a turn, most of the requests lie in completions that nobody has
// looked at when the drain begins.
TEST(KernelEnding, DrainReadsWhatLiesInCompletions) {
  KernelWorld world({}, {.completion_budget = 1, .drain_timeout = 10s});
  Connected connected(world, kConnections);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), kConnections);

  std::size_t chunks = 0;
  std::vector<std::string> endings;
  const auto serve = [&](Stream stream) -> Task<> {
    for (;;) {
      const auto chunk = co_await stream.read(30s);
      if (!chunk) {
        endings.push_back(outcome(chunk));
        co_return;
      }
      ++chunks;
    }
  };
  for (StreamPair& pair : pairs) world.loop().spawn(serve(std::move(pair.server)));
  for (int i = 0; i < 10; ++i) world.loop().turn();  // every server waits in its read

  std::size_t sent = 0;
  for (StreamPair& pair : pairs) world.loop().spawn(ask(pair.client, "question", sent));
  ASSERT_TRUE(world.loop().run_until([&] { return sent == kConnections / 2; }, 20s));
  world.loop().begin_drain();
  ASSERT_TRUE(world.loop().run_until([&] { return sent == kConnections; }, 20s));
  EXPECT_TRUE(world.loop().run_until([&] { return endings.size() == kConnections; }, 20s));
  EXPECT_EQ(chunks, kConnections);
  for (const std::string& ending : endings) EXPECT_EQ(ending, "draining");
}

// A loop that stood still past the read timeout answers what came meanwhile: the bytes were there
// in time.
TEST(KernelEnding, AStalledLoopReadsWhatCameInTime) {
  KernelWorld world;
  constexpr std::size_t kMany = 600;  // more than one turn's completions
  Connected connected(world, kMany);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), kMany);
  std::size_t asked = 0;
  std::vector<std::string> answers;
  const auto serve = [&](Stream& stream) -> Task<> {
    const auto chunk = co_await stream.read(200ms);
    answers.push_back(outcome(chunk));
  };
  for (StreamPair& pair : pairs) world.loop().spawn(serve(pair.server));
  for (StreamPair& pair : pairs) world.loop().spawn(ask(pair.client, "question", asked));
  // The turns until the writes are submitted; what they bring is left for later.
  while (answers.empty() && asked == 0) world.loop().turn();
  std::this_thread::sleep_for(400ms);
  EXPECT_TRUE(world.loop().run_until([&] { return answers.size() == kMany; }, 20s));
  for (const std::string& answer : answers) EXPECT_EQ(answer, "ok");
}

// The bytes lie in the socket when the drain begins, and no receive is armed that would bring them.
TEST(KernelEnding, ADrainingReadTakesWhatLiesInTheSocket) {
  KernelWorld world({}, {.drain_timeout = 10s});
  Connected connected(world, 1);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), 1U);
  std::vector<std::string> endings;
  const auto body = [&]() -> Task<> {
    const auto written = co_await pairs[0].client.write(bytes_of("question"), 5s);
    EXPECT_EQ(outcome(written), "ok");
    world.loop().begin_drain();
    for (int i = 0; i < 10; ++i) co_await yield();
    for (int i = 0; i < 2; ++i) {
      const auto chunk = co_await pairs[0].server.read(30s);
      endings.push_back(outcome(chunk));
    }
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 5s));
  EXPECT_EQ(endings, (std::vector<std::string>{"ok", "draining"}));
  task.cancel();
  world.loop().run_until([&] { return task.done(); }, 5s);
}

// As for a drain: what a completion holds has arrived, and is unread.
TEST(KernelEnding, CloseResetsForWhatLiesInCompletions) {
  KernelWorld world({}, {.completion_budget = 1});
  Connected connected(world, kConnections);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), kConnections);
  const auto arm = [](Stream& stream) -> Task<> { (void)co_await stream.read(0s); };
  std::vector<TaskHandle> arming;
  for (StreamPair& pair : pairs) arming.push_back(world.loop().spawn(arm(pair.server)));
  const auto armed = [&] {
    return std::all_of(arming.begin(), arming.end(), [](const auto& task) { return task.done(); });
  };
  ASSERT_TRUE(world.loop().run_until(armed, 20s));
  for (std::size_t i = 0; i < 4 * kConnections; ++i) world.loop().turn();

  std::size_t sent = 0;
  for (StreamPair& pair : pairs) world.loop().spawn(ask(pair.client, "unread", sent));
  // All were submitted in one turn, so all have arrived when the first is known to be sent.
  ASSERT_TRUE(world.loop().run_until([&] { return sent > 0; }, 20s));
  for (StreamPair& pair : pairs) pair.server.close();
  std::vector<std::string> endings;
  const auto wait = [&](Stream& stream) -> Task<> {
    const auto read = co_await stream.read(5s);
    endings.push_back(outcome(read));
  };
  for (StreamPair& pair : pairs) world.loop().spawn(wait(pair.client));
  EXPECT_TRUE(world.loop().run_until([&] { return endings.size() == kConnections; }, 20s));
  EXPECT_EQ(endings, std::vector<std::string>(kConnections, "reset"));
}

// A write that finds the connection broken ends it, however much time it had.
TEST(KernelEnding, ABrokenConnectionEndsWritesWithoutTimeLikeOthers) {
  for (const Delay timeout : {Delay(0s), Delay(5s)}) {
    KernelWorld world;
    Connected connected(world, 1);
    std::vector<StreamPair>& pairs = connected.pairs;
    ASSERT_EQ(pairs.size(), 1U);
    std::vector<std::string> outcomes;
    const auto body = [&]() -> Task<> {
      pairs[0].client.abort();
      const auto written = co_await pairs[0].server.write(bytes_of("x"), timeout);
      outcomes.push_back(outcome(written));
      const auto read = co_await pairs[0].server.read(5s);
      outcomes.push_back(outcome(read));
      const auto again = co_await pairs[0].server.write(bytes_of("x"), timeout);
      outcomes.push_back(outcome(again));
    };
    TaskHandle task = world.loop().spawn(body());
    EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 10s));
    EXPECT_EQ(outcomes, std::vector<std::string>(3, "reset"));
    EXPECT_EQ(world.transport().stats().resets_received, 1U);
    pairs.clear();
    EXPECT_EQ(world.transport().stats().resets_sent, 1U) << "the client's";
  }
}

// The peer gets no FIN after a fragment. Reading goes on, and close says that it failed.
TEST(KernelEnding, AWriteThatFailsAfterShutdownPoisonsAsAnyOther) {
  KernelWorld world;
  Connected connected(world, 1);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), 1U);
  const std::vector<std::byte> data(64'000'000);
  std::string written;
  std::string read;
  std::string ending;
  std::size_t size = 0;
  const auto send = [&](Stream& stream) -> Task<> {
    const auto result = co_await stream.write(data, 50ms);
    written = outcome(result);
  };
  const auto body = [&]() -> Task<> {
    TaskHandle sender = world.loop().spawn(send(pairs[0].server));
    co_await yield();
    co_await yield();
    pairs[0].server.shutdown_write();
    while (!sender.done()) co_await sleep_for(5ms);
    const auto asked = co_await pairs[0].client.write(bytes_of("question"), 5s);
    EXPECT_EQ(outcome(asked), "ok");
    read = co_await read_text(pairs[0].server, 8);
    pairs[0].server.close();
    ending = std::string(to_string(co_await read_to_end(pairs[0].client, size)));
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 20s));
  EXPECT_EQ(written, "write_timeout");
  EXPECT_EQ(read, "question");
  EXPECT_EQ(ending, "reset");
  EXPECT_LT(size, data.size());
}

class KernelEndingLinger : public testing::TestWithParam<std::chrono::milliseconds> {};

// The linger time bounds the wait for the peer's FIN, not the write that another task has
// outstanding: that has a timeout of its own.
TEST_P(KernelEndingLinger, AWriteMayTakeLongerThanTheLingerTime) {
  KernelOptions options;
  options.linger = GetParam();
  KernelWorld world(options);
  Connected connected(world, 1);
  std::vector<StreamPair>& pairs = connected.pairs;
  ASSERT_EQ(pairs.size(), 1U);

  const std::vector<std::byte> data = pattern(8'000'000, seed());
  std::string written = "nothing";
  const auto send = [&](Stream& stream) -> Task<> {
    const auto result = co_await stream.write(data, 10s);
    written = outcome(result);
  };
  std::size_t size = 0;
  std::string ending = "nothing";
  const auto receive = [&](Stream& stream) -> Task<> {
    co_await sleep_for(100ms);
    ending = std::string(to_string(co_await read_to_end(stream, size)));
  };
  world.loop().spawn(send(pairs[0].server));
  for (int i = 0; i < 3; ++i) world.loop().turn();
  EXPECT_EQ(written, "nothing");
  pairs[0].server.close();
  world.loop().spawn(receive(pairs[0].client));
  EXPECT_TRUE(world.loop().run_until([&] { return ending != "nothing"; }, 20s));
  EXPECT_EQ(ending, "end_of_file");
  EXPECT_EQ(size, data.size());
  EXPECT_EQ(written, "ok");
}

INSTANTIATE_TEST_SUITE_P(Times, KernelEndingLinger, testing::Values(0ms, 20ms));

// An urgent byte is a byte of the stream (RFC 6093 4): it is read in its place, and once everything
// was read, the close is orderly.
TEST(KernelEnding, AnUrgentByteIsReadAndLeavesTheCloseOrderly) {
  KernelWorld world;
  auto listener = world.transport().listen(world.any_port());
  ASSERT_TRUE(listener.has_value());
  PlainSocket client = PlainSocket::connect_to(listener->local().port);
  std::string text;
  const auto body = [&]() -> Task<> {
    auto server = co_await listener->accept();
    CO_ASSERT_TRUE(server);
    EXPECT_TRUE(client.send("on"));
    EXPECT_EQ(::send(client.fd(), "l", 1, MSG_OOB), 1);
    EXPECT_TRUE(client.send("y"));
    text = co_await read_text(*server, 4);
    const auto written = co_await server->write(bytes_of("answer"), 5s);
    EXPECT_EQ(outcome(written), "ok");
    server->close();
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&] { return task.done(); }, 10s));
  EXPECT_EQ(text, "only");
  EXPECT_EQ(client.receive(6), "answer");
  EXPECT_EQ(client.ending(), "eof");
  EXPECT_EQ(world.transport().stats().resets_sent, 0U);
}

}  // namespace
}  // namespace pinion::test

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stream_world.h"

// Cancellation, lifetime and drain: waits that end because their task, their stream or the lcore
// does. For every transport; most of it is meant for AddressSanitizer.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kTooMuch = 64'000'000;

Task<> read_into(Stream& stream, std::string& ending) {
  const auto read = co_await stream.read();
  ending = outcome(read);
}

Task<> write_into(Stream& stream, std::span<const std::byte> bytes, std::string& ending) {
  const auto written = co_await stream.write(bytes);
  ending = outcome(written);
}

TEST_P(StreamSuite, ACancelledReadLosesNoByte) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    for (int round = 0; round < 100; ++round) {
      std::string ending;
      TaskHandle reader = loop().spawn(read_into(pair.server, ending));
      co_await yield();
      co_await yield();
      reader.cancel();
      while (!reader.done()) co_await yield();
      EXPECT_EQ(ending, "cancelled");
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("byte"), 5s));
      const std::string text = co_await read_text(pair.server, 4);
      EXPECT_EQ(text, "byte");
    }
  });
}

TEST_P(StreamSuite, ACancelledWritePoisonsAndEndsOnlyWhenItsBytesAreFree) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    std::string ending;
    {
      const std::vector<std::byte> data(kTooMuch);
      TaskHandle writer = loop().spawn(write_into(pair.server, data, ending));
      co_await sleep_for(5ms);
      EXPECT_FALSE(writer.done());
      writer.cancel();
      while (!writer.done()) co_await yield();
    }
    EXPECT_EQ(ending, "cancelled");
    const auto again = co_await pair.server.write(bytes_of("x"), 1s);
    EXPECT_EQ(outcome(again), "cancelled");
  });
}

TEST_P(StreamSuite, ACancelledTaskGetsCancelledFromEveryWait) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("buffered"), 5s));
    std::vector<std::string> endings;
    const Endpoint peer = endpoint();
    auto wait = [&, this](Stream& stream) -> Task<> {
      co_await sleep_for(1h);
      const auto read = co_await stream.read();
      endings.push_back(outcome(read));
      const auto written = co_await stream.write(bytes_of("x"));
      endings.push_back(outcome(written));
      const auto connected = co_await client_transport().connect(peer);
      endings.push_back(outcome(connected));
      const auto accepted = co_await listener().accept();
      endings.push_back(outcome(accepted));
    };
    TaskHandle waiter = loop().spawn(wait(pair.server));
    co_await yield();
    co_await yield();
    waiter.cancel();
    while (!waiter.done()) co_await yield();
    EXPECT_EQ(endings, std::vector<std::string>(4, "cancelled"));
    // Nothing started, nothing lost.
    const std::string text = co_await read_text(pair.server, 8);
    EXPECT_EQ(text, "buffered");
    CO_ASSERT_TRUE(co_await pair.server.write(bytes_of("y"), 5s));
  });
}

// L11: a read times out or is cancelled and its coroutine is destroyed at once, 100,000 times.
TEST_P(StreamSuite, L11TimedOutAndCancelledReadsAreDestroyedAtOnce) {
  constexpr std::uint64_t kPairs = 100;
  const std::uint64_t times = rounds(1'000);
  const auto read_once = [](Stream& stream, Delay timeout) -> Task<> {
    const auto read = co_await stream.read(timeout);
    EXPECT_TRUE(read || read.error() == StreamError::read_timeout ||
                read.error() == StreamError::cancelled);
  };
  const auto read_often = [&, this](StreamPair pair, std::uint64_t number) -> Task<> {
    Random random(seed() + number);
    for (std::uint64_t round = 0; round < times; ++round) {
      TaskHandle reader = loop().spawn(read_once(pair.server, random.chance(0.5) ? 1us : 1h));
      if (random.chance(0.5)) co_await yield();
      if (random.chance(0.2)) (void)co_await pair.client.write(bytes_of("x"), 5s);
      if (random.chance(0.5)) co_await sleep_for(1us);
      reader.cancel();
      while (!reader.done()) co_await yield();
    }
  };
  run(
      [&, this]() -> Task<> {
        std::vector<TaskHandle> readers;
        for (std::uint64_t i = 0; i < kPairs; ++i) {
          StreamPair pair = co_await connected();
          readers.push_back(loop().spawn(read_often(std::move(pair), i)));
        }
        for (const TaskHandle& reader : readers) {
          while (!reader.done()) co_await sleep_for(5ms);
        }
      },
      120s);
}

// L17: a connection destroys itself inside its own completion.
TEST_P(StreamSuite, L17AStreamIsDestroyedWhileItsReadIsPending) {
  const std::uint64_t times = rounds(10'000);
  const auto hold = [](Stream stream, bool touch) -> Task<> {
    if (touch) (void)co_await stream.read(0s);
    (void)co_await stream.read(1h);
  };
  run(
      [&, this]() -> Task<> {
        Random random(seed());
        for (std::uint64_t round = 0; round < times; ++round) {
          StreamPair pair = co_await connected();
          CO_ASSERT_TRUE(pair.server);
          TaskHandle server = loop().spawn(hold(std::move(pair.server), random.chance(0.5)));
          if (random.chance(0.5)) co_await yield();
          if (random.chance(0.3)) (void)co_await pair.client.write(bytes_of("x"), 5s);
          // Its own completion ends it: the peer's FIN, RST or bytes.
          if (random.chance(0.3)) pair.client.abort();
          if (random.chance(0.3)) pair.client.shutdown_write();
          if (random.chance(0.5)) co_await yield();
          server.cancel();
          if (random.chance(0.5)) co_await yield();
        }
      },
      240s);
  EXPECT_TRUE(turn_until([this] { return stats().open == 0; }));
}

// L12: 100,000 races of data against timeout lose no byte, and each read has one outcome.
TEST_P(StreamSuite, L12RacesOfDataAgainstTimeoutHaveOneOutcome) {
  constexpr std::uint64_t kPairs = 50;
  const std::uint64_t times = rounds(2'000);
  std::uint64_t received = 0;
  std::uint64_t timeouts = 0;
  const auto send = [&](Stream stream, std::uint64_t number) -> Task<> {
    Random random(seed() + number);
    for (std::uint64_t i = 0; i < times; ++i) {
      co_await sleep_for(std::chrono::microseconds(random.between(0, 2000)));
      if (!co_await stream.write(bytes_of("1234567"), 5s)) break;
    }
  };
  const auto receive = [&](Stream stream) -> Task<> {
    for (;;) {
      const auto chunk = co_await stream.read(1ms);
      if (chunk) {
        received += chunk->size();
      } else if (chunk.error() == StreamError::read_timeout) {
        ++timeouts;
      } else {
        EXPECT_EQ(chunk.error(), StreamError::end_of_file);
        break;
      }
    }
  };
  run(
      [&, this]() -> Task<> {
        std::vector<TaskHandle> receivers;
        for (std::uint64_t i = 0; i < kPairs; ++i) {
          StreamPair pair = co_await connected();
          loop().spawn(send(std::move(pair.client), i));
          receivers.push_back(loop().spawn(receive(std::move(pair.server))));
        }
        for (const TaskHandle& receiver : receivers) {
          while (!receiver.done()) co_await sleep_for(5ms);
        }
      },
      240s);
  EXPECT_EQ(received, kPairs * times * 7);
  EXPECT_EQ(stats().read_timeouts, timeouts);
}

// L13: ten times more reads time out in one tick than the submission queue, of 32, holds.
TEST_P(StreamSuite, L13MoreReadsTimeOutInOneTickThanTheQueueHolds) {
  constexpr std::size_t kConnections = 320;
  std::vector<std::string> endings(kConnections);
  run(
      [&, this]() -> Task<> {
        std::vector<StreamPair> pairs;
        for (std::size_t i = 0; i < kConnections; ++i) pairs.push_back(co_await connected());
        const Instant deadline = saturating_add(loop().now(), 100ms);
        std::vector<TaskHandle> readers;
        for (std::size_t i = 0; i < kConnections; ++i) {
          pairs[i].server.set_deadline(deadline);
          readers.push_back(loop().spawn(read_into(pairs[i].server, endings[i])));
        }
        for (const TaskHandle& reader : readers) {
          while (!reader.done()) co_await sleep_for(10ms);
        }
      },
      60s);
  EXPECT_EQ(endings, std::vector<std::string>(kConnections, "deadline_exceeded"));
}

TEST_P(StreamSuite, ListenersAndConnectsMayBeDroppedWhileTheyWait) {
  run([this]() -> Task<> {
    const Endpoint peer = endpoint();
    for (int round = 0; round < 200; ++round) {
      auto attempt = [&, this]() -> Task<> { (void)co_await client_transport().connect(peer); };
      TaskHandle connecting = loop().spawn(attempt());
      if (round % 2 == 0) co_await yield();
      connecting.cancel();
      auto listening = transport().listen(world().any_port());
      CO_ASSERT_TRUE(listening);
      auto wait = [](Listener listener) -> Task<> { (void)co_await listener.accept(); };
      TaskHandle accepting = loop().spawn(wait(std::move(*listening)));
      if (round % 3 == 0) co_await yield();
      accepting.cancel();
    }
  });
}

// L21: stop() with 1000 reads and 3000 timers armed.
TEST_P(StreamSuite, L21StopWithAThousandReadsAndThreeThousandTimers) {
  constexpr std::size_t kConnections = 500;  // Both ends wait, with 3 timers each.
  const auto wait = [](Stream stream) -> Task<> {
    stream.set_keepalive({.idle = 60s, .interval = 10s, .probes = 3});
    (void)co_await stream.write(bytes_of("x"), 10s);
    while (co_await stream.read(30s)) {
    }
  };
  run(
      [&, this]() -> Task<> {
        for (std::size_t i = 0; i < kConnections; ++i) {
          StreamPair pair = co_await connected();
          loop().spawn(wait(std::move(pair.client)));
          loop().spawn(wait(std::move(pair.server)));
        }
      },
      60s);
  EXPECT_EQ(stats().open, 2 * kConnections);
  loop().stop();
  EXPECT_EQ(loop().run(), Ending::stopped);
  EXPECT_EQ(stats().open, 0U);
}

TEST_P(StreamSuite, DrainAnswersWhatArrivedThenEndsInOrder) {
  std::vector<std::string> server_endings;
  std::string accept_ending;
  std::string client_text;
  std::string client_ending;
  const auto serve = [&](Stream stream) -> Task<> {
    for (;;) {
      auto chunk = co_await stream.read(30s);
      server_endings.push_back(outcome(chunk));
      if (!chunk) co_return;
      if (!co_await stream.write(std::move(*chunk), 10s)) co_return;
    }
  };
  const auto accept = [&, this]() -> Task<> {
    const auto accepted = co_await listener().accept();
    accept_ending = outcome(accepted);
  };
  const auto ask = [&, this](Stream stream) -> Task<> {
    const auto written = co_await stream.write(bytes_of("question"), 5s);
    EXPECT_EQ(outcome(written), "ok");
    loop().begin_drain();
    const Endpoint peer = endpoint();
    const auto late = co_await client_transport().connect(peer, 5s);
    EXPECT_EQ(outcome(late), "draining");
    // This end drains too: what has arrived is read, then it is over.
    client_ending = "ok";
    while (client_ending == "ok") {
      const auto chunk = co_await stream.read(30s);
      client_ending = outcome(chunk);
      if (chunk) client_text += chunk->text();
    }
  };
  StreamPair pair;
  run([&, this]() -> Task<> { pair = co_await connected(); });
  loop().spawn(serve(std::move(pair.server)));
  loop().spawn(accept());
  loop().spawn(ask(std::move(pair.client)));
  EXPECT_EQ(loop().run(), Ending::drained);
  EXPECT_EQ(server_endings.size(), 2U);
  EXPECT_EQ(server_endings.front(), "ok");
  EXPECT_EQ(server_endings.back(), "draining");
  EXPECT_EQ(accept_ending, "draining");
  EXPECT_TRUE(client_ending == "draining" || client_ending == "end_of_file") << client_ending;
}

INSTANTIATE_TEST_SUITE_P(Every, StreamSuite, testing::ValuesIn(stream_worlds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace pinion::test

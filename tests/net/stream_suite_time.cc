#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <pinion/test/seed.h>

#include "stream_world.h"

// docs/stream.md, "Time", and what ends a wait. Real time, so bounds are generous. For every
// transport.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// More than a socket's buffers hold, so that a write without a reader waits.
constexpr std::size_t kTooMuch = 64'000'000;

TEST_P(StreamSuite, ATimedOutReadLosesNoByteAndMayBeRepeated) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    for (int round = 0; round < 3; ++round) {
      const auto start = Clock::now();
      const auto late = co_await pair.server.read(30ms);
      EXPECT_EQ(outcome(late), "read_timeout");
      EXPECT_GE(Clock::now() - start, 30ms);
      EXPECT_LE(Clock::now() - start, 1s);
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("still here"), 5s));
      const std::string text = co_await read_text(pair.server, 10);
      EXPECT_EQ(text, "still here");
    }
  });
  EXPECT_EQ(stats().read_timeouts, 3U);
}

TEST_P(StreamSuite, AReadTimeoutCountsFromTheCall) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    const auto first = co_await pair.server.read(10ms);
    EXPECT_EQ(outcome(first), "read_timeout");
    const auto burn = Clock::now() + 60ms;
    while (Clock::now() < burn) {
    }
    const auto start = Clock::now();
    const auto late = co_await pair.server.read(50ms);
    EXPECT_EQ(outcome(late), "read_timeout");
    EXPECT_GE(Clock::now() - start, 50ms);
  });
}

TEST_P(StreamSuite, AShorterTimeoutAfterALongerOneIsInTime) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("x"), 1h));
    const auto read = co_await pair.server.read(1h);
    EXPECT_EQ(outcome(read), "ok");
    const auto start = Clock::now();
    const auto late = co_await pair.server.read(20ms);
    EXPECT_EQ(outcome(late), "read_timeout");
    EXPECT_LE(Clock::now() - start, 2s);
    const auto longer = co_await pair.server.read(60ms);
    EXPECT_EQ(outcome(longer), "read_timeout");
    EXPECT_GE(Clock::now() - start, 80ms);
  });
}

TEST_P(StreamSuite, WithoutTimeAReadGivesWhatIsBufferedOrTimesOutAtOnce) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    for (const Delay none : {Delay(0s), Delay(-1h), Delay(std::chrono::hours::min())}) {
      const auto start = Clock::now();
      const auto late = co_await pair.server.read(none);
      EXPECT_EQ(outcome(late), "read_timeout");
      EXPECT_LE(Clock::now() - start, 500ms);
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("now"), 5s));
      // A task that polls gets it, since each read lets the loop turn.
      std::string text;
      while (text.size() < 3 && Clock::now() - start < 10s) {
        auto chunk = co_await pair.server.read(none);
        if (chunk) text += chunk->text();
      }
      EXPECT_EQ(text, "now");
    }
  });
}

TEST_P(StreamSuite, WithoutTimeAReadGivesWhatHasArrived) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    for (int round = 0; round < 10; ++round) {
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("there"), 5s));
      if (round % 2 == 1) pair.server.set_deadline(-1s);
      const auto read = co_await pair.server.read(round % 2 == 0 ? Delay(0s) : Delay(1h));
      EXPECT_EQ(outcome(read), "ok") << "round " << round;
      pair.server.set_deadline(kNever);
      // A read that timed out leaves the next one as it should be.
      if (round >= 5) (void)co_await pair.server.read(1ms);
    }
  });
}

TEST_P(StreamSuite, TimeoutsThatDontFitAreForEver) {
  run([this]() -> Task<> {
    for (const Delay forever :
         {kNoTimeout, Delay(std::chrono::hours::max()), Delay(std::chrono::nanoseconds::max())}) {
      StreamPair pair = co_await connected();
      auto later = [](Stream& stream) -> Task<> {
        co_await sleep_for(30ms);
        const auto written = co_await stream.write(bytes_of("late"), std::chrono::hours::max());
        EXPECT_EQ(outcome(written), "ok");
      };
      pair.server.set_deadline(forever);
      loop().spawn(later(pair.client));
      const auto read = co_await pair.server.read(forever);
      EXPECT_EQ(outcome(read), "ok");
    }
  });
}

TEST_P(StreamSuite, ATimedOutWritePoisonsTheStream) {
  const std::vector<std::byte> data(kTooMuch);
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    const auto start = Clock::now();
    const auto late = co_await pair.server.write(data, 50ms);
    EXPECT_EQ(outcome(late), "write_timeout");
    EXPECT_GE(Clock::now() - start, 50ms);
    EXPECT_LE(Clock::now() - start, 5s);
    const auto again = co_await pair.server.write(bytes_of("x"), 5s);
    EXPECT_EQ(outcome(again), "write_timeout");
    // The other direction goes on.
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("question"), 5s));
    const std::string text = co_await read_text(pair.server, 8);
    EXPECT_EQ(text, "question");
    // The peer can't take the fragment for a whole.
    pair.server.close();
    std::size_t size = 0;
    EXPECT_EQ(co_await read_to_end(pair.client, size), StreamError::reset);
    EXPECT_LT(size, data.size());
  });
  EXPECT_EQ(stats().write_timeouts, 1U);
}

TEST_P(StreamSuite, WithoutTimeAWriteSendsWhatTheSocketTakes) {
  const std::vector<std::byte> data(kTooMuch);
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    const auto small = co_await pair.client.write(bytes_of("small"), 0s);
    EXPECT_EQ(outcome(small), "ok");
    const std::string text = co_await read_text(pair.server, 5);
    EXPECT_EQ(text, "small");
    const auto large = co_await pair.client.write(data, -1s);
    EXPECT_EQ(outcome(large), "write_timeout");
    const auto after = co_await pair.client.write(bytes_of("x"), 5s);
    EXPECT_EQ(outcome(after), "write_timeout");
  });
}

TEST_P(StreamSuite, ASlowReaderDelaysAWriteButLosesNothing) {
  const std::vector<std::byte> data = pattern(20'000'000, seed());
  std::vector<std::byte> received;
  run(
      [&, this]() -> Task<> {
        StreamPair pair = co_await connected();
        auto send = [&data](Stream stream) -> Task<> {
          const auto written = co_await stream.write(data, 30s);
          EXPECT_EQ(outcome(written), "ok");
        };
        loop().spawn(send(std::move(pair.client)));
        std::size_t reads = 0;
        while (auto chunk = co_await pair.server.read(10s)) {
          const auto bytes = chunk->span();
          received.insert(received.end(), bytes.begin(), bytes.end());
          if (++reads % 256 == 0) co_await sleep_for(1ms);
        }
      },
      60s);
  EXPECT_TRUE(received == data);
}

TEST_P(StreamSuite, ADeadlineBoundsAPeerThatTrickles) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    auto trickle = [](Stream stream) -> Task<> {
      while (co_await stream.write(bytes_of("."), 1s)) {
        if (co_await sleep_for(10ms) == Wake::cancelled) break;
      }
    };
    TaskHandle peer = loop().spawn(trickle(std::move(pair.client)));
    const auto start = Clock::now();
    pair.server.set_deadline(100ms);
    std::string ending = "ok";
    while (ending == "ok") {
      const auto read = co_await pair.server.read(50ms);
      ending = outcome(read);
    }
    EXPECT_EQ(ending, "deadline_exceeded");
    EXPECT_GE(Clock::now() - start, 100ms);
    EXPECT_LE(Clock::now() - start, 5s);
    // Lifted, reading goes on.
    pair.server.set_deadline(kNever);
    const auto read = co_await pair.server.read(5s);
    EXPECT_EQ(outcome(read), "ok");
    peer.cancel();
  });
  EXPECT_GE(stats().deadlines_exceeded, 1U);
}

TEST_P(StreamSuite, ADeadlineReachesOperationsThatWaitAlready) {
  const std::vector<std::byte> data(kTooMuch);
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    std::string read_outcome;
    std::string write_outcome;
    auto wait = [&](Stream& stream) -> Task<> {
      const auto read = co_await stream.read(1h);
      read_outcome = outcome(read);
    };
    auto send = [&](Stream& stream) -> Task<> {
      const auto written = co_await stream.write(data, 1h);
      write_outcome = outcome(written);
    };
    TaskHandle reader = loop().spawn(wait(pair.server));
    TaskHandle writer = loop().spawn(send(pair.server));
    co_await sleep_for(10ms);
    pair.server.set_deadline(20ms);
    for (int i = 0; i < 1000 && !(reader.done() && writer.done()); ++i) co_await sleep_for(5ms);
    EXPECT_EQ(read_outcome, "deadline_exceeded");
    EXPECT_EQ(write_outcome, "deadline_exceeded");
    const auto again = co_await pair.server.write(bytes_of("x"), 1s);
    EXPECT_EQ(outcome(again), "deadline_exceeded");
    // A deadline in the past acts at once, but what is buffered is read.
    for (std::size_t turns = 0; turns < 10; ++turns) {
      const auto part = co_await pair.client.read(1h);
      EXPECT_EQ(outcome(part), "ok");
      co_await yield();
    }
    pair.client.set_deadline(-1s);
    const auto start = Clock::now();
    std::string ending = "ok";
    while (ending == "ok" && Clock::now() - start < 10s) {
      const auto past = co_await pair.client.read(1h);
      ending = outcome(past);
    }
    EXPECT_EQ(ending, "deadline_exceeded");
  });
}

TEST_P(StreamSuite, AnIdlePeerThatAnswersIsKept) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    pair.server.set_keepalive({.idle = 1s, .interval = 100ms, .probes = 1});
    const auto idle = co_await pair.server.read(3500ms);
    EXPECT_EQ(outcome(idle), "read_timeout");
    const std::uint64_t probes = stats().keepalive_probes;
    EXPECT_GE(probes, 1U);
    EXPECT_LE(probes, 3U);
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("alive"), 5s));
    const std::string text = co_await read_text(pair.server, 5);
    EXPECT_EQ(text, "alive");
  });
  EXPECT_EQ(stats().keepalive_timeouts, 0U);
}

TEST_P(StreamSuite, BytesFromThePeerRestartTheIdleTime) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    pair.server.set_keepalive({.idle = 1s, .interval = 100ms, .probes = 1});
    for (int i = 0; i < 8; ++i) {
      co_await sleep_for(200ms);
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("."), 5s));
      const auto read = co_await pair.server.read(5s);
      EXPECT_EQ(outcome(read), "ok");
    }
  });
  EXPECT_EQ(stats().keepalive_probes, 0U);
}

// L14: close() and abort() reach the peer within 10 ms, though a multishot receive is armed.
TEST_P(StreamSuite, L14CloseReachesThePeerWithinTenMilliseconds) {
  run([this]() -> Task<> {
    std::vector<double> milliseconds;
    for (int round = 0; round < 20; ++round) {
      StreamPair pair = co_await connected();
      std::string ending;
      Clock::time_point seen;
      auto wait = [&](Stream& stream) -> Task<> {
        const auto read = co_await stream.read(5s);
        ending = outcome(read);
        seen = Clock::now();
      };
      // Its receive is armed.
      const auto nothing = co_await pair.server.read(1ms);
      EXPECT_EQ(outcome(nothing), "read_timeout");
      TaskHandle peer = loop().spawn(wait(pair.client));
      co_await yield();
      const auto start = Clock::now();
      if (round % 2 == 0) {
        pair.server.close();
      } else {
        pair.server.abort();
      }
      while (!peer.done()) co_await sleep_for(1ms);
      EXPECT_EQ(ending, round % 2 == 0 ? "end_of_file" : "reset");
      milliseconds.push_back(std::chrono::duration<double, std::milli>(seen - start).count());
    }
    // One of many may meet a busy machine.
    std::sort(milliseconds.begin(), milliseconds.end());
    EXPECT_LE(milliseconds[milliseconds.size() / 2], 10.0);
  });
}

TEST_P(StreamSuite, ConnectAnswersItsOwnTimeout) {
  run([this]() -> Task<> {
    const Endpoint peer = endpoint();
    const auto none = co_await client_transport().connect(peer, 0s);
    EXPECT_EQ(outcome(none), "connect_timeout");
    const auto stream = co_await client_transport().connect(peer, 5s);
    EXPECT_EQ(outcome(stream), "ok");
  });
}

INSTANTIATE_TEST_SUITE_P(Every, StreamSuite, testing::ValuesIn(stream_worlds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace pinion::test

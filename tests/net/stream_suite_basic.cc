#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include <pinion/test/seed.h>

#include "stream_world.h"

// docs/stream.md, but for what needs real time: handles, bytes, ending. For every transport.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

// As in the documentation, word for word.
pinion::Task<> serve(pinion::Stream conn) {
  conn.set_keepalive({.idle = 60s, .interval = 10s, .probes = 3});
  while (auto chunk = co_await conn.read(30s)) {
    if (!co_await conn.write(std::move(*chunk), 10s)) break;
  }
}

TEST_P(StreamSuite, ServesTheExampleOfTheDesign) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    TaskHandle server = loop().spawn(serve(std::move(pair.server)));
    for (int i = 0; i < 100; ++i) {
      const std::string question = "question " + std::to_string(i);
      const auto written = co_await pair.client.write(bytes_of(question), 5s);
      EXPECT_EQ(outcome(written), "ok");
      const std::string answer = co_await read_text(pair.client, question.size());
      EXPECT_EQ(answer, question);
    }
    pair.client.shutdown_write();
    std::size_t rest = 0;
    EXPECT_EQ(co_await read_to_end(pair.client, rest), StreamError::end_of_file);
    EXPECT_EQ(rest, 0U);
    EXPECT_TRUE(server.done());
  });
}

TEST_P(StreamSuite, EveryByteArrivesOnceAndInOrder) {
  const std::vector<std::byte> sent = pattern(3'000'000, seed());
  std::vector<std::byte> received;
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    auto send = [&sent](Stream stream) -> Task<> {
      const auto written = co_await stream.write(sent, 10s);
      EXPECT_EQ(outcome(written), "ok");
      EXPECT_EQ(stream.stats().bytes_out, sent.size());
    };
    TaskHandle sender = loop().spawn(send(std::move(pair.client)));
    while (auto chunk = co_await pair.server.read(10s)) {
      EXPECT_FALSE(chunk->empty());
      const auto bytes = chunk->span();
      received.insert(received.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(pair.server.stats().bytes_in, sent.size());
    EXPECT_TRUE(sender.done());
  });
  EXPECT_TRUE(sent == received);
}

TEST_P(StreamSuite, ReadsAndWritesOfOneStreamRunSideBySide) {
  const std::vector<std::byte> data = pattern(2'000'000, seed());
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    TaskHandle server = loop().spawn(serve(std::move(pair.server)));
    auto send = [&data](Stream& stream) -> Task<> {
      const auto written = co_await stream.write(data, 10s);
      EXPECT_EQ(outcome(written), "ok");
      stream.shutdown_write();
    };
    TaskHandle sender = loop().spawn(send(pair.client));
    std::size_t at = 0;
    bool equal = true;
    while (auto chunk = co_await pair.client.read(10s)) {
      equal = equal && at + chunk->size() <= data.size() &&
              std::memcmp(chunk->data(), data.data() + at, chunk->size()) == 0;
      at += chunk->size();
    }
    EXPECT_TRUE(equal);
    EXPECT_EQ(at, data.size());
    EXPECT_TRUE(sender.done());
    EXPECT_TRUE(server.done());
  });
}

TEST_P(StreamSuite, AChunkOutlivesItsStreamAndGoesOutOnAnother) {
  run([this]() -> Task<> {
    StreamPair one = co_await connected();
    StreamPair other = co_await connected();
    CO_ASSERT_TRUE(co_await one.client.write(bytes_of("kept bytes"), 5s));
    auto chunk = co_await one.server.read(5s);
    CO_ASSERT_TRUE(chunk);
    one = StreamPair();
    for (int i = 0; i < 10; ++i) co_await yield();
    EXPECT_EQ(chunk->text(), "kept bytes");
    chunk->remove_prefix(5);
    CO_ASSERT_TRUE(co_await other.server.write(std::move(*chunk), 5s));
    EXPECT_TRUE(chunk->empty());
    const std::string text = co_await read_text(other.client, 5);
    EXPECT_EQ(text, "bytes");
  });
}

TEST_P(StreamSuite, AChunkIsConsumedInPartsAndMayBeChanged) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("abcdef"), 5s));
    auto chunk = co_await pair.server.read(5s);
    CO_ASSERT_TRUE(chunk && chunk->size() == 6);
    chunk->remove_prefix(2);
    EXPECT_EQ(chunk->text(), "cdef");
    chunk->remove_suffix(1);
    EXPECT_EQ(chunk->text(), "cde");
    chunk->span()[0] = std::byte{'C'};
    EXPECT_EQ(chunk->text(), "Cde");
    chunk->reset();
    EXPECT_TRUE(chunk->empty());
  });
}

TEST_P(StreamSuite, StreamsAndChunksOutliveTheTransport) {
  Stream client;
  Stream server;
  Chunk chunk;
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("left over"), 5s));
    auto read = co_await pair.server.read(5s);
    CO_ASSERT_TRUE(read);
    chunk = std::move(*read);
    client = std::move(pair.client);
    server = std::move(pair.server);
  });
  std::string pending;
  auto wait = [&pending](Stream& stream) -> Task<> {
    const auto read = co_await stream.read();
    pending = outcome(read);
  };
  TaskHandle waiter = loop().spawn(wait(client));
  loop().turn();
  world().end_transport();
  EXPECT_TRUE(turn_until([&] { return waiter.done(); }));
  EXPECT_EQ(pending, "closed");
  EXPECT_EQ(chunk.text(), "left over");
  run([&]() -> Task<> {
    const auto read = co_await server.read(1s);
    EXPECT_EQ(outcome(read), "closed");
    const auto written = co_await server.write(std::move(chunk), 1s);
    EXPECT_EQ(outcome(written), "closed");
  });
}

// L19: a peer that half-closes and keeps reading gets the reply.
TEST_P(StreamSuite, L19TheReplyToAHalfClosedPeerArrives) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("last words"), 5s));
    pair.client.shutdown_write();
    const auto refused = co_await pair.client.write(bytes_of("more"), 5s);
    EXPECT_EQ(outcome(refused), "closed");
    const std::string text = co_await read_text(pair.server, 100);
    EXPECT_EQ(text, "last words");
    const auto end = co_await pair.server.read(5s);
    EXPECT_EQ(outcome(end), "end_of_file");
    const auto again = co_await pair.server.read(5s);
    EXPECT_EQ(outcome(again), "end_of_file");
    CO_ASSERT_TRUE(co_await pair.server.write(bytes_of("reply"), 5s));
    pair.server.close();
    const std::string reply = co_await read_text(pair.client, 100);
    EXPECT_EQ(reply, "reply");
    const auto closed = co_await pair.client.read(5s);
    EXPECT_EQ(outcome(closed), "end_of_file");
  });
}

TEST_P(StreamSuite, CloseSendsWhatWasAcceptedThenFin) {
  const std::vector<std::byte> data = pattern(100'000, seed());
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.server.write(data, 5s));
    pair.server.close();
    const auto read = co_await pair.server.read(1s);
    EXPECT_EQ(outcome(read), "closed");
    const auto written = co_await pair.server.write(data, 1s);
    EXPECT_EQ(outcome(written), "closed");
    std::size_t size = 0;
    EXPECT_EQ(co_await read_to_end(pair.client, size), StreamError::end_of_file);
    EXPECT_EQ(size, data.size());
  });
}

// A segment that meets a closed socket provokes a reset, which destroys what the peer has not read
// yet.
TEST_P(StreamSuite, WhatComesAfterCloseDoesNotDestroyWhatWasSent) {
  const std::vector<std::byte> data = pattern(100'000, seed());
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    CO_ASSERT_TRUE(co_await pair.server.write(data, 5s));
    pair.server = Stream();
    for (int i = 0; i < 20; ++i) {
      CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("late"), 5s));
      co_await yield();
    }
    std::size_t size = 0;
    EXPECT_EQ(co_await read_to_end(pair.client, size), StreamError::end_of_file);
    EXPECT_EQ(size, data.size());
  });
}

/// What the client sees when the server, which has or hasn't read "unread", does `end`.
template <class End>
Task<StreamError> seen_after(Task<StreamPair> connecting, bool unread, End end) {
  StreamPair pair = co_await std::move(connecting);
  if (unread) {
    const auto written = co_await pair.client.write(bytes_of("unread"), 5s);
    EXPECT_EQ(outcome(written), "ok");
    co_await sleep_for(5ms);
  }
  end(pair.server);
  const auto read = co_await pair.client.read(5s);
  EXPECT_FALSE(read.has_value());
  co_return read ? StreamError::io_error : read.error();
}

TEST_P(StreamSuite, EachWayToEndIsSeenAsItShould) {
  const auto close = [](Stream& stream) { stream.close(); };
  const auto destroy = [](Stream& stream) { stream = Stream(); };
  const auto abort = [](Stream& stream) { stream.abort(); };
  run([&, this]() -> Task<> {
    EXPECT_EQ(co_await seen_after(connected(), false, close), StreamError::end_of_file);
    EXPECT_EQ(co_await seen_after(connected(), true, close), StreamError::reset);
    EXPECT_EQ(co_await seen_after(connected(), false, destroy), StreamError::end_of_file);
    EXPECT_EQ(co_await seen_after(connected(), true, destroy), StreamError::reset);
    EXPECT_EQ(co_await seen_after(connected(), false, abort), StreamError::reset);
    EXPECT_EQ(co_await seen_after(connected(), true, abort), StreamError::reset);
  });
}

TEST_P(StreamSuite, AResetEndsReadsAndWrites) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    pair.client.abort();
    const auto read = co_await pair.server.read(5s);
    EXPECT_EQ(outcome(read), "reset");
    const auto again = co_await pair.server.read(5s);
    EXPECT_EQ(outcome(again), "reset");
    const auto written = co_await pair.server.write(bytes_of("x"), 5s);
    EXPECT_EQ(outcome(written), "reset");
  });
  EXPECT_EQ(stats().resets_received, 1U);
}

TEST_P(StreamSuite, CloseAndAbortEndThePendingRead) {
  for (const bool abort : {false, true}) {
    std::string pending;
    run([&, this]() -> Task<> {
      StreamPair pair = co_await connected();
      auto wait = [&pending](Stream& stream) -> Task<> {
        const auto read = co_await stream.read();
        pending = outcome(read);
      };
      TaskHandle waiter = loop().spawn(wait(pair.server));
      co_await yield();
      co_await yield();
      if (abort) {
        pair.server.abort();
      } else {
        pair.server.close();
      }
      for (int i = 0; i < 5; ++i) co_await yield();
      EXPECT_TRUE(waiter.done());
    });
    EXPECT_EQ(pending, "closed");
  }
}

TEST_P(StreamSuite, CloseWaitsForTheWriteOfAnotherTask) {
  const std::vector<std::byte> data = pattern(8'000'000, seed());
  run([&, this]() -> Task<> {
    StreamPair pair = co_await connected();
    auto send = [&data](Stream& stream) -> Task<> {
      const auto written = co_await stream.write(data, 10s);
      EXPECT_EQ(outcome(written), "ok");
    };
    TaskHandle sender = loop().spawn(send(pair.server));
    co_await yield();
    co_await yield();
    EXPECT_FALSE(sender.done());
    pair.server.close();
    std::size_t size = 0;
    EXPECT_EQ(co_await read_to_end(pair.client, size), StreamError::end_of_file);
    EXPECT_EQ(size, data.size());
    EXPECT_TRUE(sender.done());
  });
}

TEST_P(StreamSuite, WritingNothingSucceeds) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    const auto written = co_await pair.client.write(std::span<const std::byte>(), 1s);
    EXPECT_EQ(outcome(written), "ok");
    pair.client.shutdown_write();
    const auto after = co_await pair.client.write(std::span<const std::byte>(), 1s);
    EXPECT_EQ(outcome(after), "closed");
  });
}

TEST_P(StreamSuite, AHandleOfNothingAnswersClosed) {
  run([]() -> Task<> {
    Stream nothing;
    EXPECT_FALSE(static_cast<bool>(nothing));
    const auto read = co_await nothing.read(1s);
    EXPECT_EQ(outcome(read), "closed");
    const auto written = co_await nothing.write(bytes_of("x"), 1s);
    EXPECT_EQ(outcome(written), "closed");
    nothing.close();
    nothing.abort();
    nothing.set_keepalive({});
    EXPECT_EQ(nothing.peer(), Endpoint{});
  });
}

TEST_P(StreamSuite, BothEndsNameTheSameAddresses) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    EXPECT_EQ(pair.client.peer(), endpoint());
    EXPECT_EQ(pair.server.local(), endpoint());
    EXPECT_EQ(pair.client.local(), pair.server.peer());
    EXPECT_NE(pair.client.local().port, 0);
  });
}

TEST_P(StreamSuite, AClosedListenerRefusesAndAnswersClosed) {
  run([this]() -> Task<> {
    std::string pending;
    auto wait = [&pending](Listener& listener) -> Task<> {
      const auto accepted = co_await listener.accept();
      pending = outcome(accepted);
    };
    loop().spawn(wait(listener()));
    co_await yield();
    co_await yield();
    const Endpoint peer = endpoint();
    listener().close();
    co_await yield();
    co_await yield();
    EXPECT_EQ(pending, "closed");
    const auto accepted = co_await listener().accept();
    EXPECT_EQ(outcome(accepted), "closed");
    const auto stream = co_await client_transport().connect(peer, 5s);
    EXPECT_EQ(outcome(stream), "refused");
  });
}

TEST_P(StreamSuite, CountsWhatHappens) {
  run([this]() -> Task<> {
    StreamPair pair = co_await connected();
    const TransportStats open = stats();
    EXPECT_EQ(open.open, 2U);
    EXPECT_EQ(open.accepted, 1U);
    EXPECT_EQ(open.connected, 1U);
    CO_ASSERT_TRUE(co_await pair.client.write(bytes_of("12345"), 5s));
    const std::string text = co_await read_text(pair.server, 5);
    EXPECT_EQ(text, "12345");
    EXPECT_EQ(stats().bytes_in, 5U);
    EXPECT_EQ(stats().bytes_out, 5U);
    pair = StreamPair();
    EXPECT_EQ(stats().open, 0U);
  });
  EXPECT_TRUE(turn_until([this] { return stats().closing == 0; }));
}

TEST_P(StreamSuite, ASecondReadStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_twice = [this] {
    run([this]() -> Task<> {
      StreamPair pair = co_await connected();
      auto wait = [](Stream& stream) -> Task<> { (void)co_await stream.read(); };
      loop().spawn(wait(pair.server));
      loop().spawn(wait(pair.server));
      co_await sleep_for(1s);
    });
  };
  EXPECT_DEATH(read_twice(), "read_ == nullptr");
}

INSTANTIATE_TEST_SUITE_P(Every, StreamSuite, testing::ValuesIn(stream_worlds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace pinion::test

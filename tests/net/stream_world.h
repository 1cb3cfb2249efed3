#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/loop.h>
#include <pinion/net/transport.h>
#include <pinion/test/seed.h>

/// What the stream suite needs, whichever transport it runs over: a loop, a transport on it, an
/// endpoint of it to listen on, and a transport to connect from, which may be the same one. Another
/// transport joins the suite with one more StreamWorldKind.

namespace pinion::test {

class StreamWorld {
 public:
  StreamWorld() = default;
  StreamWorld(const StreamWorld&) = delete;
  StreamWorld& operator=(const StreamWorld&) = delete;
  virtual ~StreamWorld() = default;

  virtual Loop& loop() = 0;
  virtual Transport& transport() = 0;
  virtual Transport& client_transport() { return transport(); }
  virtual Endpoint any_port() = 0;

  /// Ends the transports, before the loop and what its tasks hold.
  virtual void end_transport() = 0;
};

struct StreamWorldKind {
  const char* name;
  std::unique_ptr<StreamWorld> (*make)();
  std::uint64_t divisor = 1;  ///< Of the rounds that the random cases take.

  friend void PrintTo(const StreamWorldKind& kind, std::ostream* out) { *out << kind.name; }
};

/// The transports that this program was built with.
std::vector<StreamWorldKind> stream_worlds();

/// Both ends of one connection.
struct StreamPair {
  Stream client;
  Stream server;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Bytes that are a function of the seed and their place, so that a lost, doubled or swapped one
/// shows.
std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed);

class StreamSuite : public testing::TestWithParam<StreamWorldKind> {
 protected:
  void SetUp() override;

  Loop& loop() { return world_->loop(); }
  Transport& transport() { return world_->transport(); }
  Transport& client_transport() { return world_->client_transport(); }
  /// Of both ends.
  TransportStats stats() const;
  Endpoint endpoint() const { return listener_.local(); }
  Listener& listener() { return listener_; }
  StreamWorld& world() { return *world_; }
  [[nodiscard]] static std::uint64_t rounds(std::uint64_t base) {
    return scaled(base) / GetParam().divisor;
  }

  /// Runs the coroutine that `body()` makes, and fails when it isn't done in time.
  template <class Body>
  void run(Body body, std::chrono::seconds bound = std::chrono::seconds{20}) {
    TaskHandle task = loop().spawn(body(), "test body");
    ASSERT_TRUE(static_cast<bool>(task));
    const bool done = loop().run_until([&task] { return task.done(); }, bound);
    EXPECT_TRUE(done) << "the test's task hangs";
    if (!done) task.cancel();
  }

  /// Turns until `done()`.
  template <class Predicate>
  bool turn_until(Predicate done, std::chrono::seconds bound = std::chrono::seconds{20}) {
    return loop().run_until(std::move(done), bound);
  }

  /// A connection of the two transports.
  Task<StreamPair> connected();

 private:
  std::unique_ptr<StreamWorld> world_;
  Listener listener_;
};

/// Reads `size` bytes, or fewer when the stream ends before.
Task<std::string> read_text(Stream& stream, std::size_t size);

/// Reads to the end; `size` counts the bytes, the result says how it ended.
Task<StreamError> read_to_end(Stream& stream, std::size_t& size);

/// The error of an operation, or nothing.
template <class T>
std::string outcome(const StreamResult<T>& result) {
  return result ? std::string("ok") : std::string(to_string(result.error()));
}

}  // namespace pinion::test

/// gtest's fatal assertions return; a coroutine must co_return.
#define CO_ASSERT_TRUE(condition)                              \
  do {                                                         \
    const bool co_assert_holds = static_cast<bool>(condition); \
    EXPECT_TRUE(co_assert_holds) << #condition;                \
    if (!co_assert_holds) co_return;                           \
  } while (false)

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "kernel_world.h"
#include "plain_socket.h"

// A descriptor's number is used again as soon as it is free. Completions of the connection that had
// it before must not meet the one that has it now.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

/// Reads `text`, whose letters no other connection sends at that time.
Task<> expect_text(Stream& stream, const std::string& text) {
  const std::string received = co_await read_text(stream, text.size());
  EXPECT_EQ(received, text);
}

class KernelReuse : public testing::Test {
 protected:
  void SetUp() override {
    auto listening = world.transport().listen(world.any_port());
    ASSERT_TRUE(listening.has_value());
    listener = std::move(*listening);
  }

  void run(Task<> task) {
    TaskHandle handle = world.loop().spawn(std::move(task));
    ASSERT_TRUE(world.loop().run_until([&handle] { return handle.done(); }, 20s));
  }

  /// A connection that receives, and its peer.
  std::pair<Stream, PlainSocket> open() {
    std::pair<Stream, PlainSocket> both;
    both.second = PlainSocket::connect_to(listener.local().port);
    run([](Listener& from, Stream& to) -> Task<> {
      auto accepted = co_await from.accept();
      CO_ASSERT_TRUE(accepted);
      to = std::move(*accepted);
      (void)co_await to.read(0s);  // Its receive is armed.
    }(listener, both.first));
    return both;
  }

  KernelWorld world;
  Listener listener;
};

TEST_F(KernelReuse, ADescriptorUsedAgainMeetsNoCompletionOfItsFormerConnection) {
  Random random(seed());
  std::vector<std::pair<Stream, PlainSocket>> open_now;
  for (int i = 0; i < 8; ++i) open_now.push_back(open());
  const std::uint64_t steps = scaled(2000);
  for (std::uint64_t step = 0; step < steps; ++step) {
    auto& [stream, peer] = open_now[random.below(open_now.size())];
    // Bytes that lie in the socket, or in a completion that nobody has looked at.
    ASSERT_TRUE(peer.send(std::string(1 + random.below(5000), 'o')));
    if (random.chance(0.5)) world.loop().turn();
    switch (random.below(4)) {
      case 0:
        stream.close();
        break;
      case 1:
        stream.abort();
        break;
      case 2:
        peer.reset();
        break;
      default:
        break;
    }
    stream = Stream();
    if (random.chance(0.5)) peer.close();
    // The next one takes the number, while the last completions may still be on their way.
    std::tie(stream, peer) = open();
    const std::string text(1 + random.below(5000), 'n');
    ASSERT_TRUE(peer.send(text));
    run(expect_text(stream, text));
    if (HasFailure()) break;
  }
}

// The numbers are really used again: with as few as possible, all connections share them.
TEST_F(KernelReuse, NumbersComeBack) {
  std::set<int> peers;
  for (int i = 0; i < 100; ++i) {
    auto [stream, peer] = open();
    peers.insert(peer.fd());
    stream.abort();
    stream = Stream();
    for (int turn = 0; turn < 3; ++turn) world.loop().turn();
  }
  EXPECT_LT(peers.size(), 10U);
}

}  // namespace
}  // namespace pinion::test

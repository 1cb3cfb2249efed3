#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernel/kernel_core.h"
#include "kernel_world.h"
#include "plain_socket.h"

// The line for receive buffers, from inside: what some kernels put into it can't be had otherwise.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kBuffers = 8;

/// A core of its own, without a transport around it.
class Core {
 public:
  Core() {
    world_.end_transport();  // Only its loop is used.
    KernelOptions options;
    options.buffer_count = kBuffers;
    options.buffer_size = 4096;
    core_ = or_abort(detail::KernelCore::create(world_.loop(), options));
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { core_->shut_down(); }

  detail::KernelCore* operator->() { return core_; }
  Loop& loop() { return world_.loop(); }

 private:
  KernelWorld world_;
  detail::KernelCore* core_ = nullptr;
};

/// A stream of the core, and its peer's socket.
std::pair<detail::KernelConnection*, PlainSocket> connect_to(Core& core) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {core->adopt(ends[0]), PlainSocket(ends[1])};
}

/// Reads and keeps until no receive buffer is left.
Task<> keep_all(Core& core, Stream& stream, std::vector<Chunk>& chunks) {
  while (core->stats().buffers_free != 0) {
    auto chunk = co_await stream.read(5s);
    CO_ASSERT_TRUE(chunk);
    chunks.push_back(std::move(*chunk));
  }
}

Task<> read_once(Stream& stream, std::string& ending) {
  const auto chunk = co_await stream.read(5s);
  ending = outcome(chunk);
}

// A kernel of the 6.1 series picks a buffer before it looks whether there is something to receive.
// So connections that have nothing come into the line, and must not keep the places of others.
TEST(KernelLine, ConnectionsWithoutBytesLeaveItWithoutATrace) {
  Core core;
  std::vector<PlainSocket> peers;
  std::vector<Stream> idle;
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    auto [connection, peer] = connect_to(core);
    ASSERT_NE(connection, nullptr);
    idle.push_back(connection->hand_out());
    peers.push_back(std::move(peer));
    core->starve(*connection, false);
  }
  core.loop().turn();

  // All buffers are kept, so that the next one who asks really stands in line.
  auto [greedy, flood] = connect_to(core);
  auto [patient, asker] = connect_to(core);
  Stream first = greedy->hand_out();
  Stream second = patient->hand_out();
  std::vector<Chunk> kept;
  ASSERT_TRUE(flood.send(std::string(std::size_t{2} * kBuffers * 4096, 'x')));
  TaskHandle keeping = core.loop().spawn(keep_all(core, first, kept));
  ASSERT_TRUE(core.loop().run_until([&] { return keeping.done(); }, 5s));
  ASSERT_EQ(core->stats().buffers_free, 0U);
  std::string ending;
  ASSERT_TRUE(asker.send("x"));
  TaskHandle asking = core.loop().spawn(read_once(second, ending));
  const auto starved = [&] { return core->stats().receive_starved > 0; };
  ASSERT_TRUE(core.loop().run_until(starved, 5s));
  EXPECT_EQ(ending, "");
  first.abort();
  kept.clear();
  EXPECT_TRUE(core.loop().run_until([&] { return asking.done(); }, 10s));
  EXPECT_EQ(ending, "ok");
}

}  // namespace
}  // namespace pinion::test

#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

// Who asked first is served first, however the buffers come back.
TEST(KernelLine, BuffersGoToWhoHasWaitedLongest) {
  constexpr std::size_t kWaiting = 6;
  Core core;
  auto [greedy, flood] = connect_to(core);
  Stream hoard = greedy->hand_out();
  std::vector<Chunk> kept;
  ASSERT_TRUE(flood.send(std::string(std::size_t{2} * kBuffers * 4096, 'x')));
  TaskHandle keeping = core.loop().spawn(keep_all(core, hoard, kept));
  ASSERT_TRUE(core.loop().run_until([&] { return keeping.done(); }, 5s));
  ASSERT_EQ(core->stats().buffers_free, 0U);

  std::vector<PlainSocket> peers;
  std::vector<Stream> streams;
  std::vector<TaskHandle> asking;
  std::vector<std::size_t> served;
  std::vector<Chunk> taken;
  const auto ask = [&](std::size_t number) -> Task<> {
    auto chunk = co_await streams[number].read(5s);
    CO_ASSERT_TRUE(chunk);
    served.push_back(number);
    taken.push_back(std::move(*chunk));
  };
  streams.reserve(kWaiting);
  for (std::size_t i = 0; i < kWaiting; ++i) {
    auto [connection, peer] = connect_to(core);
    streams.push_back(connection->hand_out());
    peers.push_back(std::move(peer));
    ASSERT_TRUE(peers.back().send(std::string(4096, 'y')));  // Too large for a small spare buffer.
    asking.push_back(core.loop().spawn(ask(i)));
    const std::uint64_t before = core->stats().receive_starved;
    const auto in_line = [&] { return core->stats().receive_starved > before; };
    ASSERT_TRUE(core.loop().run_until(in_line, 5s));
  }
  const std::uint64_t starved = core->stats().receive_starved;
  // One by one, then all the rest at once.
  for (std::size_t i = 0; i < kWaiting / 2; ++i) {
    while (core->stats().buffers_free == 0) kept.pop_back();  // Some lie in spare buffers.
    ASSERT_TRUE(core.loop().run_until([&] { return served.size() > i; }, 5s));
  }
  hoard.abort();
  kept.clear();
  EXPECT_TRUE(core.loop().run_until([&] { return served.size() == kWaiting; }, 5s));
  // Of receives that are sent together, some kernels (6.1) tell out of order.
  std::sort(served.begin() + kWaiting / 2, served.end());
  EXPECT_EQ(served, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  // None was sent for a buffer that another one had.
  EXPECT_EQ(core->stats().receive_starved, starved);
}

/// An operation of its own, beside those of connections.
struct Plain : Completion {
  Plain() : Completion(&on_done) {}
  static void on_done(Completion& self, std::int32_t result, std::uint32_t) noexcept {
    static_cast<Plain&>(self).result = result;
  }
  std::int32_t result = 1;
};

TEST(KernelLine, AWithdrawnOperationLeavesItsMemoryAlone) {
  for (const bool submitted : {false, true}) {
    Core core;
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    PlainSocket near(ends[0]);
    PlainSocket far(ends[1]);
    std::string memory(16, '-');
    Plain receive;
    io_uring_prep_recv(&core.loop().ring().get_sqe(receive), near.fd(), memory.data(),
                       memory.size(), 0);
    if (submitted) core.loop().ring().submit();
    core->withdraw(receive);
    ASSERT_TRUE(far.send("late"));
    EXPECT_TRUE(core.loop().run_until([&] { return receive.in_flight() == 0; }, 5s));
    EXPECT_EQ(receive.result, -ECANCELED);
    EXPECT_EQ(memory, std::string(16, '-'));
    EXPECT_EQ(near.receive(4), "late");
  }
}

/// From now on the kernel refuses to take operations, as it does without memory.
void refuse_submissions() {
  std::array<sock_filter, 4> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(2);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(3);
}

// An operation that stays queued would be read by the kernel later, from memory that is gone.
TEST(KernelLineDeathTest, WhatCannotBeWithdrawnStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto withdraw_in_vain = [] {
    Core core;
    Plain nop;
    io_uring_prep_nop(&core.loop().ring().get_sqe(nop));
    refuse_submissions();
    core->withdraw(nop);
    _exit(0);
  };
  EXPECT_DEATH(withdraw_in_vain(), "handed_over");
}

}  // namespace
}  // namespace pinion::test

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>

#include <pinion/eventloop/loop.h>

#include "loop_fixture.h"

// Descriptors that end no sleep but by their errors, and their end.

namespace pinion {
namespace {

using namespace std::chrono_literals;

/// Waits for a descriptor and never has work.
struct Waiting : Poller {
  std::size_t poll(Instant, std::size_t) override { return 0; }
  ParkAnswer prepare_park() override { return ParkAnswer::wait_for(fd); }
  void on_wait_error() override {
    ++told;
    int error = 0;
    socklen_t size = sizeof(error);
    if (mends) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (leaves != nullptr) leaves->remove_poller(*this);
  }

  int fd = -1;
  int told = 0;
  bool mends = false;
  Loop* leaves = nullptr;
};

class WaitError : public ::testing::Test {
 protected:
  static LoopOptions options() {
    LoopOptions result;
    result.idle = IdlePolicy::park;
    return result;
  }
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    poller.fd = pair[0];
    loop->add_poller(poller);
  }
  void TearDown() override {
    loop->remove_poller(poller);
    for (const int fd : pair) close(fd);
  }
  void run_for(Delay duration) {
    loop->run_until([] { return false; }, duration);
  }
  /// Whether it comes true. Of a loop that sleeps, nothing but the end of a run looks.
  template <class Condition>
  bool comes_true(Condition condition) {
    const Instant bound = loop->fresh_now() + 10s;
    while (!condition() && loop->fresh_now() < bound) run_for(5ms);
    return condition();
  }
  /// More than dozes of doze_max need, fewer than a loop that spins makes in any time.
  static constexpr std::uint64_t kManySleeps = 1000;

  MonotonicTime time;
  std::unique_ptr<Loop> loop = test::make_loop(time, options());
  Waiting poller;
  std::array<int, 2> pair{};
};

TEST_F(WaitError, OfAPeerThatHungUpKeepsTheLoopFromSpinning) {
  close(pair[1]);
  pair[1] = -1;
  run_for(250ms);
  EXPECT_LT(loop->stats().parks + loop->stats().failed_parks, kManySleeps);
  EXPECT_GE(loop->stats().dozes, 1U);
  EXPECT_GE(poller.told, 1);
}

TEST_F(WaitError, OfADescriptorThatIsNoneKeepsTheLoopFromSpinning) {
  poller.fd = 1'000'000;
  run_for(250ms);
  EXPECT_LT(loop->stats().parks + loop->stats().failed_parks, kManySleeps);
  EXPECT_GE(poller.told, 1);
}

/// A socket whose datagram nobody took: the answer is an error that waits in it.
int refused_socket() {
  const int nobody = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(nobody, plain, size), 0);
  EXPECT_EQ(getsockname(nobody, plain, &size), 0);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, plain, size), 0);
  close(nobody);
  EXPECT_EQ(send(fd, "?", 1, 0), 1);
  return fd;
}

TEST_F(WaitError, ThatIsMendedEndsTheDozes) {
  close(pair[0]);
  poller.fd = pair[0] = refused_socket();
  poller.mends = true;
  // Its own poll and the doorbell's.
  EXPECT_TRUE(comes_true([this] { return poller.told > 0 && loop->ring().in_flight() == 2; }));
  const std::uint64_t dozes = loop->stats().dozes;
  EXPECT_GE(dozes, 1U);
  run_for(20ms);
  EXPECT_EQ(loop->stats().dozes, dozes);
  EXPECT_EQ(poller.told, 1);
}

TEST_F(WaitError, MayMakeThePollerLeave) {
  poller.leaves = loop.get();
  close(pair[1]);
  pair[1] = -1;
  EXPECT_TRUE(comes_true([this] { return poller.told > 0; }));
  run_for(5ms);
  EXPECT_EQ(poller.told, 1);
}

TEST_F(WaitError, IsOfNobodyWhoTakesTheSlotLater) {
  close(pair[1]);
  pair[1] = -1;
  EXPECT_TRUE(comes_true([this] { return poller.told > 0; }));
  loop->remove_poller(poller);
  std::array<int, 2> others{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others.data()), 0);
  close(pair[0]);
  ASSERT_EQ(dup2(others[0], pair[0]), pair[0]) << "the same number";
  Waiting other;
  other.fd = pair[0];
  loop->add_poller(other);
  const std::uint64_t dozes = loop->stats().dozes;
  run_for(20ms);
  EXPECT_EQ(loop->stats().dozes, dozes);
  EXPECT_EQ(other.told, 0);
  loop->remove_poller(other);
  for (const int fd : others) close(fd);
}

TEST_F(WaitError, APollerThatLeavesTakesItsDescriptorAlong) {
  EXPECT_TRUE(comes_true([this] { return loop->ring().in_flight() == 2; }));
  loop->remove_poller(poller);
  close(pair[0]);
  pair[0] = -1;
  EXPECT_EQ(send(pair[1], "?", 1, MSG_NOSIGNAL), -1) << "the kernel holds the other end";
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace pinion

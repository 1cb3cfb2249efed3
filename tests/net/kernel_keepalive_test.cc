#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "kernel_world.h"

// Keepalive against a peer that disappears: two namespaces joined by a veth pair, whose far end
// goes down.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Two namespaces that see each other, until it dies.
class Wire {
 public:
  Wire() {
    made_ = shell("ip netns add " + near_) && shell("ip netns add " + far_) &&
            shell("ip -n " + near_ + " link add w0 type veth peer name w1 netns " + far_) &&
            shell("ip -n " + near_ + " address add 10.99.0.1/24 dev w0") &&
            shell("ip -n " + far_ + " address add 10.99.0.2/24 dev w1") &&
            shell("ip -n " + near_ + " link set w0 up") &&
            shell("ip -n " + far_ + " link set w1 up");
  }
  ~Wire() {
    shell("ip netns delete " + near_);
    shell("ip netns delete " + far_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  [[nodiscard]] bool made() const { return made_; }

  /// Drops what the far side would answer; the near side's link stays up.
  [[nodiscard]] bool cut() { return shell("ip -n " + far_ + " address flush dev w1"); }

  /// Moves the calling thread to a namespace.
  [[nodiscard]] bool enter_near() const { return enter(near_); }
  [[nodiscard]] bool enter_far() const { return enter(far_); }

 private:
  static bool enter(const std::string& name) {
    const int fd = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    const bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) close(fd);
    return entered;
  }

  const std::string near_ = "pinion-near-" + std::to_string(getpid());
  const std::string far_ = "pinion-far-" + std::to_string(getpid());
  bool made_ = false;
};

/// A connection from the near side, with keepalive, to a listener on the far side that only holds
/// it.
struct Observed {
  std::string ending;
  std::chrono::milliseconds after_cut{};
  TransportStats stats;
};

Observed observe(Wire& wire, const Keepalive& keepalive, Delay read_timeout, bool unacknowledged) {
  Observed observed;
  KernelWorld world;
  const auto body = [&]() -> Task<> {
    auto stream = co_await world.transport().connect(*Endpoint::parse("10.99.0.2:7007"), 5s);
    EXPECT_EQ(outcome(stream), "ok");
    CO_ASSERT_TRUE(stream);
    stream->set_keepalive(keepalive);
    EXPECT_TRUE(wire.cut());
    const auto start = Clock::now();
    if (unacknowledged) {
      const auto written = co_await stream->write(bytes_of("into the void"), 1s);
      EXPECT_EQ(outcome(written), "ok");
    }
    const auto read = co_await stream->read(read_timeout);
    observed.ending = outcome(read);
    observed.after_cut =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    const auto written = co_await stream->write(bytes_of("x"), 1s);
    EXPECT_EQ(outcome(written),
              observed.ending == "keepalive_timeout" ? "keepalive_timeout" : "ok");
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&task] { return task.done(); }, 30s));
  observed.stats = world.transport().stats();
  return observed;
}

/// Runs `observe` with both namespaces; an empty result when there are none.
Observed with_wire(const Keepalive& keepalive, Delay read_timeout, bool unacknowledged) {
  Wire wire;
  Observed observed;
  if (!wire.made()) return observed;
  std::atomic<bool> listening = false;
  std::atomic<bool> finished = false;
  std::thread far([&] {
    if (!wire.enter_far()) return;
    KernelWorld world;
    auto listener = world.transport().listen(*Endpoint::parse("10.99.0.2:7007"));
    if (!listener) return;
    Stream held;
    const auto hold = [&]() -> Task<> {
      auto stream = co_await listener->accept();
      if (stream) held = std::move(*stream);
    };
    world.loop().spawn(hold());
    listening = true;
    while (!finished) world.loop().run_until([&finished] { return finished.load(); }, 10ms);
  });
  for (int i = 0; i < 500 && !listening; ++i) std::this_thread::sleep_for(10ms);
  std::thread near([&] {
    if (listening && wire.enter_near())
      observed = observe(wire, keepalive, read_timeout, unacknowledged);
  });
  near.join();
  finished = true;
  far.join();
  return observed;
}

TEST(KernelKeepalive, APeerThatIsGoneIsResetAfterItsProbes) {
  const Observed observed = with_wire({.idle = 1s, .interval = 300ms, .probes = 3}, 20s, false);
  if (observed.ending.empty()) GTEST_SKIP() << "no network namespaces (not root?)";
  EXPECT_EQ(observed.ending, "keepalive_timeout");
  // At idle + probes * interval after the last segment, which came just before the cut.
  EXPECT_GE(observed.after_cut, 1700ms);
  EXPECT_LE(observed.after_cut, 4s);
  EXPECT_EQ(observed.stats.keepalive_probes, 3U);
  EXPECT_EQ(observed.stats.keepalive_timeouts, 1U);
}

TEST(KernelKeepalive, UnacknowledgedDataDoesNotHideThatThePeerIsGone) {
  const Observed observed = with_wire({.idle = 1s, .interval = 300ms, .probes = 2}, 20s, true);
  if (observed.ending.empty()) GTEST_SKIP() << "no network namespaces (not root?)";
  EXPECT_EQ(observed.ending, "keepalive_timeout");
  EXPECT_LE(observed.after_cut, 4s);
}

TEST(KernelKeepalive, WithoutItTheReadTimeoutDecides) {
  const Observed observed = with_wire({}, 2500ms, false);
  if (observed.ending.empty()) GTEST_SKIP() << "no network namespaces (not root?)";
  EXPECT_EQ(observed.ending, "read_timeout");
  EXPECT_EQ(observed.stats.keepalive_probes, 0U);
}

}  // namespace
}  // namespace pinion::test

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "echo_cases.h"
#include "echo_load.h"
#include "echo_subjects.h"
#include "echo_targets.h"

/// Whether the load of the echo bench notices what a server does wrong, and whether the bench's
/// verdicts point the right way.

namespace pinion::bench {
namespace {

using namespace std::chrono_literals;

/// What the server does with what it received; false ends the connection.
using Treatment = std::function<bool(std::vector<char>&)>;

/// A slow, obvious server on a thread of its own.
class PlainServer {
 public:
  explicit PlainServer(Treatment treat) : treat_(std::move(treat)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 128), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~PlainServer() {
    stop_ = true;
    thread_.join();
    for (const pollfd& one : sockets_) ::close(one.fd);
  }
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void serve() {
    sockets_.push_back({listener_, POLLIN, 0});
    while (!stop_) {
      if (::poll(sockets_.data(), sockets_.size(), 1) <= 0) continue;
      for (std::size_t i = sockets_.size(); i-- > 1;) {
        if (sockets_[i].revents != 0) echo(i);
      }
      if (sockets_[0].revents == 0) continue;
      sockets_.push_back({::accept(listener_, nullptr, nullptr), POLLIN, 0});
    }
  }

  void echo(std::size_t i) {
    std::vector<char> bytes(4096);
    const ssize_t got = ::recv(sockets_[i].fd, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0 && treat_(bytes)) {
      ::send(sockets_[i].fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      return;
    }
    ::close(sockets_[i].fd);
    sockets_.erase(sockets_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  Treatment treat_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::vector<pollfd> sockets_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

constexpr LoadWindow kShort = {.warm_up = 1ms, .length = 30ms};

/// What a closed loop of a few connections says of a server.
LoadFigures load_closed(std::size_t size, const Treatment& treat) {
  PlainServer server(treat);
  EchoLoad load;
  EXPECT_EQ(load.connect(server.port(), 5), "");
  std::int64_t cpu = 0;
  return load.run_closed(size, kShort, [&cpu] { return cpu += 70; });
}

/// Changes the reply that brings the count of bytes over 200, once.
Treatment once(std::function<void(std::vector<char>&)> change) {
  return
      [change = std::move(change), bytes_seen = std::size_t{0}](std::vector<char>& bytes) mutable {
        const bool before = bytes_seen <= 200;
        bytes_seen += bytes.size();
        if (before && bytes_seen > 200) change(bytes);
        return true;
      };
}

/// On a busy machine a window may pass without a reply, but not one after the other.
TEST(EchoLoadTest, CountsRepliesAndWhatTheServerUsedMeanwhile) {
  LoadFigures figures;
  for (int i = 0; i < 100 && figures.replies == 0; ++i) {
    figures = load_closed(64, [](std::vector<char>&) { return true; });
    ASSERT_EQ(figures.error, "");
    EXPECT_GE(figures.seconds, 0.03);
    EXPECT_EQ(figures.server_cpu_ns, 70);
    EXPECT_EQ(complaint(figures).empty(), figures.replies > 0);
  }
  EXPECT_GT(figures.replies, 0);
}

TEST(EchoLoadTest, PutsRepliesTogetherFromPieces) {
  PlainServer server([](std::vector<char>&) { return true; });
  EchoLoad load;
  ASSERT_EQ(load.connect(server.port(), 3), "");
  for (const std::size_t size : {1'024U, 1U, 64U, 4'096U}) {
    EXPECT_EQ(load.run_on_each(size), "") << size;
    EXPECT_EQ(load.run_closed(size, kShort, [] { return 0; }).error, "") << size;
  }
}

TEST(EchoLoadTest, RunsOnEachConnectionOnce) {
  std::atomic<std::size_t> bytes_seen = 0;
  PlainServer server([&](std::vector<char>& bytes) { return (bytes_seen += bytes.size()) > 0; });
  EchoLoad load;
  ASSERT_EQ(load.connect(server.port(), 7), "");
  EXPECT_EQ(load.run_on_each(100), "");
  EXPECT_EQ(bytes_seen, 700U);
}

TEST(EchoLoadTest, NoticesAWrongByte) {
  const auto flip = once([](std::vector<char>& bytes) { bytes.back() ^= 1; });
  EXPECT_EQ(load_closed(64, flip).error, "the server sent a byte that is not the one it was sent");
}

TEST(EchoLoadTest, NoticesALostByte) {
  // The next reply fills the place of the byte, and does not fit.
  const auto lose = once([](std::vector<char>& bytes) {
    bytes.erase(bytes.begin());
    bytes.push_back(0);
  });
  EXPECT_NE(load_closed(64, lose).error, "");
}

TEST(EchoLoadTest, NoticesADoubledByte) {
  const auto add = once([](std::vector<char>& bytes) { bytes.push_back(bytes.back()); });
  EXPECT_NE(load_closed(64, add).error, "");
}

TEST(EchoLoadTest, NoticesAClosedConnection) {
  const auto close = [](std::vector<char>&) { return false; };
  EXPECT_NE(load_closed(64, close).error, "");
}

TEST(EchoLoadTest, OpenLoopCountsFromWhenARequestWasDue) {
  PlainServer server([](std::vector<char>&) {
    std::this_thread::sleep_for(20ms);  // how slow this server is
    return true;
  });
  EchoLoad load;
  ASSERT_EQ(load.connect(server.port(), 1), "");
  const LoadFigures figures =
      load.run_open(64, 1'000, {.warm_up = 0ms, .length = 100ms}, 1, [] { return 0; });
  ASSERT_EQ(figures.error, "");
  // Those that became due while the server slept waited for that, and then as long again.
  ASSERT_GT(figures.latencies_ns.size(), 1);
  EXPECT_TRUE(std::ranges::is_sorted(figures.latencies_ns));
  EXPECT_GE(figures.latencies_ns.front(), 20e6);
  EXPECT_GT(figures.latencies_ns.back(), 21e6);
}

/// Replies within 400 ms that begin with a burst of 5 ms, after which the quiet rate holds.
std::uint64_t replies_after_a_burst(double quiet_rate) {
  PlainServer server([](std::vector<char>&) { return true; });
  EchoLoad load;
  EXPECT_EQ(load.connect(server.port(), 1), "");
  const LoadFigures figures = load.run_open(
      64, 20'000,
      {.warm_up = 0ms, .length = 400ms, .on = 5ms, .off = 10s, .quiet_rate = quiet_rate}, 1,
      [] { return 0; });
  EXPECT_EQ(figures.error, "");
  return figures.replies;
}

TEST(EchoLoadTest, BetweenBurstsTheOtherRateHolds) {
  EXPECT_LE(replies_after_a_burst(0), 300U) << "of 8000 without an end of the burst";
  const std::uint64_t replies = replies_after_a_burst(2'000);
  EXPECT_GE(replies, 50U);
  EXPECT_LE(replies, 2'000U);
}

TEST(EchoLoadTest, PercentileIsTheFigureBelowWhichTheShareLies) {
  std::vector<double> figures;
  for (int i = 0; i < 100; ++i) figures.push_back(i);
  EXPECT_EQ(percentile(figures, 0.5), 50);
  EXPECT_EQ(percentile(figures, 0.99), 99);
  EXPECT_EQ(percentile({7}, 0.99), 7);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

/// Every server that the bench knows, by name.
class EchoServerTest : public testing::TestWithParam<EchoSubject> {
 protected:
  void SetUp() override {
    if (!was_built(GetParam())) GTEST_SKIP() << "no " << GetParam().package;
    server = std::make_unique<EchoServer>(GetParam(), sched_getcpu());
    ASSERT_EQ(server->error(), "");
  }

  std::unique_ptr<EchoServer> server;
};

TEST_P(EchoServerTest, EchoesEveryByteAndIsSeenToWork) {
  EchoLoad load;
  ASSERT_EQ(load.connect(server->port(), 20), "");
  const std::int64_t used_before = server->cpu_ns();
  for (const std::size_t size : {64U, 1'024U, 4'096U}) {
    for (int i = 0; i < 20; ++i) ASSERT_EQ(load.run_on_each(size), "") << size;
  }
  EXPECT_GT(server->cpu_ns(), used_before);
}

/// The client reads nothing before it has sent what no socket buffer holds.
TEST_P(EchoServerTest, WaitsForASlowReader) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  std::vector<char> sent(24 << 20);
  std::mt19937 random(7);
  std::ranges::generate(sent, [&] { return static_cast<char>(random()); });
  std::vector<char> received;
  std::vector<char> piece(1 << 16);
  std::size_t done = 0;
  while (received.size() < sent.size()) {
    const ssize_t took = ::send(fd, sent.data() + done, sent.size() - done, MSG_DONTWAIT);
    if (took > 0) {
      done += static_cast<std::size_t>(took);
      continue;  // reads only when nothing goes out any more
    }
    const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
    ASSERT_GT(got, 0) << received.size();
    received.insert(received.end(), piece.begin(), piece.begin() + got);
  }
  EXPECT_TRUE(received == sent);
  ::close(fd);
}

std::vector<EchoSubject> all_subjects() {
  std::vector<EchoSubject> subjects = closed_subjects();
  for (const EchoSubject& subject : open_subjects()) {
    const auto same = [&](const EchoSubject& other) { return other.name == subject.name; };
    if (std::ranges::none_of(subjects, same)) subjects.push_back(subject);
  }
  return subjects;
}

INSTANTIATE_TEST_SUITE_P(All, EchoServerTest, testing::ValuesIn(all_subjects()),
                         [](const auto& one) { return one.param.name; });

TargetOutcome::State state_of(const Report& report, const std::string& case_name,
                              const std::string& words) {
  for (const TargetOutcome& outcome : check_echo_targets(report)) {
    const bool right = outcome.text.find(words) != std::string::npos;
    if (right && outcome.text.starts_with(case_name + " ")) return outcome.state;
  }
  ADD_FAILURE() << "no target says " << words;
  return TargetOutcome::State::not_measured;
}

TEST(EchoTargetsTest, BoundsPointTheRightWay) {
  Report report("echo", Machine{});
  const auto add = [&report](const std::string& subject, double value) {
    report.add_sample({"closed_64_64B", 64, "cpu_per_request", subject}, "us", value);
  };
  add("pinion", 2);
  add("raw_uring_bare", 1.8);
  add("raw_epoll", 3.1);
  add("asio_uring", 2.1);
  using State = TargetOutcome::State;
  EXPECT_EQ(state_of(report, "closed_64_64B", "1.05 x raw_uring_bare"), State::missed);
  EXPECT_EQ(state_of(report, "closed_64_64B", "raw_epoll       at least 1.50"), State::met);
  EXPECT_EQ(state_of(report, "closed_64_64B", "asio_uring      at least 1.10"), State::missed);
  EXPECT_EQ(state_of(report, "closed_64_64B", "libuv           at least"), State::not_measured);
  EXPECT_EQ(state_of(report, "closed_1_64B", "1.05 x raw_uring_bare"), State::not_measured);
}

TEST(EchoTargetsTest, NameCasesThatThereAre) {
  for (const ClosedCase& one : closed_cases()) {
    state_of(Report("echo", Machine{}), one.name, "1.05 x raw_uring_bare");
  }
  state_of(Report("echo", Machine{}), kOpenCase, "raw_uring_spin_bare");
}

}  // namespace
}  // namespace pinion::bench

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "echo_thread.h"
#include "kernel_world.h"

// What listen, connect and create say when they can't: each with its remedy.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

Endpoint loopback(std::uint16_t port) {
  return {IpAddress::v4({127, 0, 0, 1}), port};
}

/// A plain listening socket, as another process would have it.
class OtherListener {
 public:
  explicit OtherListener(bool reuse_port, int backlog = 16) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    if (reuse_port) setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, backlog);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~OtherListener() { close(fd_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

Error listen_error(const Endpoint& endpoint, const ListenOptions& options = {}) {
  KernelWorld world;
  const auto listener = world.transport().listen(endpoint, options);
  EXPECT_FALSE(listener.has_value()) << to_string(endpoint);
  return listener ? Error{} : listener.error();
}

/// Runs `body` in a child process, so that it may give up privileges; its result is the exit code.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(KernelListen, APortInUseNamesWhoShowsItsHolder) {
  const OtherListener other(false);
  const Error error = listen_error(loopback(other.port()));
  EXPECT_EQ(error.code, ErrorCode::already_exists);
  EXPECT_NE(error.what.find("in use"), std::string::npos) << error.what;
  EXPECT_NE(error.hint.find("ss -ltnp"), std::string::npos) << error.hint;
}

TEST(KernelListen, SharingIsNotWithOtherProcesses) {
  const OtherListener other(true);
  const Error error = listen_error(loopback(other.port()), {.share = true});
  EXPECT_EQ(error.code, ErrorCode::already_exists);

  KernelWorld world;
  const auto ours = world.transport().listen(loopback(0), {.share = true});
  ASSERT_TRUE(ours.has_value());
  const Endpoint endpoint = ours->local();
  const int code = in_child([&endpoint] {
    bool refused = false;
    std::thread([&] {
      KernelWorld child;
      refused = !child.transport().listen(endpoint, {.share = true}).has_value();
    }).join();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST(KernelListen, LcoresShareAnEndpointOnlyWhenTheyAskTo) {
  KernelWorld world;
  auto first = world.transport().listen(loopback(0), {.share = true});
  ASSERT_TRUE(first.has_value());
  const Endpoint endpoint = first->local();
  auto second = world.transport().listen(endpoint, {.share = true});
  EXPECT_TRUE(second.has_value());
  EXPECT_FALSE(world.transport().listen(endpoint).has_value());
  *first = Listener();
  auto third = world.transport().listen(endpoint, {.share = true});
  EXPECT_TRUE(third.has_value());
  *second = Listener();
  *third = Listener();
  EXPECT_TRUE(
      world.loop().run_until([&world] { return world.loop().ring().in_flight() <= 1; }, 5s));
  EXPECT_TRUE(world.transport().listen(endpoint).has_value());
}

TEST(KernelListen, APrivilegedPortNamesTheSetting) {
  if (geteuid() != 0) GTEST_SKIP() << "not root: can't give up privileges";
  const int code = in_child([] {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 3;
    MonotonicTime time;
    auto loop = Loop::create({}, time);
    if (!loop) return 77;
    if (!(*loop)->adopt_thread()) return 77;
    auto transport = KernelTransport::create(**loop);
    if (!transport) return 4;
    const auto listener = (*transport)->listen(loopback(80));
    if (listener || listener.error().code != ErrorCode::permission_denied) return 5;
    const bool helps =
        listener.error().hint.find("ip_unprivileged_port_start=80") != std::string::npos;
    return helps ? 0 : 6;
  });
  if (code == 77) GTEST_SKIP() << "io_uring is root's alone here";
  EXPECT_EQ(code, 0);
}

TEST(KernelListen, AnAddressOfAnotherHostNamesTheCommand) {
  const Error error = listen_error({IpAddress::v4({203, 0, 113, 1}), 0});
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_NE(error.hint.find("ip -br address"), std::string::npos) << error.hint;
}

TEST(KernelListen, IPv6IsIPv6Only) {
  KernelWorld world;
  auto v4 = world.transport().listen({IpAddress::v4({0, 0, 0, 0}), 0});
  ASSERT_TRUE(v4.has_value());
  const auto v6 = world.transport().listen({*IpAddress::parse("::"), v4->local().port});
  if (!v6 && v6.error().code != ErrorCode::already_exists) GTEST_SKIP() << "no IPv6";
  EXPECT_TRUE(v6.has_value()) << to_string(v6.error());
}

TEST(KernelListen, IPv6Connects) {
  KernelWorld world;
  auto listener = world.transport().listen({*IpAddress::parse("::1"), 0});
  if (!listener) GTEST_SKIP() << "no IPv6";
  auto body = [&]() -> Task<> {
    const Endpoint peer = listener->local();
    const auto client = co_await world.transport().connect(peer, 5s);
    CO_ASSERT_TRUE(client);
    const auto server = co_await listener->accept();
    CO_ASSERT_TRUE(server);
    EXPECT_EQ(client->peer(), peer);
    EXPECT_EQ(server->peer(), client->local());
  };
  TaskHandle task = world.loop().spawn(body());
  EXPECT_TRUE(world.loop().run_until([&task] { return task.done(); }, 10s));
}

TEST(KernelCreate, TooFewDescriptorsNameTheCommand) {
  MonotonicTime time;
  auto loop = Loop::create({}, time);
  ASSERT_TRUE(loop.has_value());
  ASSERT_TRUE((*loop)->adopt_thread().has_value());
  const auto transport = KernelTransport::create(**loop, {.max_connections = 100'000'000});
  ASSERT_FALSE(transport.has_value());
  EXPECT_EQ(transport.error().code, ErrorCode::resource_exhausted);
  EXPECT_EQ(transport.error().hint.find("`ulimit -n 100000032`"), 0U) << transport.error().hint;
}

TEST(KernelCreate, NoNumberOfConnectionsIsTooLargeToBeRefused) {
  const Result<> enough = check_descriptor_limit(std::numeric_limits<std::size_t>::max());
  ASSERT_FALSE(enough.has_value());
  EXPECT_EQ(enough.error().code, ErrorCode::resource_exhausted);
}

TEST(KernelCreate, RefusesWhatItCantDo) {
  KernelWorld world;
  const auto second = KernelTransport::create(world.loop());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  world.end_transport();
  EXPECT_TRUE(KernelTransport::create(world.loop()).has_value());
  EXPECT_FALSE(KernelTransport::create(world.loop(), {.buffer_count = 100}).has_value());
  EXPECT_FALSE(KernelTransport::create(world.loop(), {.buffer_count = 65536}).has_value());
  EXPECT_FALSE(KernelTransport::create(world.loop(), {.buffer_size = 1}).has_value());
  EXPECT_FALSE(KernelTransport::create(world.loop(), {.spare_count = 32769}).has_value());
}

/// The outcome of a connect, and how long it took.
std::string connect_outcome(KernelWorld& world, const Endpoint& peer, Delay timeout,
                            Delay cancel_after = kNoTimeout) {
  std::string ending;
  auto body = [&]() -> Task<> {
    const auto stream = co_await world.transport().connect(peer, timeout);
    ending = outcome(stream);
  };
  TaskHandle task = world.loop().spawn(body());
  auto cancel = [&]() -> Task<> {
    co_await sleep_for(cancel_after);
    task.cancel();
  };
  TaskHandle canceller;
  if (cancel_after != kNoTimeout) canceller = world.loop().spawn(cancel());
  EXPECT_TRUE(world.loop().run_until([&task] { return task.done(); }, 10s));
  EXPECT_TRUE(world.loop().run_until([&canceller] { return canceller.done(); }, 10s));
  return ending;
}

TEST(KernelConnect, ItsFailuresAreDistinct) {
  KernelWorld world;
  std::uint16_t free_port = 0;
  {
    const OtherListener gone(false);
    free_port = gone.port();
  }
  EXPECT_EQ(connect_outcome(world, loopback(free_port), 5s), "refused");

  // A full backlog lets SYNs drop, so that nobody answers.
  const OtherListener full(false, 0);
  std::array<PlainSocket, 1> fillers = {PlainSocket::connect_to(full.port())};
  EXPECT_TRUE(fillers[0].open());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(connect_outcome(world, loopback(full.port()), 100ms), "connect_timeout");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
  EXPECT_EQ(connect_outcome(world, loopback(full.port()), 10s, 20ms), "cancelled");
  EXPECT_EQ(connect_outcome(world, loopback(full.port()), 0s), "connect_timeout");
  EXPECT_EQ(world.transport().stats().connects_refused, 1U);
  EXPECT_EQ(world.transport().stats().connect_timeouts, 2U);
}

TEST(KernelConnect, BeyondMaxConnectionsItHasNoResources) {
  KernelWorld world({.max_connections = 1});
  const OtherListener other(false);
  Stream first;
  const auto open = [&]() -> Task<> {
    auto stream = co_await world.transport().connect(loopback(other.port()), 5s);
    CO_ASSERT_TRUE(stream);
    first = std::move(*stream);
  };
  TaskHandle opening = world.loop().spawn(open());
  ASSERT_TRUE(world.loop().run_until([&] { return opening.done(); }, 10s));
  EXPECT_EQ(connect_outcome(world, loopback(other.port()), 5s), "no_resources");
  EXPECT_EQ(world.transport().stats().out_of_resources, 1U);
  // One that only waits for its peer's FIN makes room at once.
  first = Stream();
  EXPECT_EQ(world.transport().stats().closing, 1U);
  EXPECT_EQ(connect_outcome(world, loopback(other.port()), 5s), "ok");
  EXPECT_EQ(world.transport().stats().out_of_resources, 1U);
}

// Each connect cuts one close short, also while the place before it is not free yet.
TEST(KernelConnect, AtMaxConnectionsEachTakesThePlaceOfOneClose) {
  KernelWorld world({.max_connections = 3, .linger = 60s});
  const OtherListener other(false);
  std::vector<Stream> streams;
  std::vector<std::string> endings;
  const auto open = [&]() -> Task<> {
    auto stream = co_await world.transport().connect(loopback(other.port()), 5s);
    endings.push_back(outcome(stream));
    if (stream) streams.push_back(std::move(*stream));
  };
  const auto open_together = [&](std::size_t count) {
    std::vector<TaskHandle> tasks;
    endings.clear();
    for (std::size_t i = 0; i < count; ++i) tasks.push_back(world.loop().spawn(open()));
    EXPECT_TRUE(world.loop().run_until([&] { return endings.size() == count; }, 10s));
  };
  open_together(3);
  EXPECT_EQ(streams.size(), 3U);
  streams.clear();
  EXPECT_EQ(world.transport().stats().closing, 3U);
  open_together(2);
  EXPECT_EQ(endings, (std::vector<std::string>{"ok", "ok"}));
  EXPECT_EQ(world.transport().stats().closing, 1U);
  open_together(2);
  std::sort(endings.begin(), endings.end());
  EXPECT_EQ(endings, (std::vector<std::string>{"no_resources", "ok"}));
  EXPECT_EQ(world.transport().stats().closing, 0U);
}

TEST(KernelConnect, WithoutARouteItIsUnreachable) {
  std::string ending = "no namespace";
  std::thread([&ending] {
    if (unshare(CLONE_NEWNET) != 0) return;
    KernelWorld world;
    ending = connect_outcome(world, {IpAddress::v4({10, 1, 2, 3}), 7}, 5s);
    EXPECT_EQ(world.transport().stats().connects_unreachable, 1U);
  }).join();
  if (ending == "no namespace") GTEST_SKIP() << "not root: no network namespace";
  EXPECT_EQ(ending, "unreachable");
}

}  // namespace
}  // namespace pinion::test

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/loop.h>
#include <pinion/lib/random.h>
#include <pinion/net/stack_transport.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>
#include <pinion/timers/timing_wheel.h>

#include "dpdk_world.h"
#include "host/host.h"
#include "stack/udp.h"

// The stack on a tap, and the kernel's sockets at the other end.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kPort = 7;
constexpr std::uint16_t kClosedPort = 7009;

IpAddress ours(bool v6) {
  return *IpAddress::parse(v6 ? "fd09::1" : "10.9.0.1");
}
IpAddress kernels(bool v6) {
  return *IpAddress::parse(v6 ? "fd09::2" : "10.9.0.2");
}

/// Gives the kernel its addresses on an interface.
void set_up_kernel(const std::string& interface) {
  ASSERT_TRUE(shell("sysctl -w net.ipv6.conf." + interface + ".disable_ipv6=0"));
  ASSERT_TRUE(shell("ip address add 10.9.0.2/24 dev " + interface));
  ASSERT_TRUE(shell("ip -6 address add fd09::2/64 nodad dev " + interface));
}

/// An address of the kernel's calls.
class SocketAddress {
 public:
  explicit SocketAddress(const Endpoint& endpoint) {
    const auto& bytes = endpoint.address.bytes();
    if (endpoint.address.is_v4()) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(endpoint.port);
      std::memcpy(&address.sin_addr, bytes.data(), sizeof(address.sin_addr));
      std::memcpy(&storage_, &address, size_ = sizeof(address));
    } else {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      address.sin6_port = htons(endpoint.port);
      std::memcpy(&address.sin6_addr, bytes.data(), sizeof(address.sin6_addr));
      std::memcpy(&storage_, &address, size_ = sizeof(address));
    }
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// A socket of the kernel's that never blocks.
class KernelSocket {
 public:
  KernelSocket(bool v6, int type)
      : fd_(socket(v6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  ~KernelSocket() { close(fd_); }
  KernelSocket(const KernelSocket&) = delete;
  KernelSocket& operator=(const KernelSocket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool bind_to(const Endpoint& endpoint) const {
    const SocketAddress address(endpoint);
    return bind(fd_, address.get(), address.size()) == 0;
  }
  [[nodiscard]] bool connect_to(const Endpoint& endpoint) const {
    const SocketAddress address(endpoint);
    return connect(fd_, address.get(), address.size()) == 0;
  }
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in6 address{};  // Either family has its port at the same place.
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin6_port);
  }
  [[nodiscard]] bool send_whole(const Bytes& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  }
  /// None when there is nothing, or an error, which is in errno.
  [[nodiscard]] std::optional<Bytes> take() const {
    Bytes bytes(65'536);
    const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
    if (got < 0) return std::nullopt;
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }

 private:
  int fd_;
};

/// The whole stack on a port, turned by the thread that tests.
class TapHost {
 public:
  explicit TapHost(bool v6)
      : pool_(make_pool({.packets = 1023})), port_(open_port(*pool_, "tap:ptap0")) {
    set_up_kernel("ptap0");
    const DeviceInfo& info = port_->info();
    auto made = Host::create({},
                             {.wheel = wheel_,
                              .packets = *pool_,
                              .small_packets = *pool_,
                              .max_segments = info.max_tx_segments},
                             seed(), time_.now());
    EXPECT_TRUE(made);
    host_ = std::move(*made);
    const std::array<IpPrefix, 1> addresses = {
        {{ours(v6), static_cast<std::uint8_t>(v6 ? 64 : 24)}}};
    EXPECT_TRUE(host_->ip().add_interface({.mac = info.mac,
                                           .mtu = info.mtu,
                                           .max_segments = info.max_tx_segments,
                                           .addresses = addresses,
                                           .check_duplicates = false},
                                          time_.now()));
  }
  ~TapHost() {
    host_.reset();
    EXPECT_EQ(port_->stats().rx_dropped, 0U) << "the tap had room for all";
    port_.reset();
    EXPECT_EQ(pool_->lent(), 0U);
  }
  TapHost(const TapHost&) = delete;
  TapHost& operator=(const TapHost&) = delete;

  [[nodiscard]] Host& host() { return *host_; }
  [[nodiscard]] Instant now() { return time_.now(); }

  /// Turns until `holds()`, sleeping until the port or `kernel` has something in between; whether
  /// it came to hold in time.
  template <class Holds>
  [[nodiscard]] bool turn_until(const KernelSocket& kernel, Holds&& holds) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (;;) {
      turn();
      if (holds()) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      std::array<pollfd, 2> wait{{{.fd = port_->wait_descriptor(), .events = POLLIN, .revents = 0},
                                  {.fd = kernel.fd(), .events = POLLIN, .revents = 0}}};
      poll(wait.data(), wait.size(), 20);  // The stack's timers are due now and then.
    }
  }

 private:
  void turn() {
    std::array<Packet*, 32> burst{};
    const Instant now = time_.now();
    while (const std::size_t count = port_->rx_burst(now, burst)) {
      host_->receive(0, std::span(burst).first(count), now);
      if (!host_->is_settled()) host_->end_of_burst(now);
    }
    wheel_.advance(now);
    while (!host_->is_settled()) host_->end_of_burst(now);
    while (const std::size_t count = host_->take(0, burst)) {
      std::size_t sent = 0;
      while (sent < count)
        sent += port_->tx_burst(now, std::span(burst).first(count).subspan(sent));
    }
  }

  MonotonicTime time_;
  TimingWheel wheel_{time_.now()};
  std::unique_ptr<DpdkPacketPool> pool_;
  std::unique_ptr<DpdkPort> port_;
  std::unique_ptr<Host> host_;
};

class DpdkInterop : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { PINION_TEST_NEEDS_PORTS(); }

  Bytes some_bytes(std::size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }

  const bool v6 = GetParam();
  Random random{seed()};
};

/// What is received; none within 20 s.
std::optional<Bytes> take_ours(TapHost& tap, UdpSocket& own, const KernelSocket& kernel,
                               Endpoint& from) {
  if (!tap.turn_until(kernel, [&] { return own.waiting() != 0; })) return std::nullopt;
  const std::optional<UdpDatagram> datagram = own.receive();
  from = datagram->from;
  return bytes_of(*datagram->packet);
}
std::optional<Bytes> take_theirs(TapHost& tap, const KernelSocket& kernel) {
  std::optional<Bytes> got;
  const bool came = tap.turn_until(kernel, [&] { return (got = kernel.take()).has_value(); });
  return came ? got : std::nullopt;
}

TEST_P(DpdkInterop, DatagramsOfEverySizeGoBothWays) {
  TapHost tap(v6);
  UdpSocket own(tap.host().udp());
  ASSERT_TRUE(own.bind({ours(v6), kPort}));
  const KernelSocket kernel(v6, SOCK_DGRAM);
  ASSERT_TRUE(kernel.bind_to({kernels(v6), 0}));
  const Endpoint peer{kernels(v6), kernel.port()};
  ASSERT_TRUE(kernel.connect_to({ours(v6), kPort}));

  // At 1452 and 1472 bytes what fits into a frame ends; the largest takes 45 fragments.
  for (const std::size_t size : {0U, 1U, 1452U, 1453U, 1472U, 1473U, 4000U, 65'507U}) {
    const Bytes theirs = some_bytes(size);
    ASSERT_TRUE(kernel.send_whole(theirs)) << std::strerror(errno);
    Endpoint from;
    ASSERT_EQ(take_ours(tap, own, kernel, from), theirs) << size;
    EXPECT_EQ(from, peer);

    const Bytes answer = some_bytes(size);
    ASSERT_EQ(own.send_to(answer, peer, tap.now()), UdpSend::sent);
    ASSERT_EQ(take_theirs(tap, kernel), answer) << size;
  }
  const IpCounters& counters = tap.host().ip().counters();
  EXPECT_EQ(counters.reassembled, v6 ? 5U : 3U);
  EXPECT_GE(counters.fragments_out, 45U + 3U + 2U);
}

// O4, for UDP: who sends to a closed port hears of it at once.
TEST_P(DpdkInterop, AClosedPortIsAConnectionRefused) {
  TapHost tap(v6);
  const KernelSocket kernel(v6, SOCK_DGRAM);
  ASSERT_TRUE(kernel.connect_to({ours(v6), kClosedPort}));
  ASSERT_TRUE(kernel.send_whole(some_bytes(100)));
  int error = 0;
  EXPECT_TRUE(tap.turn_until(kernel, [&] {
    if (kernel.take()) return true;
    error = errno;
    return error != EAGAIN;
  }));
  EXPECT_EQ(error, ECONNREFUSED) << std::strerror(error);

  // And so do we.
  UdpSocket own(tap.host().udp());
  ASSERT_TRUE(own.connect({kernels(v6), kClosedPort}));
  ASSERT_EQ(own.send(some_bytes(100), tap.now()), UdpSend::sent);
  std::optional<IpTrouble> trouble;
  EXPECT_TRUE(tap.turn_until(kernel, [&] { return (trouble = own.take_trouble()).has_value(); }));
  EXPECT_EQ(trouble, IpTrouble::port_unreachable);
}

StackOptions stack_options(Device& device, bool v6) {
  StackOptions options;
  options.interfaces = {
      {.device = &device, .addresses = {{ours(v6), static_cast<std::uint8_t>(v6 ? 64 : 24)}}}};
  options.max_connections = 16;
  options.seed = seed();
  return options;
}

Task<> connect_once(Transport& transport, Endpoint peer, int& succeeded) {
  const auto stream = co_await transport.connect(peer, 30s);
  if (stream) ++succeeded;
}

// O1, of the one lcore that a queue has today: every connect() finds its way back.
TEST_P(DpdkInterop, O1_AThousandConnectsOverOneQueueAllSucceed) {
  constexpr int kConnects = 1000;
  const auto pool = make_pool({.packets = 8191});
  {
    const auto port = open_port(*pool, "tap:ptap0");
    set_up_kernel("ptap0");
    const KernelSocket listener(v6, SOCK_STREAM);
    ASSERT_TRUE(listener.bind_to({kernels(v6), 0}));
    ASSERT_EQ(listen(listener.fd(), kConnects), 0);

    int succeeded = 0;
    MonotonicTime time;
    auto loop = Loop::create({}, time);
    ASSERT_TRUE(loop) << to_string(loop.error());
    StackOptions options = stack_options(*port, v6);
    options.max_connections = kConnects;
    const auto transport = StackTransport::create(**loop, *pool, options);
    ASSERT_TRUE(transport) << to_string(transport.error());
    std::vector<TaskHandle> tasks;
    for (int i = 0; i < kConnects; ++i) {
      const Endpoint peer{kernels(v6), listener.port()};
      tasks.push_back((*loop)->spawn(connect_once(**transport, peer, succeeded)));
    }
    const auto all_done = [&tasks] {
      return std::ranges::all_of(tasks, [](const TaskHandle& task) { return task.done(); });
    };
    EXPECT_TRUE((*loop)->run_until(all_done, 60s));
    EXPECT_EQ(succeeded, kConnects);
    EXPECT_EQ((*transport)->stats().connected, static_cast<std::uint64_t>(kConnects));
  }
  EXPECT_EQ(pool->lent(), 0U);
}

/// Accepts a connection and ends it.
Task<> accept_once(Listener& listener, bool& accepted) {
  const auto stream = co_await listener.accept();
  accepted = stream.has_value();
}

/// A port on one end of a veth pair, whose other end is the kernel's.
class OnVethPair {
 public:
  OnVethPair() {
    EXPECT_TRUE(shell("ip link add pveth0 type veth peer name pveth1"));
    EXPECT_TRUE(shell("ip link set pveth0 up && ip link set pveth1 up"));
    set_up_kernel("pveth1");
  }
  ~OnVethPair() { shell("ip link delete pveth0"); }
  OnVethPair(const OnVethPair&) = delete;
  OnVethPair& operator=(const OnVethPair&) = delete;
};

// N4: a local peer's partial checksums are reported, once, with what mends them.
TEST_P(DpdkInterop, N4_PartialChecksumsAreReportedWithTheirRemedy) {
  if (!shell("ethtool --version")) GTEST_SKIP() << "no ethtool";
  const OnVethPair veth;
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  bool accepted = false;
  MonotonicTime time;
  auto loop = Loop::create({}, time);
  ASSERT_TRUE(loop) << to_string(loop.error());
  const auto transport = StackTransport::create(**loop, *pool, stack_options(*port, v6));
  ASSERT_TRUE(transport) << to_string(transport.error());
  auto listener = (*transport)->listen({ours(v6), kPort}, {});
  ASSERT_TRUE(listener) << to_string(listener.error());
  (*loop)->spawn(accept_once(*listener, accepted));

  ::testing::internal::CaptureStderr();
  const auto counted = [&](std::uint64_t least) {
    const auto enough = [&] { return (*transport)->stats().partial_checksums >= least; };
    return (*loop)->run_until(enough, 20s);
  };
  const KernelSocket datagrams(v6, SOCK_DGRAM);
  EXPECT_TRUE(datagrams.connect_to({ours(v6), kPort}));
  EXPECT_TRUE(datagrams.send_whole(some_bytes(100)));
  EXPECT_TRUE(counted(1));
  const KernelSocket deaf(v6, SOCK_STREAM);
  EXPECT_FALSE(deaf.connect_to({ours(v6), kPort}));
  EXPECT_TRUE(counted(2));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string remedy = "fix: ethtool -K veth1 tx off";
  const std::size_t place = log.find(remedy);
  EXPECT_NE(place, std::string::npos) << log;
  EXPECT_EQ(log.find(remedy, place + 1), std::string::npos) << "once: " << log;
  EXPECT_FALSE(accepted);

  ASSERT_TRUE(shell("ethtool -K pveth1 tx off"));
  const KernelSocket heard(v6, SOCK_STREAM);
  EXPECT_FALSE(heard.connect_to({ours(v6), kPort}));
  EXPECT_TRUE((*loop)->run_until([&] { return accepted; }, 20s));
}

TEST_P(DpdkInterop, N4_PartialChecksumsAreTakenWhereTheyAreTrusted) {
  const OnVethPair veth;
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "af_packet:pveth0");
  bool accepted = false;
  MonotonicTime time;
  auto loop = Loop::create({}, time);
  ASSERT_TRUE(loop) << to_string(loop.error());
  StackOptions options = stack_options(*port, v6);
  options.trust_partial_checksums = true;
  const auto transport = StackTransport::create(**loop, *pool, options);
  ASSERT_TRUE(transport) << to_string(transport.error());
  auto listener = (*transport)->listen({ours(v6), kPort}, {});
  ASSERT_TRUE(listener) << to_string(listener.error());
  (*loop)->spawn(accept_once(*listener, accepted));
  ::testing::internal::CaptureStderr();
  const KernelSocket heard(v6, SOCK_STREAM);
  EXPECT_FALSE(heard.connect_to({ours(v6), kPort}));
  EXPECT_TRUE((*loop)->run_until([&] { return accepted; }, 20s));
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("checksums"), std::string::npos);
  EXPECT_GE((*transport)->stats().partial_checksums, 2U) << "a SYN and its last acknowledgement";
}

INSTANTIATE_TEST_SUITE_P(Families, DpdkInterop, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "v6" : "v4"; });

}  // namespace
}  // namespace pinion::test

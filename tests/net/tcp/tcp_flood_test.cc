#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/own_new.h>
#include <pinion/test/seed.h>

#include "../malloc_counter.h"
#include "linked_hosts.h"
#include "wire/ethernet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/tcp_checksum.h"
#include "wire/tcp_emitter.h"

/// A million SYNs from nowhere, on the line and the lcore that others use.

namespace pinion::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint16_t kPort = 7;
/// 100,000 SYNs a second, each of which takes 84 bytes of Ethernet: 6.72 % of a gigabit, and so do
/// the answers in the other direction.
constexpr Delay kGap{microseconds{10}};
constexpr std::size_t kHalfOpen = 256;

/// What streams consist of. Its size is prime to those of segments, so that no two are alike.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 65'521;
  static constexpr std::size_t kMost = 16'384;  ///< Of one piece.

  explicit Pattern(Random random) {
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random.next());
    std::memcpy(bytes_.data() + kPeriod, bytes_.data(), kMost);
  }
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::size_t size) const {
    return std::span(bytes_).subspan(offset % kPeriod, size);
  }

 private:
  std::array<std::byte, kPeriod + kMost> bytes_{};
};

/// An end that writes as fast as it may, and verifies what it reads. Takes nothing from the heap.
class BulkEnd final : public TcpObserver {
 public:
  BulkEnd(Tcp& tcp, const Pattern& pattern) : tcp_(tcp), pattern_(pattern) {}

  void write(Instant now) {
    for (;;) {
      const TcpTransferred sent = tcp_.write(handle, pattern_.at(written_, Pattern::kMost), now);
      written_ += sent.bytes;
      if (sent.outcome != TcpOutcome::done) return;
    }
  }

  void on_connected(TcpHandle, Instant) noexcept override { connected = true; }
  void on_readable(TcpHandle, Instant now) noexcept override {
    PacketPtr packet;
    while (tcp_.take(handle, packet, now) == TcpOutcome::done) {
      const std::span<const std::byte> got = std::as_const(*packet).bytes();
      intact = intact &&
               std::memcmp(got.data(), pattern_.at(received, got.size()).data(), got.size()) == 0;
      received += got.size();
      packet.reset();
    }
  }
  void on_writable(TcpHandle, Instant now) noexcept override { write(now); }
  void on_read_deadline(TcpHandle, Instant) noexcept override {}
  void on_write_deadline(TcpHandle, Instant) noexcept override {}
  void on_closed(TcpHandle, TcpEnd, Instant) noexcept override { closed = true; }

  TcpHandle handle;
  bool connected = false;
  bool closed = false;
  bool intact = true;
  std::uint64_t received = 0;

 private:
  Tcp& tcp_;
  const Pattern& pattern_;
  std::uint64_t written_ = 0;
};

/// A connection from host 0 to host 1.
struct BulkPair {
  BulkPair(LinkedHosts& its_world, const Pattern& pattern)
      : world(its_world), client(its_world.tcp(0), pattern), server(its_world.tcp(1), pattern) {}

  /// Whether both ends have it within a second.
  bool open(TcpListenerHandle listener, bool v6) {
    const auto made = world.tcp(0).connect({.remote = {LinkedHosts::address(1, v6), kPort}},
                                           &client, world.now());
    if (!made) return false;
    client.handle = *made;
    return world.run_until([&] { return is_open(listener); }, seconds{1});
  }
  bool is_open(TcpListenerHandle listener) {
    if (!server.handle) server.handle = world.tcp(1).accept(listener, &server);
    return client.connected && server.handle;
  }
  void write_both() {
    client.write(world.now());
    server.write(world.now());
  }

  LinkedHosts& world;
  BulkEnd client;
  BulkEnd server;
};

/// Sends SYNs to host 1 from whatever addresses: most from beyond the gateway, one in eight of the
/// link itself, of hosts that aren't there.
class SynFlood {
 public:
  SynFlood(LinkedHosts& world, bool v6, Random& random) : world_(world), v6_(v6), random_(random) {}

  void send() {
    PacketPtr packet(world_.pool(0).allocate());
    PINION_ASSERT(packet);
    wire::TcpOptions options;
    options.mss = 1460;
    const std::size_t size = wire::kTcpHeaderSize + wire::tcp_options_size(options);
    wire::emit_tcp({packet->append(size), size},
                   {.source_port = random_.between<std::uint16_t>(1, 65'535),
                    .destination_port = kPort,
                    .sequence = wire::SequenceNumber(static_cast<std::uint32_t>(random_.next())),
                    .acknowledgment = {},
                    .flags = wire::TcpFlags(wire::TcpFlag::syn),
                    .window = 65'535},
                   options);
    const IpAddress from = v6_ ? somebody6() : somebody4();
    const IpAddress to = LinkedHosts::address(1, v6_);
    wire::store_tcp_checksum(*packet, size, from, to);
    prepend_ip(*packet, from, to);
    constexpr std::size_t kEthernet = wire::EthernetHeader::kMinSize;
    wire::emit_ethernet({.destination = world_.mac(1),
                         .source = world_.mac(0),
                         .type = v6_ ? wire::EtherType::ipv6 : wire::EtherType::ipv4},
                        {packet->prepend(kEthernet), kEthernet});
    world_.inject(0, std::move(packet));
  }

 private:
  void prepend_ip(Packet& packet, const IpAddress& from, const IpAddress& to) const {
    const auto payload_size = static_cast<std::uint16_t>(packet.size());
    if (v6_) {
      const std::span room(packet.prepend(wire::Ipv6Header::kSize), wire::Ipv6Header::kSize);
      wire::emit_ipv6({.source = from.bytes(),
                       .destination = to.bytes(),
                       .payload_size = payload_size,
                       .next_header = wire::kTcpProtocol},
                      room);
      return;
    }
    const std::span room(packet.prepend(wire::Ipv4Header::kMinSize), wire::Ipv4Header::kMinSize);
    wire::emit_ipv4({.source = v4_bytes(from),
                     .destination = v4_bytes(to),
                     .payload_size = payload_size,
                     .protocol = wire::kTcpProtocol},
                    room);
  }

  [[nodiscard]] bool from_the_link() { return random_.below(8) == 0; }

  IpAddress somebody4() {
    const auto word = static_cast<std::uint32_t>(random_.next());
    const auto byte = [word](int shift) { return static_cast<std::uint8_t>(word >> shift); };
    if (from_the_link()) {
      return IpAddress::v4({10, 9, static_cast<std::uint8_t>(byte(0) | 1U), byte(8)});
    }
    return IpAddress::v4({random_.between<std::uint8_t>(11, 126), byte(0), byte(8), byte(16)});
  }

  IpAddress somebody6() {
    std::array<std::uint8_t, 16> bytes{0xfd, 0x09};
    if (!from_the_link()) bytes = {0x20, 0x01, 0x0d, 0xb8};
    const std::uint64_t word = random_.next() | 1U;
    for (std::size_t i = 0; i < 8; ++i) {
      bytes[8 + i] = static_cast<std::uint8_t>(word >> (8 * i));
    }
    return IpAddress::v6(bytes);
  }

  LinkedHosts& world_;
  const bool v6_;
  Random& random_;
};

/// Bytes of each direction in a while.
struct Throughput {
  std::uint64_t to_server = 0;
  std::uint64_t to_client = 0;
};

class TcpFlood : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto listening = world.tcp(1).listen({LinkedHosts::address(1, v6), kPort}, {}, nullptr);
    ASSERT_TRUE(listening);
    listener = *listening;
    ASSERT_TRUE(pair.open(listener, v6));
    pair.write_both();
    world.run_for(milliseconds{200});  // Until it is as fast as it gets.
  }

  [[nodiscard]] Throughput so_far() const {
    return {.to_server = pair.server.received, .to_client = pair.client.received};
  }

  /// What the established connection moves in a second on average while `during` happens.
  template <class During>
  Throughput measure(During&& during) {
    const Throughput before = so_far();
    const Instant begin = world.now();
    during();
    const double took = std::chrono::duration<double>(world.now() - begin).count();
    const auto rate = [took](std::uint64_t from, std::uint64_t to) {
      return static_cast<std::uint64_t>(static_cast<double>(to - from) / took);
    };
    const Throughput after = so_far();
    return {.to_server = rate(before.to_server, after.to_server),
            .to_client = rate(before.to_client, after.to_client)};
  }

  static LinkedHostsOptions options() {
    LinkedHostsOptions options;
    options.link = {.bits_per_second = 1'000'000'000, .delay = Delay(microseconds{100})};
    options.config.max_half_open = kHalfOpen;
    options.config.max_connections = 8;
    options.seed = seed();
    return options;
  }

  const bool v6 = GetParam();
  Random random{seed()};
  std::unique_ptr<Pattern> pattern = std::make_unique<Pattern>(random);
  LinkedHosts world{options()};
  BulkPair pair{world, *pattern};
  BulkPair late{world, *pattern};
  TcpListenerHandle listener;
};

// O2: a flood of spoofed SYNs: bounded memory, established flows unhurt, cookies let others in.
TEST_P(TcpFlood, O2_AMillionSynsNeitherSlowATransferNorKeepAClientOut) {
  const Throughput alone = measure([&] { world.run_for(seconds{1}); });
  EXPECT_GT(alone.to_server, 100'000'000U) << "the line is nearly full";
  EXPECT_GT(alone.to_client, 100'000'000U);

  // The million under one family, and without a sanitizer: the promises are ratios and bounds.
  const std::uint32_t syns = v6 || PINION_TEST_OWN_NEW == 0 ? 200'000 : 1'000'000;
  SynFlood flood(world, v6, random);
  const auto send = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      flood.send();
      world.run_for(kGap);
    }
  };
  std::uint64_t taken = 0;
  const Throughput flooded = measure([&] {
    const std::uint64_t before = mallocs();
    send(syns / 2);
    taken += mallocs() - before;
  });
  EXPECT_EQ(world.tcp(1).half_open(), kHalfOpen);

  // A client comes while SYNs do.
  const std::uint64_t cookies = world.tcp(1).stats().cookie_opens;
  const auto made = world.tcp(0).connect({.remote = {LinkedHosts::address(1, v6), kPort}},
                                         &late.client, world.now());
  ASSERT_TRUE(made);
  late.client.handle = *made;
  for (int tenth = 0; tenth < 100 && !late.is_open(listener); ++tenth) send(1'000);
  EXPECT_TRUE(late.client.connected);
  ASSERT_TRUE(late.server.handle);
  EXPECT_EQ(world.tcp(1).stats().cookie_opens, cookies + 1);
  late.write_both();
  send(syns / 2);

  std::printf(
      "bytes/s to the server %.3f of %llu, to the client %.3f of %llu; %zu packets of %zu\n",
      static_cast<double>(flooded.to_server) / static_cast<double>(alone.to_server),
      static_cast<unsigned long long>(alone.to_server),
      static_cast<double>(flooded.to_client) / static_cast<double>(alone.to_client),
      static_cast<unsigned long long>(alone.to_client),
      world.pool(1).capacity() - world.pool(1).lowest_available(), world.pool(1).capacity());
  EXPECT_GE(10 * flooded.to_server, 9 * alone.to_server);
  EXPECT_GE(10 * flooded.to_client, 9 * alone.to_client);
  EXPECT_GT(late.server.received, 1'000'000U);
  EXPECT_GT(late.client.received, 1'000'000U);
  for (const BulkPair* const each : {&pair, &late}) {
    EXPECT_TRUE(each->client.intact && each->server.intact);
    EXPECT_FALSE(each->client.closed || each->server.closed);
  }
  EXPECT_EQ(taken, 0U) << "from the heap";
  EXPECT_EQ(world.tcp(1).half_open(), kHalfOpen);
  EXPECT_EQ(world.tcp(1).connections(), 2U);
  EXPECT_EQ(world.tcp(1).stats().dropped(TcpDrop::packets_scarce), 0U);
  EXPECT_GE(world.pool(1).lowest_available(), world.pool(1).capacity() / 2);
  EXPECT_LE(world.host(1).ip().neighbours().size(), 1024U);
  EXPECT_LE(world.host(1).ip().neighbours().held(), 256U);
}

INSTANTIATE_TEST_SUITE_P(Families, TcpFlood, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "v6" : "v4"; });

}  // namespace
}  // namespace pinion::test

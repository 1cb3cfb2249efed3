#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/loop.h>
#include <pinion/net/device_poller.h>
#include <pinion/timers/time_source.h>

#include "dpdk_world.h"

// From the kernel's ICMP through a tap to a loop that sleeps on the port's descriptor, and back.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

using Bytes = std::span<std::byte>;

constexpr std::array<std::uint8_t, 4> kOurs = {10, 9, 0, 1};
constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIpv4 = 20;  // The kernel's pings have no options.

bool has(std::span<const std::byte> bytes, std::size_t at,
         std::initializer_list<std::uint8_t> expected) {
  return bytes.size() >= at + expected.size() &&
         std::memcmp(bytes.data() + at, std::data(expected), expected.size()) == 0;
}

template <std::size_t Size>
void put(Bytes bytes, std::size_t at, const std::array<std::uint8_t, Size>& value) {
  std::memcpy(bytes.data() + at, value.data(), Size);
}

/// RFC 1071.
std::uint16_t checksum_of(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void put_checksum(Bytes bytes, std::size_t at) {
  put(bytes, at, std::array<std::uint8_t, 2>{});
  const std::uint16_t sum = checksum_of(bytes);
  put(bytes, at, std::array{static_cast<std::uint8_t>(sum >> 8), static_cast<std::uint8_t>(sum)});
}

/// Answers ARP requests and echo requests for kOurs, each in the packet that it came in.
class Responder final : public PacketSink {
 public:
  explicit Responder(Device& device) : device_(device) {}

  void receive(Instant now, std::span<Packet* const> packets) override {
    for (Packet* const received : packets) {
      PacketPtr packet(received);
      if (!answer_arp(packet->bytes()) && !answer_echo(packet->bytes())) continue;
      Packet* const answer = packet.get();
      if (device_.tx_burst(now, std::span(&answer, 1)) == 1) static_cast<void>(packet.take());
    }
  }

  int arp_answers = 0;
  int echo_answers = 0;

 private:
  void turn_round(Bytes frame) {
    std::copy_n(frame.begin() + 6, 6, frame.begin());
    put(frame, 6, device_.info().mac);
  }

  /// RFC 826: of Ethernet and IPv4, a request (1), whose target address is ours.
  bool answer_arp(Bytes frame) {
    if (!has(frame, 12, {8, 6, 0, 1, 8, 0, 6, 4, 0, 1})) return false;
    if (!has(frame, kEthernet + 24, {10, 9, 0, 1})) return false;
    turn_round(frame);
    const Bytes message = frame.subspan(kEthernet);
    message[7] = std::byte{2};                                   // A reply,
    std::copy_n(message.begin() + 8, 10, message.begin() + 18);  // to who asked,
    put(message, 8, device_.info().mac);                         // from us.
    put(message, 14, kOurs);
    ++arp_answers;
    return true;
  }

  /// RFC 792: protocol 1, an echo request (8) with a right checksum becomes a reply (0).
  bool answer_echo(Bytes frame) {
    if (!has(frame, 12, {8, 0, 0x45}) || !has(frame, kEthernet + 9, {1})) return false;
    const Bytes header = frame.subspan(kEthernet, kIpv4);
    const Bytes message = frame.subspan(kEthernet + kIpv4);
    if (!has(header, 16, {10, 9, 0, 1}) || !has(message, 0, {8, 0})) return false;
    if (checksum_of(message) != 0) return false;
    turn_round(frame);
    std::swap_ranges(header.begin() + 12, header.begin() + 16, header.begin() + 16);
    message[0] = std::byte{0};
    put_checksum(message, 2);
    ++echo_answers;
    return true;
  }

  Device& device_;
};

/// The kernel's side: an echo request of its own ICMP, and whether the same bytes come back.
class Pinger {
 public:
  Pinger() : fd_(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)) {}
  ~Pinger() { close(fd_); }
  Pinger(const Pinger&) = delete;
  Pinger& operator=(const Pinger&) = delete;

  [[nodiscard]] bool ping(std::uint16_t sequence, std::size_t size) const {
    std::vector<std::byte> request = make_frame(sizeof(icmphdr) + size, sequence);
    icmphdr header{};
    header.type = ICMP_ECHO;
    header.un.echo.id = htons(7007);
    header.un.echo.sequence = htons(sequence);
    std::memcpy(request.data(), &header, sizeof(header));
    put_checksum(request, 2);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, kOurs.data(), kOurs.size());
    if (sendto(fd_, request.data(), request.size(), 0, reinterpret_cast<sockaddr*>(&to),
               sizeof(to)) != static_cast<ssize_t>(request.size())) {
      return false;
    }
    return await_answer(request);
  }

 private:
  [[nodiscard]] bool await_answer(std::span<const std::byte> request) const {
    std::array<std::byte, 2048> bytes;
    pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
    while (poll(&wait, 1, 10'000) > 0) {
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got != static_cast<ssize_t>(request.size() + sizeof(iphdr))) continue;
      const std::span<const std::byte> answer =
          std::span(bytes).subspan(sizeof(iphdr), request.size());
      const bool is_answer = answer[0] == std::byte{ICMP_ECHOREPLY} &&
                             std::ranges::equal(answer.subspan(4), request.subspan(4));
      if (is_answer) return true;
    }
    return false;
  }

  int fd_;
};

/// What the calling thread has used of a CPU.
Delay cpu_time() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

/// From a message on, how much of a CPU the loop takes in a second; then stops it.
struct IdleShare : Message, TimerEntry {
  explicit IdleShare(Loop& its) : Message(&on_message), TimerEntry(&on_timer), loop(its) {}
  static void on_message(Message& message) {
    IdleShare& self = static_cast<IdleShare&>(message);
    self.begun = cpu_time();
    self.loop.arm_after(self, 1s);
  }
  static void on_timer(TimerEntry& entry) {
    IdleShare& self = static_cast<IdleShare&>(entry);
    const std::chrono::nanoseconds used{cpu_time().count() - self.begun.count()};
    self.share = std::chrono::duration<double>(used).count();
    self.loop.stop();
  }

  Loop& loop;
  Delay begun;
  double share = 1;
};

TEST(DpdkSlice, AnswersTheKernelsPingsAndSleepsInBetween) {
  PINION_TEST_NEEDS_PORTS();
  const auto pool = make_pool({.packets = 1023});
  {
    const auto port = open_port(*pool, "tap:ptap0");
    ASSERT_TRUE(shell("ip address add 10.9.0.2/24 dev ptap0"));
    MonotonicTime time;
    LoopOptions options;
    options.idle = IdlePolicy::park;
    auto loop = Loop::create(options, time);
    ASSERT_TRUE(loop) << to_string(loop.error());
    Responder responder(*port);
    DevicePoller poller(**loop, *port, responder);
    IdleShare idle(**loop);

    constexpr std::uint16_t kPings = 100;
    int answered = 0;
    std::thread kernel([&] {
      const Pinger pinger;
      for (std::uint16_t i = 0; i < kPings; ++i) {
        if (pinger.ping(i, 14U * i)) ++answered;
      }
      (*loop)->post(idle);
    });
    (*loop)->run();
    kernel.join();

    EXPECT_EQ(answered, kPings);
    EXPECT_EQ(responder.echo_answers, kPings);
    EXPECT_GE(responder.arp_answers, 1);
    EXPECT_LT(idle.share, 0.02);
    EXPECT_GE((*loop)->stats().wakes_by_completion, kPings / 2U) << "the descriptor wakes it";
    EXPECT_EQ((*loop)->stats().dozes, 0U);
    EXPECT_EQ(port->stats().rx_dropped, 0U);
    std::printf("idle share of a CPU: %.4f\n", idle.share);
  }
  EXPECT_EQ(pool->lent(), 0U);
  EXPECT_EQ(if_nametoindex("ptap0"), 0U);
}

}  // namespace
}  // namespace pinion::test

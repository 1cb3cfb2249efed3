#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pinion/eventloop/loop.h>
#include <pinion/net/device_poller.h>
#include <pinion/timers/time_source.h>

#include "dpdk_world.h"
#include "wire/arp.h"
#include "wire/byte_order.h"
#include "wire/checksum.h"
#include "wire/ethernet.h"
#include "wire/icmp.h"
#include "wire/ipv4.h"

// From the kernel's ICMP through a tap to a loop that sleeps on the port's descriptor, and back.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

using Bytes = std::span<std::byte>;

constexpr wire::Ipv4Address kOurs = {10, 9, 0, 1};

void put_icmp_checksum(Bytes message) {
  const std::uint16_t sum = wire::checksum_of(message);
  wire::store_be16(message.data() + wire::IcmpMessage::kChecksumOffset, sum);
}

/// Answers ARP requests and echo requests for kOurs, each in the packet that it came in.
class Responder final : public PacketSink {
 public:
  explicit Responder(Device& device) : device_(device) {}

  void receive(Instant now, std::span<Packet* const> packets) override {
    for (Packet* const received : packets) {
      PacketPtr packet(received);
      if (!answer(packet->bytes())) continue;
      Packet* const answer = packet.get();
      if (device_.tx_burst(now, std::span(&answer, 1)) == 1) static_cast<void>(packet.take());
    }
  }

  int arp_answers = 0;
  int echo_answers = 0;

 private:
  bool answer(Bytes frame) {
    const auto asked = wire::parse_ethernet(frame);
    if (!asked) return false;
    const Bytes payload = frame.subspan(asked->size());
    const bool answered = asked->type == wire::EtherType::arp ? answer_arp(payload)
                                                              : answer_echo(asked->type, payload);
    if (!answered) return false;
    const wire::EthernetHeader header{
        .destination = asked->source, .source = device_.info().mac, .type = asked->type};
    wire::emit_ethernet(header, frame);
    return true;
  }

  bool answer_arp(Bytes payload) {
    const auto asked = wire::parse_arp(payload);
    if (!asked || asked->operation != wire::ArpOperation::request) return false;
    if (asked->target != kOurs) return false;
    wire::emit_arp({.operation = wire::ArpOperation::reply,
                    .sender_mac = device_.info().mac,
                    .sender = kOurs,
                    .target_mac = asked->sender_mac,
                    .target = asked->sender},
                   payload);
    ++arp_answers;
    return true;
  }

  bool answer_echo(wire::EtherType type, Bytes payload) {
    if (type != wire::EtherType::ipv4) return false;
    const auto header = wire::parse_ipv4(payload);
    if (!header || header->protocol != IPPROTO_ICMP || header->destination != kOurs) return false;
    const Bytes message = payload.subspan(header->size(), header->payload_size);
    const auto asked = wire::parse_icmp(message);
    if (!asked || !asked->is(wire::IcmpType::echo_request)) return false;
    if (wire::checksum_of(message) != 0) return false;
    wire::Ipv4Header back = *header;  // The kernel's pings have no options.
    back.source = kOurs;
    back.destination = header->source;
    wire::emit_ipv4(back, payload);
    constexpr auto kReply = static_cast<std::uint8_t>(wire::IcmpType::echo_reply);
    wire::emit_icmp({.type = kReply, .detail = asked->detail}, message);
    put_icmp_checksum(message);
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
    put_icmp_checksum(request);
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
    const Patience patience;
    while (patience.wait_for(fd_)) {
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

/// The most that a loop takes that sleeps. One that spins takes all of a CPU.
constexpr double kIdleShare = 0.02;
/// Of one that looks ten times a second whether its port is well again, under a sanitizer.
constexpr double kLookingShare = 0.2;

/// Waits until a thread of this process sleeps; false when it never does.
bool wait_until_asleep(pid_t thread) {
  const std::string file = fmt::format("/proc/self/task/{}/stat", thread);
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (std::chrono::steady_clock::now() < end) {
    std::string line;
    std::getline(std::ifstream(file), line);
    const std::size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] == 'S') return true;
    std::this_thread::yield();
  }
  return false;
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
    std::uint16_t answered = 0;
    std::thread kernel([&, loop_thread = ::gettid()] {
      const Pinger pinger;
      while (answered < kPings && wait_until_asleep(loop_thread) &&
             pinger.ping(answered, 14U * answered)) {
        ++answered;
      }
      (*loop)->post(idle);
    });
    (*loop)->run();
    kernel.join();

    EXPECT_EQ(answered, kPings);
    EXPECT_EQ(responder.echo_answers, answered);
    EXPECT_GE(responder.arp_answers, 1);
    EXPECT_LT(idle.share, kIdleShare);
    EXPECT_GE((*loop)->stats().wakes_by_completion, kPings - 1U) << "the descriptor wakes it";
    EXPECT_EQ((*loop)->stats().dozes, 0U);
    EXPECT_EQ(port->stats().rx_dropped, 0U);
    std::printf("idle share of a CPU: %.4f\n", idle.share);
  }
  EXPECT_EQ(pool->lent(), 0U);
  EXPECT_EQ(if_nametoindex("ptap0"), 0U);
}

class Nobody final : public PacketSink {
 public:
  void receive(Instant, std::span<Packet* const> packets) override {
    for (Packet* const packet : packets) packet->release();
  }
};

/// How much of a CPU a loop takes that sleeps beside the port.
double share_beside(Device& port) {
  MonotonicTime time;
  LoopOptions options;
  options.idle = IdlePolicy::park;
  auto loop = Loop::create(options, time);
  EXPECT_TRUE(loop) << to_string(loop.error());
  Nobody sink;
  const DevicePoller poller(**loop, port, sink);
  IdleShare idle(**loop);
  (*loop)->post(idle);
  (*loop)->run();
  return idle.share;
}

TEST(DpdkSlice, SleepsBesideAnInterfaceThatWentDown) {
  PINION_TEST_NEEDS_PORTS();
  ASSERT_TRUE(shell("ip link add pveth0 type veth peer name pveth1"));
  ASSERT_TRUE(shell("ip link set pveth0 up && ip link set pveth1 up"));
  const auto pool = make_pool({.packets = 1023});
  {
    const auto port = open_port(*pool, "af_packet:pveth0");
    ASSERT_TRUE(shell("ip link set pveth0 down"));
    EXPECT_LT(share_beside(*port), kLookingShare);
    ASSERT_TRUE(shell("ip link set pveth0 up"));
    EXPECT_LT(share_beside(*port), kLookingShare);
  }
  shell("ip link delete pveth0");
}

TEST(DpdkSlice, SleepsBesideATapWhoseInterfaceWasDeleted) {
  PINION_TEST_NEEDS_PORTS();
  const auto pool = make_pool({.packets = 1023});
  const auto port = open_port(*pool, "tap:ptap0");
  ASSERT_TRUE(shell("ip link delete ptap0"));
  EXPECT_LT(share_beside(*port), kLookingShare);
}

/// Closes a port in a task and opens it again.
Task<> open_again(std::unique_ptr<DevicePoller>& poller, std::unique_ptr<DpdkPort>& port,
                  DpdkPacketPool& pool, Loop& loop, bool& opened) {
  poller.reset();
  port.reset();
  auto again = try_port(pool, "tap:ptap0");
  opened = again.has_value();
  EXPECT_TRUE(opened) << to_string(again.error());
  loop.stop();
  co_return;
}

TEST(DpdkSlice, LeavesTheNameOfAPortThatIsClosedFree) {
  PINION_TEST_NEEDS_PORTS();
  const auto pool = make_pool({.packets = 1023});
  MonotonicTime time;
  LoopOptions options;
  options.idle = IdlePolicy::park;
  auto loop = Loop::create(options, time);
  ASSERT_TRUE(loop) << to_string(loop.error());
  auto port = open_port(*pool, "tap:ptap0");
  Nobody sink;
  auto poller = std::make_unique<DevicePoller>(**loop, *port, sink);
  (*loop)->run_until([] { return false; }, 20ms);  // Sleeps on the port's descriptor.
  bool opened = false;
  (*loop)->spawn(open_again(poller, port, *pool, **loop, opened));
  (*loop)->run();
  EXPECT_TRUE(opened);
}

}  // namespace
}  // namespace pinion::test

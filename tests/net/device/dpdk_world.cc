#include "dpdk_world.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pinion::test {
namespace {

constexpr std::size_t kTypeOffset = 12;

void write_to(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(!write(fd, text, std::strlen(text)));
  close(fd);
}

/// Who isn't root is it in a namespace of users of his own.
bool enter_namespace_as_user() {
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  write_to("/proc/self/setgroups", "deny");
  write_to("/proc/self/uid_map", user.c_str());
  write_to("/proc/self/gid_map", group.c_str());
  return true;
}

std::string enter_namespace() {
  if (access("/dev/net/tun", R_OK | W_OK) != 0) return "no /dev/net/tun";
  if (unshare(CLONE_NEWNET) != 0 && !enter_namespace_as_user()) {
    return std::string("no network namespace: ") + std::strerror(errno);
  }
  // No packets of its own accord.
  write_to("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  return {};
}

std::unique_ptr<DpdkEal> eal;

class EalEnvironment final : public ::testing::Environment {
 public:
  void TearDown() override { eal.reset(); }
};

[[maybe_unused]] ::testing::Environment* const environment =
    ::testing::AddGlobalTestEnvironment(new EalEnvironment);

template <class T>
T or_abort(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
    std::abort();
  }
  return std::move(*result);
}

bool is_of_type(std::span<const std::byte> frame, std::size_t type) {
  return frame.size() > kTypeOffset + 1 &&
         frame[kTypeOffset] == static_cast<std::byte>(type >> 8) &&
         frame[kTypeOffset + 1] == static_cast<std::byte>(type);
}

}  // namespace

std::string why_no_ports() {
  static const std::string why = enter_namespace();
  return why;
}

DpdkEal& the_eal() {
  if (eal == nullptr) eal = or_abort(DpdkEal::create({}));
  return *eal;
}

std::unique_ptr<DpdkPacketPool> make_pool(DpdkPoolOptions options) {
  return or_abort(DpdkPacketPool::create(the_eal(), options));
}

Result<std::unique_ptr<DpdkPort>> try_port(DpdkPacketPool& pool, const std::string& name) {
  return PortName::parse(name).and_then(
      [&](const PortName& port) { return DpdkPort::open(the_eal(), pool, port); });
}

std::unique_ptr<DpdkPort> open_port(DpdkPacketPool& pool, const std::string& name) {
  return or_abort(try_port(pool, name));
}

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

bool Patience::wait_for(int fd) const {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(end_ - std::chrono::steady_clock::now());
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  const int timeout = static_cast<int>(std::max(left, milliseconds{0}).count());
  return poll(&wait, 1, timeout) > 0 && wait.revents == POLLIN;
}

KernelEnd::KernelEnd(const std::string& interface, std::size_t type)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(static_cast<std::uint16_t>(type)))) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(static_cast<std::uint16_t>(type));
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
      << std::strerror(errno);
}

KernelEnd::~KernelEnd() {
  close(fd_);
}

bool KernelEnd::offer(std::span<const std::byte> frame) const {
  return write(fd_, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

void KernelEnd::send(std::span<const std::byte> frame) const {
  EXPECT_TRUE(offer(frame)) << std::strerror(errno);
}

std::vector<std::byte> KernelEnd::receive() const {
  std::vector<std::byte> frame(65536);
  const Patience patience;
  while (patience.wait_for(fd_)) {
    sockaddr_ll from{};
    socklen_t size = sizeof(from);
    const ssize_t got =
        recvfrom(fd_, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) break;
    if (from.sll_pkttype == PACKET_OUTGOING) continue;  // Its own.
    frame.resize(static_cast<std::size_t>(got));
    return frame;
  }
  return {};
}

std::vector<std::byte> make_frame(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> frame(size);
  for (std::byte& byte : frame) byte = std::byte{static_cast<std::uint8_t>(random.next())};
  if (size > 0) frame[0] = std::byte{2};  // To one host, from one.
  if (size > 6) frame[6] = std::byte{2};
  if (size > kTypeOffset + 1) {
    frame[kTypeOffset] = std::byte{kFrameType >> 8};
    frame[kTypeOffset + 1] = std::byte{kFrameType & 0xff};
  }
  return frame;
}

std::vector<std::byte> make_datagram(std::uint16_t checksum) {
  constexpr std::array<std::uint8_t, 34> kHeaders = {
      2,    0, 0, 0,  0,  1, 2, 0, 0,  0,  0,    2,     // Ethernet's addresses,
      0x08, 0,                                          // and type.
      0x45, 0, 0, 32, 0,  0, 0, 0, 64, 17, 0x66, 0xb9,  // IPv4,
      10,   9, 0, 2,  10, 9, 0, 1};                     // from 10.9.0.2 to 10.9.0.1.
  constexpr std::array<std::uint8_t, 12> kDatagram = {0, 7, 0, 9, 0, 12, 0, 0, 'd', 'a', 't', 'a'};
  std::vector<std::byte> frame(kHeaders.size() + kDatagram.size());
  std::memcpy(frame.data(), kHeaders.data(), kHeaders.size());
  std::memcpy(frame.data() + kHeaders.size(), kDatagram.data(), kDatagram.size());
  frame[40] = static_cast<std::byte>(checksum >> 8);
  frame[41] = static_cast<std::byte>(checksum);
  return frame;
}

PacketPtr packet_with(PacketPool& pool, std::span<const std::byte> bytes) {
  PacketPtr packet(pool.allocate());
  EXPECT_TRUE(packet);
  std::byte* const room = packet->append(bytes.size());
  EXPECT_NE(room, nullptr);
  std::ranges::copy(bytes, room);
  return packet;
}

PacketPtr chain_with(PacketPool& pool, std::span<const std::byte> bytes, std::size_t segments,
                     Random& random) {
  PacketPtr head;
  Packet* last = nullptr;
  for (std::size_t left = segments; left > 0; --left) {
    const std::size_t most = bytes.size() - (left - 1);
    const std::size_t size = left == 1 ? bytes.size() : random.between<std::size_t>(1, most);
    PacketPtr segment = packet_with(pool, bytes.first(size));
    bytes = bytes.subspan(size);
    Packet* const added = segment.get();
    if (last == nullptr) {
      head = std::move(segment);
    } else {
      last->set_next_segment(segment.take());
    }
    last = added;
  }
  return head;
}

bool sent(Device& device, PacketPtr packet) {
  Packet* const offered = packet.get();
  if (device.tx_burst({}, std::span(&offered, 1)) == 0) return false;
  static_cast<void>(packet.take());
  return true;
}

PacketPtr receive(Device& device, std::size_t type) {
  Packet* taken = nullptr;
  const Patience patience;
  do {
    while (device.rx_burst({}, std::span(&taken, 1)) == 1) {
      PacketPtr packet(taken);
      if (is_of_type(packet->bytes(), type)) return packet;
    }
  } while (patience.wait_for(device.wait_descriptor()));
  return {};
}

std::vector<std::byte> bytes_of(const Packet& packet) {
  std::vector<std::byte> bytes;
  for (const Packet* at = &packet; at != nullptr; at = at->next_segment()) {
    bytes.insert(bytes.end(), at->bytes().begin(), at->bytes().end());
  }
  return bytes;
}

}  // namespace pinion::test

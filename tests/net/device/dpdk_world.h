#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/lib/result.h>
#include <pinion/net/dpdk_eal.h>
#include <pinion/net/dpdk_pool.h>
#include <pinion/net/dpdk_port.h>

/// What tests of DPDK ports share: a network namespace of the process's own, and the one EAL that a
/// process may have.

namespace pinion::test {

/// First in each test that opens a port: whether there is /dev/net/tun, and a namespace in which
/// this process may make interfaces. It is entered at the first call, before there are threads, and
/// goes with the process. Why not, otherwise.
[[nodiscard]] std::string why_no_ports();

#define PINION_TEST_NEEDS_PORTS() \
  if (const std::string why = ::pinion::test::why_no_ports(); !why.empty()) GTEST_SKIP() << why

/// The process's EAL, in 64 MiB of ordinary pages, from the first call to the end of all tests.
[[nodiscard]] DpdkEal& the_eal();

[[nodiscard]] std::unique_ptr<DpdkPacketPool> make_pool(DpdkPoolOptions options = {
                                                            .packets = 1023});

[[nodiscard]] Result<std::unique_ptr<DpdkPort>> try_port(DpdkPacketPool& pool,
                                                         const std::string& name);

/// The port; ends the process with the error when there is none.
[[nodiscard]] std::unique_ptr<DpdkPort> open_port(DpdkPacketPool& pool, const std::string& name);

/// Runs a command of the shell in the namespace, silently; whether it succeeded.
bool shell(const std::string& command);

/// The time that a call of a test may take, however much else comes meanwhile.
class Patience {
 public:
  /// Sleeps until there is something to read. False when the time is over, the descriptor has an
  /// error or was hung up, or there is none.
  [[nodiscard]] bool wait_for(int fd) const;

 private:
  std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds{10};
};

/// An EtherType for experiments (IEEE 802): the kernel has nothing to say to it.
inline constexpr std::size_t kFrameType = 0x88b5;

/// The kernel's end of an interface: a packet socket for frames of one type.
class KernelEnd {
 public:
  explicit KernelEnd(const std::string& interface, std::size_t type = kFrameType);
  ~KernelEnd();
  KernelEnd(const KernelEnd&) = delete;
  KernelEnd& operator=(const KernelEnd&) = delete;

  void send(std::span<const std::byte> frame) const;
  /// The same where it may be refused: whether it was taken.
  bool offer(std::span<const std::byte> frame) const;

  /// The next frame of its type that came in; empty when none did within a Patience.
  [[nodiscard]] std::vector<std::byte> receive() const;

 private:
  int fd_;
};

/// A frame of `size` bytes with that type, random bytes behind it.
[[nodiscard]] std::vector<std::byte> make_frame(std::size_t size, std::uint64_t seed);

inline constexpr std::size_t kIpv4Type = 0x0800;

/// A frame with an IPv4 datagram that has this UDP checksum.
[[nodiscard]] std::vector<std::byte> make_datagram(std::uint16_t checksum);
inline constexpr std::uint16_t kRightChecksum = 0x12ef;

/// A packet of the pool with these bytes.
[[nodiscard]] PacketPtr packet_with(PacketPool& pool, std::span<const std::byte> bytes);

/// The same in a chain, cut at random.
[[nodiscard]] PacketPtr chain_with(PacketPool& pool, std::span<const std::byte> bytes,
                                   std::size_t segments, Random& random);

/// Whether the device took it.
[[nodiscard]] bool sent(Device& device, PacketPtr packet);

/// The next packet of that type, sleeping on the device's descriptor in between; an empty pointer
/// when none came within a Patience.
[[nodiscard]] PacketPtr receive(Device& device, std::size_t type = kFrameType);

/// The bytes of a chain.
[[nodiscard]] std::vector<std::byte> bytes_of(const Packet& packet);

}  // namespace pinion::test

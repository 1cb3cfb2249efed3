#include "dpdk_kernel.h"

#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace pinion::detail {
namespace {

/// One of ethtool's settings that is a number.
std::uint32_t setting_of(int socket, const std::string& interface, std::uint32_t command) {
  ethtool_value value{.cmd = command, .data = 0};
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof(request.ifr_name) - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  return ::ioctl(socket, SIOCETHTOOL, &request) == 0 ? value.data : 0;
}

}  // namespace

int filter_packets(int socket, std::size_t longest) noexcept {
  constexpr auto kPacketType = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
  const auto most = static_cast<std::uint32_t>(longest);
  std::array<sock_filter, 7> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPacketType),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 4, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, most, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, kCutFrame),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0 ? 0 : errno;
}

std::uint64_t take_overruns(int socket) noexcept {
  tpacket_stats counted{};
  socklen_t size = sizeof(counted);
  const bool told = getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &counted, &size) == 0;
  return told ? counted.tp_drops : 0;
}

void take_error(int socket) noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
}

std::uint64_t unsent_packets(const std::string& interface) noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen("/proc/thread-self/net/dev", "re"), &std::fclose);
  if (file == nullptr) return 0;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    std::string_view text(line.data());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (!text.starts_with(interface) || text.substr(interface.size(), 1) != ":") continue;
    std::uint64_t drops = 0;
    // 8 numbers of what came in; bytes, packets and errors of what went out.
    const char* const numbers = text.data() + interface.size() + 1;
    const char* const form = "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64;
    return std::sscanf(numbers, form, &drops) == 1 ? drops : 0;
  }
  return 0;
}

bool joins_segments(const std::string& interface) noexcept {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool generic = setting_of(fd, interface, ETHTOOL_GGRO) != 0;
  const bool large = (setting_of(fd, interface, ETHTOOL_GFLAGS) & ETH_FLAG_LRO) != 0;
  ::close(fd);
  return generic || large;
}

}  // namespace pinion::detail

#include "dpdk_wait.h"

#include <dirent.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include <rte_ethdev.h>

namespace pinion::detail {
namespace {

int option_of(int socket, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// Its driver has one that only asks about the interface beside the one that receives.
bool receives(int socket) noexcept {
  sockaddr_ll address{};
  socklen_t size = sizeof(address);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.sll_ifindex != 0 && address.sll_protocol != 0;
}

}  // namespace

std::vector<int> sockets_of(int family) {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (folder == nullptr) return found;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (error == std::errc{} && option_of(fd, SO_DOMAIN) == family) found.push_back(fd);
  }
  return found;
}

int socket_family(PortKind kind) noexcept {
  return kind == PortKind::af_packet ? AF_PACKET : -1;
}

int find_wait_descriptor(std::uint16_t port, PortKind kind, const std::vector<int>& before) {
  const int family = socket_family(kind);
  if (family < 0) return rte_eth_dev_rx_intr_ctl_q_get_fd(port, 0);
  for (const int fd : sockets_of(family)) {
    if (std::ranges::find(before, fd) == before.end() && receives(fd)) return fd;
  }
  return -1;
}

}  // namespace pinion::detail

#include "dpdk_wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <rte_ethdev.h>

namespace pinion::detail {
namespace {

bool is_packet_socket(int fd) noexcept {
  int domain = -1;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_PACKET;
}

bool is_tap(int fd) {
  constexpr std::string_view kDevice = "/dev/net/tun";
  std::array<char, kDevice.size() + 1> target{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  return size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == kDevice;
}

/// Its driver has one that only asks about the interface beside the one that receives.
bool receives(int socket) noexcept {
  sockaddr_ll address{};
  socklen_t size = sizeof(address);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.sll_ifindex != 0 && address.sll_protocol != 0;
}

}  // namespace

std::vector<int> open_descriptors() {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (folder == nullptr) return found;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (error == std::errc{} && fd != ::dirfd(folder.get())) found.push_back(fd);
  }
  return found;
}

int find_wait_descriptor(std::uint16_t port, PortKind kind, const std::vector<int>& before) {
  if (kind != PortKind::af_packet) return rte_eth_dev_rx_intr_ctl_q_get_fd(port, 0);
  for (const int fd : open_descriptors()) {
    const bool is_new = std::ranges::find(before, fd) == before.end();
    if (is_new && is_packet_socket(fd) && receives(fd)) return fd;
  }
  return -1;
}

void close_on_exec(const std::vector<int>& before) {
  for (const int fd : open_descriptors()) {
    if (std::ranges::find(before, fd) != before.end()) continue;
    if (is_tap(fd) || is_packet_socket(fd)) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

}  // namespace pinion::detail

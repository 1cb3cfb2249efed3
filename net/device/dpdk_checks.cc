#include "dpdk_checks.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

namespace pinion::detail {
namespace {

/// The number in a file of one line; 0 when there is none.
std::uint64_t number_in(const std::string& path) noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  unsigned long long number = 0;
  if (file == nullptr || std::fscanf(file.get(), "%llu", &number) != 1) return 0;
  return number;
}

bool has_capability(unsigned capability) noexcept {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return ((data[capability / 32].effective >> (capability % 32)) & 1U) != 0;
}

tl::unexpected<Error> without_capability(const PortName& name, const char* capability) {
  return fail(ErrorCode::permission_denied,
              fmt::format("cannot open {}: this process has not {}", to_string(name), capability),
              fmt::format("run it as root, or: setcap {}+ep PROGRAM", capability));
}

Result<> check_tun_device(const PortName& name) {
  const int fd = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
    return {};
  }
  const int error = errno;
  const bool absent = error == ENOENT || error == ENODEV || error == ENXIO;
  return tl::unexpected(errno_error(
      error, fmt::format("cannot open {}: /dev/net/tun can't be opened", to_string(name)),
      absent ? "modprobe tun; in a container: docker run --device /dev/net/tun"
             : "run it as root, or: chmod 0666 /dev/net/tun"));
}

Result<> check_tap(const PortName& name) {
  if (!has_capability(CAP_NET_ADMIN)) return without_capability(name, "cap_net_admin");
  if (if_nametoindex(name.name.c_str()) != 0) {
    return fail(
        ErrorCode::already_exists,
        fmt::format("cannot open {}: there is an interface '{}'", to_string(name), name.name),
        fmt::format("another name, or: ip link delete {}", name.name));
  }
  return check_tun_device(name);
}

Result<> check_interface(const PortName& name) {
  if (if_nametoindex(name.name.c_str()) != 0) return {};
  return fail(ErrorCode::not_found,
              fmt::format("cannot open {}: there is no interface '{}'", to_string(name), name.name),
              "one of those that `ip link` lists");
}

}  // namespace

std::uint64_t free_hugepage_bytes(const char* folder) noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> sizes(::opendir(folder), &::closedir);
  if (sizes == nullptr) return 0;
  std::uint64_t bytes = 0;
  while (const dirent* const entry = ::readdir(sizes.get())) {
    unsigned long long kib = 0;
    if (std::sscanf(entry->d_name, "hugepages-%llukB", &kib) != 1) continue;
    bytes += kib * 1024 * number_in(fmt::format("{}/{}/free_hugepages", folder, entry->d_name));
  }
  return bytes;
}

std::size_t interface_mtu(const char* name) noexcept {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
  const bool known = ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  ::close(fd);
  return known ? static_cast<std::size_t>(request.ifr_mtu) : 0;
}

Result<bool> choose_hugepages(const DpdkMemory& memory, std::uint64_t free_bytes) {
  if (memory.pages == DpdkMemory::Pages::ordinary) return false;
  if (free_bytes >= memory.bytes) return true;
  if (memory.pages == DpdkMemory::Pages::either) return false;
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return fail(
      ErrorCode::resource_exhausted,
      fmt::format("need {} MiB of hugepages, {} MiB free", memory.bytes >> 20, free_bytes >> 20),
      fmt::format("sysctl -w vm.nr_hugepages={}, or --memory=small",
                  (memory.bytes + kPage - 1) / kPage));
}

Result<> check_port(const PortName& name) {
  switch (name.kind) {
    case PortKind::tap:
      return check_tap(name);
    case PortKind::af_packet:
      if (!has_capability(CAP_NET_RAW)) return without_capability(name, "cap_net_raw");
      return check_interface(name);
    case PortKind::af_xdp:
    case PortKind::memif:
    case PortKind::pci:
      break;
  }
  return fail(ErrorCode::unsupported,
              fmt::format("cannot open {}: ports of kind {} are not supported", to_string(name),
                          to_string(name.kind)),
              "a port of kind tap or af_packet");
}

}  // namespace pinion::detail

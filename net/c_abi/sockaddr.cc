#include "sockaddr.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace pinion::c_abi {

int read_sockaddr(const sockaddr* address, socklen_t size, Endpoint& into) noexcept {
  if (address == nullptr) return -EFAULT;
  sa_family_t family = AF_UNSPEC;
  if (size < sizeof(family) || size > sizeof(sockaddr_storage)) return -EINVAL;
  std::memcpy(&family, address, sizeof(family));
  if (family == AF_INET) {
    sockaddr_in in{};
    if (size < sizeof(in)) return -EINVAL;
    std::memcpy(&in, address, sizeof(in));
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    into = {IpAddress::v4(bytes), ntohs(in.sin_port)};
    return 0;
  }
  if (family != AF_INET6) return -EAFNOSUPPORT;
  sockaddr_in6 in{};
  if (size < sizeof(in)) return -EINVAL;
  std::memcpy(&in, address, sizeof(in));
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  into = {IpAddress::v6(bytes), ntohs(in.sin6_port)};
  return 0;
}

int read_sockaddr(const sockaddr* address, socklen_t size, bool v6, Endpoint& into) noexcept {
  Endpoint endpoint;
  if (const int error = read_sockaddr(address, size, endpoint); error != 0) return error;
  if (endpoint.address.is_v6() != v6) return -EAFNOSUPPORT;
  into = endpoint;
  return 0;
}

void write_sockaddr(const Endpoint& endpoint, sockaddr* address, socklen_t* size) noexcept {
  const auto write = [&](const auto& in) {
    std::memcpy(address, &in, std::min<std::size_t>(*size, sizeof(in)));
    *size = sizeof(in);
  };
  if (endpoint.address.is_v4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    std::memcpy(&in.sin_addr, endpoint.address.bytes().data(), 4);
    return write(in);
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(endpoint.port);
  std::memcpy(&in.sin6_addr, endpoint.address.bytes().data(), 16);
  write(in);
}

}  // namespace pinion::c_abi

#include "socket.h"

#include <linux/tcp.h>  // Its tcp_info is longer than that of netinet/tcp.h.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace pinion::detail {
namespace {

// The wheel decides when to probe: the kernel's own keepalive stays as far away as it can.
constexpr int kKernelInterval = 32767;
constexpr int kKernelProbes = 127;

/// States of TCP after the peer's FIN, as the kernel numbers them (linux/tcp_states.h).
constexpr int kTimeWait = 6;
constexpr int kCloseWait = 8;
constexpr int kLastAck = 9;
constexpr int kClosing = 11;

template <class Value>
void set_option(int fd, int level, int name, Value value) noexcept {
  setsockopt(fd, level, name, &value, sizeof value);
}

void prepare_socket(int fd, const StreamOptions& options) noexcept {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, options.no_delay ? 1 : 0);
  // An urgent byte is a byte of the stream (RFC 6093 4).
  set_option(fd, SOL_SOCKET, SO_OOBINLINE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKernelInterval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKernelProbes);
}

}  // namespace

SocketAddress::SocketAddress(const Endpoint& endpoint) noexcept {
  const auto& bytes = endpoint.address.bytes();
  if (endpoint.address.is_v4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    std::memcpy(&address.sin_addr, bytes.data(), sizeof address.sin_addr);
    std::memcpy(&storage, &address, sizeof address);
    size = sizeof address;
  } else {
    storage.sin6_family = AF_INET6;
    storage.sin6_port = htons(endpoint.port);
    std::memcpy(&storage.sin6_addr, bytes.data(), sizeof storage.sin6_addr);
  }
}

Endpoint SocketAddress::endpoint() const noexcept {
  if (storage.sin6_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &storage, sizeof address);
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &address.sin_addr, bytes.size());
    return {IpAddress::v4(bytes), ntohs(address.sin_port)};
  }
  if (storage.sin6_family == AF_INET6) {
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), &storage.sin6_addr, bytes.size());
    return {IpAddress::v6(bytes), ntohs(storage.sin6_port)};
  }
  return {};
}

int open_connector(const Endpoint& peer, const StreamOptions& options) noexcept {
  const int family = peer.address.is_v4() ? AF_INET : AF_INET6;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  prepare_socket(fd, options);
  return fd;
}

Endpoint local_endpoint(int fd) noexcept {
  SocketAddress address;
  if (getsockname(fd, address.raw(), &address.size) != 0) return {};
  return address.endpoint();
}

Endpoint peer_endpoint(int fd) noexcept {
  SocketAddress address;
  if (getpeername(fd, address.raw(), &address.size) != 0) return {};
  return address.endpoint();
}

void reset_socket(int fd) noexcept {
  // Disconnecting sends RST (RFC 9293 3.10.5) whoever holds the socket; closing the descriptor
  // would do nothing before the ring lets go of it.
  sockaddr address{};
  address.sa_family = AF_UNSPEC;
  connect(fd, &address, sizeof address);
}

void send_fin(int fd) noexcept {
  shutdown(fd, SHUT_WR);
}

void discard_socket(int fd) noexcept {
  reset_socket(fd);
  close(fd);
}

std::size_t unread_bytes(int fd) noexcept {
  int bytes = 0;
  if (ioctl(fd, FIONREAD, &bytes) != 0) return 0;
  return static_cast<std::size_t>(std::max(bytes, 0));
}

std::uint64_t received_bytes(int fd) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  // The kernel counts FIN, too (tcp_rcv_nxt_update).
  const int state = info.tcpi_state;
  const bool fin =
      state == kTimeWait || state == kCloseWait || state == kLastAck || state == kClosing;
  return info.tcpi_bytes_received - (fin ? 1 : 0);
}

std::int64_t send_at_once(int fd, std::span<const std::byte> bytes) noexcept {
  const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 ? sent : -errno;
}

Delay peer_silence(int fd) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return kNoTimeout;
  // With data on its way the kernel asks by sending that again, or by probes of the peer's window,
  // ever less often, and by nothing else.
  const bool in_flight = info.tcpi_unacked != 0;
  const bool answered =
      in_flight ? info.tcpi_last_ack_recv <= info.tcpi_last_data_sent : info.tcpi_probes == 0;
  if ((in_flight || info.tcpi_notsent_bytes != 0) && answered) return Delay{};
  return std::chrono::milliseconds{std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv)};
}

void send_keepalive_probe(int fd) noexcept {
  // Shortening the idle time of a connection that has been idle for longer sends a probe at once
  // (tcp_sock_set_keepidle). The next one by the kernel's own interval never comes.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
}

void stop_keepalive_probes(int fd) noexcept {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
}

StreamError stream_error(int errno_value) noexcept {
  switch (errno_value) {
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ECONNABORTED:
      return StreamError::reset;
    case ETIMEDOUT:
      return StreamError::peer_timeout;
    case EHOSTUNREACH:  // As the kernel says that it gave up retransmitting, when ICMP told it why.
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      return StreamError::unreachable;
    case ENOBUFS:
    case ENOMEM:
      return StreamError::no_resources;
    default:
      return StreamError::io_error;
  }
}

StreamError connect_error(int errno_value) noexcept {
  switch (errno_value) {
    case ECONNREFUSED:
    case ECONNRESET:
      return StreamError::refused;
    case ETIMEDOUT:
      return StreamError::connect_timeout;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EAFNOSUPPORT:
    case EACCES:
    case EPERM:
    case EINVAL:
      return StreamError::unreachable;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL:
    case EAGAIN:
      return StreamError::no_resources;
    default:
      return StreamError::io_error;
  }
}

bool is_transient(int errno_value) noexcept {
  return errno_value == EINTR || errno_value == EAGAIN;
}

bool is_exhaustion(int errno_value) noexcept {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS ||
         errno_value == ENOMEM;
}

}  // namespace pinion::detail

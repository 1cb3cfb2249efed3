#include <netinet/in.h>

#include <algorithm>

#include "../stack/ip_kinds.h"
#include "sockaddr.h"
#include "stack.h"

/// Sockets begin, are named, listen, connect and end.

namespace pinion::c_abi {
namespace {

constexpr std::uint32_t kMostBacklog = 4'096;

int errno_of(TcpConnectError error) noexcept {
  switch (error) {
    case TcpConnectError::unreachable:
      return ENETUNREACH;
    case TcpConnectError::address_used:
    case TcpConnectError::no_ports:
      return EADDRNOTAVAIL;
    case TcpConnectError::no_resources:
      return ENOBUFS;
  }
  return EIO;
}

bool overlaps(const Endpoint& a, const Endpoint& b) noexcept {
  if (a.port != b.port || a.address.is_v4() != b.address.is_v4()) return false;
  return a.address == b.address || is_unspecified(a.address) || is_unspecified(b.address);
}

/// Whether another stream's socket keeps `self` from having `local`.
bool is_taken(Stack& stack, const Socket& self, const Endpoint& local, bool to_listen) noexcept {
  return std::ranges::any_of(stack.sockets(), [&](const Socket& other) {
    if (!other.used || !other.stream || &other == &self || other.local.port == 0) return false;
    if (!overlaps(other.local, local)) return false;
    if (other.phase == SocketPhase::listening) return true;
    if (to_listen) return false;  // It was bound beside that one before.
    return !self.settings.reuse_address || !other.settings.reuse_address;
  });
}

/// A port that no socket has at `address`; 0 when there is none.
std::uint16_t free_port(Stack& stack, const Socket& self, const IpAddress& address) noexcept {
  const std::uint32_t count = std::uint32_t{stack.last_port()} - stack.first_port() + 1;
  const std::uint32_t start = stack.draw_port();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t step = (start - stack.first_port() + i) % count;
    const auto port = static_cast<std::uint16_t>(stack.first_port() + step);
    const auto has = [&](const Socket& other) {
      return other.used && other.stream && &other != &self &&
             overlaps(other.local, {address, port});
    };
    if (std::ranges::none_of(stack.sockets(), has)) return port;
  }
  return 0;
}

int bind_stream(Stack& stack, Socket& socket, Endpoint local) noexcept {
  if (!is_unspecified(local.address) && !stack.ip().is_local(local.address)) {
    return -EADDRNOTAVAIL;
  }
  if (local.port == 0) {
    local.port = free_port(stack, socket, local.address);
    if (local.port == 0) return -EADDRINUSE;
  } else if (is_taken(stack, socket, local, false)) {
    return -EADDRINUSE;
  }
  socket.local = local;
  socket.bound = true;
  return 0;
}

int listen_stream(Stack& stack, Socket& socket, int backlog) noexcept {
  const std::uint32_t most = backlog < 0 ? kMostBacklog : static_cast<std::uint32_t>(backlog);
  socket.backlog = std::clamp(most, 1U, kMostBacklog);
  if (socket.phase == SocketPhase::listening) {
    stack.tcp().set_options(socket.listener, socket.tcp_options());
    return 0;
  }
  if (socket.phase != SocketPhase::fresh) return -EINVAL;
  if (!socket.bound) {
    if (const int error = bind_stream(stack, socket, socket.any()); error != 0) return error;
  }
  if (is_taken(stack, socket, socket.local, true)) return -EADDRINUSE;
  return with_memory([&] {
    const auto listener = stack.tcp().listen(socket.local, socket.tcp_options(), nullptr);
    if (!listener) {
      switch (listener.error().code) {
        case ErrorCode::already_exists:
          return -EADDRINUSE;
        case ErrorCode::resource_exhausted:
          return -ENOBUFS;
        default:
          return -EADDRNOTAVAIL;
      }
    }
    socket.listener = *listener;
    socket.phase = SocketPhase::listening;
    return 0;
  });
}

int accept_stream(Stack& stack, Socket& listener, int flags) noexcept {
  if (!listener.stream) return -EOPNOTSUPP;
  if (listener.phase != SocketPhase::listening) return -EINVAL;
  if (stack.tcp().waiting(listener.listener) == 0) return -EAGAIN;
  const int fd = stack.reserve();
  if (fd < 0) return fd;
  Socket& socket = stack.at(fd);
  socket.begin(true, listener.v6, listener.settings);
  socket.non_blocking = (flags & SOCK_NONBLOCK) != 0;
  socket.connection = stack.tcp().accept(listener.listener, &socket);
  socket.phase = SocketPhase::connected;
  if (const auto info = stack.tcp().info(socket.connection)) {
    socket.local = info->local;
    socket.peer = info->remote;
  }
  return fd;
}

/// Sends SYN: -EINPROGRESS.
int start_connecting(Stack& stack, Socket& socket, const Endpoint& peer) noexcept {
  if (peer.port == 0) return -EINVAL;
  TcpConnectRequest request{.remote = peer, .options = socket.tcp_options().socket};
  if (socket.bound) {
    request.local_port = socket.local.port;
    if (!is_unspecified(socket.local.address)) request.local_address = socket.local.address;
  }
  auto made = stack.tcp().connect(request, &socket, stack.now());
  if (!made && made.error() == TcpConnectError::no_resources) {
    // A close may have been cut short for it; its place is free when that was told.
    stack.settle();
    made = stack.tcp().connect(request, &socket, stack.now());
  }
  if (!made) return -errno_of(made.error());
  socket.connection = *made;
  socket.phase = SocketPhase::connecting;
  socket.untold = true;
  socket.over = socket.write_blocked = socket.read_shut = socket.write_shut = false;
  socket.peer = peer;
  if (const auto info = stack.tcp().info(*made)) socket.local = info->local;
  return -EINPROGRESS;
}

/// After a failure: as it was before connect().
int end_failed(Stack& stack, Socket& socket) noexcept {
  const int error = socket.take_error();
  stack.tcp().set_observer(socket.connection, nullptr);
  stack.tcp().close(socket.connection, stack.now());
  socket.connection = {};
  socket.phase = SocketPhase::fresh;
  socket.over = false;
  socket.peer = socket.any();
  if (!socket.bound) socket.local = socket.any();
  return -error;
}

int connect_stream(Stack& stack, int fd, const Endpoint& peer) noexcept {
  Socket& socket = stack.at(fd);
  if (socket.phase == SocketPhase::failed) {
    // SO_ERROR may have told of it already.
    if (const int error = end_failed(stack, socket); error != 0) return error;
  }
  bool again = socket.phase == SocketPhase::connecting;
  if (socket.phase == SocketPhase::fresh) {
    const int started = start_connecting(stack, socket, peer);
    if (started != -EINPROGRESS) return started;
    stack.settle();
  }
  const auto result = retry(stack, fd, POLLOUT, socket.settings.send_timeout, false,
                            [&stack](Socket& s) -> ssize_t {
                              if (s.phase == SocketPhase::connecting) return -EAGAIN;
                              if (s.phase == SocketPhase::failed) {
                                // SO_ERROR may have told of it in the hook.
                                const int error = end_failed(stack, s);
                                return error != 0 ? error : -ECONNABORTED;
                              }
                              if (s.phase != SocketPhase::connected) return -EISCONN;
                              if (!s.untold) return -EISCONN;
                              s.untold = false;
                              if (!s.over) return 0;
                              const int error = s.take_error();
                              return error != 0 ? -error : -ECONNABORTED;
                            });
  if (result == -EAGAIN) return again ? -EALREADY : -EINPROGRESS;
  return static_cast<int>(result);
}

void close_stream(Stack& stack, Socket& socket) noexcept {
  if (socket.phase == SocketPhase::listening) {
    return stack.tcp().close(socket.listener, stack.now());
  }
  if (!socket.connection) return;
  stack.tcp().set_observer(socket.connection, nullptr);
  if (socket.settings.linger && socket.settings.linger_s == 0) {
    return stack.tcp().abort(socket.connection, stack.now());
  }
  stack.tcp().close(socket.connection, stack.now());
}

}  // namespace

/// A UDP socket takes its queue when it gets a name.
int bind_datagram(Stack& stack, Socket& socket, const Endpoint& local,
                  const Endpoint* peer) noexcept {
  return with_memory([&]() -> int {
    const bool fresh = !socket.udp;
    if (fresh) {
      const std::size_t bytes = socket.settings.receive_buffer;
      const std::size_t most = std::max<std::size_t>(bytes / stack.pool().buffer_size(), 1);
      socket.udp.emplace(
          stack.udp(),
          UdpSocketOptions{.datagrams = std::min(most, stack.pool().capacity()), .bytes = bytes});
      socket.udp->set_traffic_class(socket.settings.traffic_class);
    }
    const Result<> done = peer != nullptr ? socket.udp->connect(*peer) : socket.udp->bind(local);
    if (done) {
      socket.bound = true;
      socket.local = socket.udp->local();
      if (peer != nullptr) socket.peer = *peer;
      return 0;
    }
    if (fresh) socket.udp.reset();
    switch (done.error().code) {
      case ErrorCode::not_found:
        return -EADDRNOTAVAIL;
      case ErrorCode::already_exists:
      case ErrorCode::resource_exhausted:
        return -EADDRINUSE;
      case ErrorCode::unavailable:
        return -ENETUNREACH;
      default:
        return -EINVAL;
    }
  });
}

}  // namespace pinion::c_abi

using namespace pinion::c_abi;
using pinion::Endpoint;

int pinion_stack_socket(pinion_stack* stack, int domain, int type, int protocol) noexcept {
  if (stack == nullptr) return -EFAULT;
  if (domain != AF_INET && domain != AF_INET6) return -EAFNOSUPPORT;
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (kind != SOCK_STREAM && kind != SOCK_DGRAM) return -ESOCKTNOSUPPORT;
  const bool stream = kind == SOCK_STREAM;
  if (protocol != 0 && protocol != (stream ? IPPROTO_TCP : IPPROTO_UDP)) return -EPROTONOSUPPORT;
  const int fd = stack->reserve();
  if (fd < 0) return fd;
  Socket& socket = stack->at(fd);
  socket.begin(stream, domain == AF_INET6, stack->default_settings());
  socket.non_blocking = (type & SOCK_NONBLOCK) != 0;
  return fd;
}

int pinion_stack_bind(pinion_stack* stack, int fd, const sockaddr* address,
                      socklen_t size) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  Endpoint local;
  if (const int error = read_sockaddr(address, size, socket->v6, local)) {
    return error;
  }
  if (socket->bound || socket->phase != SocketPhase::fresh) return -EINVAL;
  if (socket->stream) return bind_stream(*stack, *socket, local);
  return bind_datagram(*stack, *socket, local, nullptr);
}

int pinion_stack_listen(pinion_stack* stack, int fd, int backlog) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  if (!socket->stream) return -EOPNOTSUPP;
  const Call call(*stack);
  return listen_stream(*stack, *socket, backlog);
}

int pinion_stack_accept(pinion_stack* stack, int fd, sockaddr* address, socklen_t* size) noexcept {
  return pinion_stack_accept4(stack, fd, address, size, 0);
}

int pinion_stack_accept4(pinion_stack* stack, int fd, sockaddr* address, socklen_t* size,
                         int flags) noexcept {
  if (stack == nullptr || (address != nullptr && size == nullptr)) return -EFAULT;
  const Socket* const listener = stack->find(fd);
  if (listener == nullptr) return -EBADF;
  if ((flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != 0) return -EINVAL;
  const Call call(*stack);
  const ssize_t accepted =
      retry(*stack, fd, POLLIN, listener->settings.receive_timeout, false,
            [&](Socket& socket) -> ssize_t { return accept_stream(*stack, socket, flags); });
  if (accepted >= 0 && address != nullptr) {
    write_sockaddr(stack->at(static_cast<int>(accepted)).peer, address, size);
  }
  return static_cast<int>(accepted);
}

int pinion_stack_connect(pinion_stack* stack, int fd, const sockaddr* address,
                         socklen_t size) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  Endpoint peer;
  if (const int error = read_sockaddr(address, size, socket->v6, peer)) {
    return error;
  }
  peer = socket->reached_by(peer);
  const Call call(*stack);
  if (!socket->stream) return bind_datagram(*stack, *socket, {}, &peer);
  if (socket->phase == SocketPhase::listening) return -EISCONN;
  return connect_stream(*stack, fd, peer);
}

int pinion_stack_shutdown(pinion_stack* stack, int fd, int how) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
  if (socket->stream ? socket->phase != SocketPhase::connected || socket->over
                     : socket->peer.port == 0) {
    return -ENOTCONN;
  }
  const Call call(*stack);
  if (how != SHUT_WR) socket->read_shut = true;
  if (how == SHUT_RD || socket->write_shut) return 0;
  socket->write_shut = true;
  if (socket->stream) stack->tcp().shutdown_write(socket->connection, stack->now());
  return 0;
}

int pinion_stack_close(pinion_stack* stack, int fd) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  const Call call(*stack);
  if (socket->stream) close_stream(*stack, *socket);
  stack->release(fd);
  return 0;
}

int pinion_stack_getsockname(pinion_stack* stack, int fd, sockaddr* address,
                             socklen_t* size) noexcept {
  if (stack == nullptr || address == nullptr || size == nullptr) return -EFAULT;
  const Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  Endpoint local = socket->local;
  if (!socket->stream && socket->peer.port != 0 && pinion::is_unspecified(local.address)) {
    local.address = stack->ip().source_for(socket->peer.address).value_or(local.address);
  }
  write_sockaddr(local, address, size);
  return 0;
}

int pinion_stack_getpeername(pinion_stack* stack, int fd, sockaddr* address,
                             socklen_t* size) noexcept {
  if (stack == nullptr || address == nullptr || size == nullptr) return -EFAULT;
  const Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  const bool connected = socket->stream ? socket->phase == SocketPhase::connected && !socket->over
                                        : socket->peer.port != 0;
  if (!connected) return -ENOTCONN;
  write_sockaddr(socket->peer, address, size);
  return 0;
}

int pinion_stack_set_nonblocking(pinion_stack* stack, int fd, int on) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  socket->non_blocking = on != 0;
  return 0;
}

int pinion_stack_set_wait(pinion_stack* stack, pinion_stack_wait* hook, void* user) noexcept {
  if (stack == nullptr) return -EFAULT;
  stack->set_hook(hook, user);
  return 0;
}

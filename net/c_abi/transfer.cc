
#include <algorithm>
#include <climits>
#include <cstring>

#include <pinion/net/packet_copy.h>

#include "sockaddr.h"
#include "stack.h"

/// Reading and writing.

namespace pinion::c_abi {
namespace {

using Parts = std::span<const iovec>;

constexpr int kMostParts = 1'024;  // IOV_MAX.

/// Their size in all, or why they are none.
ssize_t check_parts(const iovec* parts, int count) noexcept {
  if (count < 0 || count > kMostParts) return -EINVAL;
  if (parts == nullptr && count != 0) return -EFAULT;
  std::size_t sum = 0;
  for (const iovec& part : Parts(parts, static_cast<std::size_t>(count))) {
    if (part.iov_base == nullptr && part.iov_len != 0) return -EFAULT;
    if (part.iov_len > static_cast<std::size_t>(SSIZE_MAX) - sum) return -EINVAL;
    sum += part.iov_len;
  }
  return static_cast<ssize_t>(sum);
}

std::span<std::byte> bytes_of(const iovec& part) noexcept {
  return {static_cast<std::byte*>(part.iov_base), part.iov_len};
}

/// Copies what `parts` have from `offset` on; answers how much that was.
std::size_t gather(Parts parts, std::size_t offset, std::span<std::byte> into) noexcept {
  std::size_t count = 0;
  for (const iovec& part : parts) {
    if (offset >= part.iov_len) {
      offset -= part.iov_len;
      continue;
    }
    const std::size_t size = std::min(part.iov_len - offset, into.size() - count);
    if (size != 0) std::memcpy(into.data() + count, bytes_of(part).data() + offset, size);
    count += size;
    offset = 0;
    if (count == into.size()) break;
  }
  return count;
}

ssize_t read_stream(Stack& stack, Socket& socket, Parts parts, std::size_t size) noexcept {
  switch (socket.phase) {
    case SocketPhase::fresh:
    case SocketPhase::listening:
      return -ENOTCONN;
    case SocketPhase::connecting:
      return -EAGAIN;
    case SocketPhase::failed:
      if (const int error = socket.take_error(); error != 0) return -error;
      return -ENOTCONN;
    case SocketPhase::connected:
      break;
  }
  if (size == 0) return 0;
  std::size_t count = 0;
  TcpOutcome outcome = TcpOutcome::done;
  for (const iovec& part : parts) {
    if (part.iov_len == 0) continue;
    const TcpTransferred got = stack.tcp().read(socket.connection, bytes_of(part), stack.now());
    count += got.bytes;
    outcome = got.outcome;
    if (got.bytes < part.iov_len) break;
  }
  if (count != 0) return static_cast<ssize_t>(count);
  if (outcome == TcpOutcome::finished) return 0;
  if (const int error = socket.take_error(); error != 0) return -error;
  if (socket.over || socket.read_shut) return 0;
  return -EAGAIN;
}

struct Received {
  Parts parts;
  std::size_t size = 0;
  bool true_size = false;
  Endpoint from{};
};

ssize_t read_datagram(Socket& socket, Received& into) noexcept {
  if (const int error = socket.take_error(); error != 0) return -error;
  if (!socket.udp) return socket.read_shut ? 0 : -EAGAIN;
  const std::optional<UdpDatagram> got = socket.udp->receive();
  if (!got) return socket.read_shut ? 0 : -EAGAIN;
  const std::size_t whole = got->packet->chain_size();
  std::size_t offset = 0;
  for (const iovec& part : into.parts) {
    if (part.iov_len == 0) continue;
    offset += copy_out(*got->packet, offset, bytes_of(part));
    if (offset == whole) break;
  }
  into.from = got->from;
  return static_cast<ssize_t>(into.true_size ? whole : offset);
}

/// Takes from `offset` on what there is room for: how much, or -EAGAIN.
ssize_t write_stream(Stack& stack, Socket& socket, Parts parts, std::size_t size,
                     std::size_t offset) noexcept {
  if (socket.phase == SocketPhase::connecting) return -EAGAIN;
  // Of what comes after a part was taken the next call tells.
  if (offset != 0 && socket.over) return -EPIPE;
  if (const int error = socket.take_error(); error != 0) return -error;
  if (socket.phase != SocketPhase::connected || socket.over || socket.write_shut) return -EPIPE;
  std::size_t count = 0;
  while (offset + count < size) {
    std::span<const std::byte> piece;
    if (parts.size() == 1) {
      piece = bytes_of(parts[0]).subspan(offset);
    } else {
      const std::size_t gathered = gather(parts, offset + count, stack.scratch());
      piece = stack.scratch().first(gathered);
    }
    const TcpTransferred done = stack.tcp().write(socket.connection, piece, stack.now());
    count += done.bytes;
    if (done.outcome == TcpOutcome::done) continue;
    if (done.outcome != TcpOutcome::again) return -EPIPE;
    socket.write_blocked = true;
    break;
  }
  return count == 0 && size != offset ? -EAGAIN : static_cast<ssize_t>(count);
}

int errno_of(UdpSend outcome) noexcept {
  switch (outcome) {
    case UdpSend::sent:
      return 0;
    case UdpSend::not_connected:
      return EDESTADDRREQ;
    case UdpSend::other_family:
      return EAFNOSUPPORT;
    case UdpSend::no_destination:
    case UdpSend::no_route:
      return ENETUNREACH;
    case UdpSend::not_ours:
      return EADDRNOTAVAIL;
    case UdpSend::too_long:
      return EMSGSIZE;
    case UdpSend::no_packets:
      return ENOBUFS;
  }
  return EIO;
}

ssize_t write_datagram(Stack& stack, Socket& socket, Parts parts, std::size_t size,
                       const Endpoint* to) noexcept {
  if (const int error = socket.take_error(); error != 0) return -error;
  if (socket.write_shut) return -EPIPE;
  if (to == nullptr && socket.peer.port == 0) return -EDESTADDRREQ;
  if (to != nullptr && to->port == 0) return -EINVAL;
  if (size > Stack::kScratch) return -EMSGSIZE;
  if (!socket.udp) {
    if (const int error = bind_datagram(stack, socket, socket.any(), nullptr); error != 0) {
      return error;
    }
  }
  const std::span<std::byte> payload = stack.scratch().first(gather(parts, 0, stack.scratch()));
  const UdpSend done = to != nullptr ? socket.udp->send_to(payload, *to, stack.now())
                                     : socket.udp->send(payload, stack.now());
  return done == UdpSend::sent ? static_cast<ssize_t>(size) : -errno_of(done);
}

ssize_t read_parts(pinion_stack* stack, int fd, const iovec* parts, int count, int flags,
                   sockaddr* address, socklen_t* address_size) noexcept {
  if (stack == nullptr || (address != nullptr && address_size == nullptr)) return -EFAULT;
  const Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  const ssize_t size = check_parts(parts, count);
  if (size < 0) return size;
  const bool stream = socket->stream;
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | (stream ? 0 : MSG_TRUNC))) != 0) return -EOPNOTSUPP;
  const Call call(*stack);
  Received into{.parts = {parts, static_cast<std::size_t>(count)},
                .size = static_cast<std::size_t>(size),
                .true_size = (flags & MSG_TRUNC) != 0};
  const ssize_t result = retry(*stack, fd, POLLIN, socket->settings.receive_timeout,
                               (flags & MSG_DONTWAIT) != 0, [&](Socket& s) -> ssize_t {
                                 return stream ? read_stream(*stack, s, into.parts, into.size)
                                               : read_datagram(s, into);
                               });
  if (result < 0 || address == nullptr) return result;
  if (stream) {
    *address_size = 0;
  } else {
    write_sockaddr(into.from, address, address_size);
  }
  return result;
}

ssize_t write_parts(pinion_stack* stack, int fd, const iovec* given, int count, int flags,
                    const sockaddr* address, socklen_t address_size) noexcept {
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  const ssize_t checked = check_parts(given, count);
  if (checked < 0) return checked;
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) != 0) return -EOPNOTSUPP;
  const Parts parts(given, static_cast<std::size_t>(count));
  const auto size = static_cast<std::size_t>(checked);
  const Call call(*stack);
  if (!socket->stream) {
    Endpoint to;
    if (address == nullptr) return write_datagram(*stack, *socket, parts, size, nullptr);
    if (const int error = read_sockaddr(address, address_size, socket->v6, to)) return error;
    to = socket->reached_by(to);
    return write_datagram(*stack, *socket, parts, size, &to);
  }
  if (address != nullptr) return -EISCONN;
  // A blocking write takes all, unless it fails underway.
  std::size_t done = 0;
  const ssize_t result = retry(*stack, fd, POLLOUT, socket->settings.send_timeout,
                               (flags & MSG_DONTWAIT) != 0, [&](Socket& s) -> ssize_t {
                                 const ssize_t taken = write_stream(*stack, s, parts, size, done);
                                 if (taken < 0) return taken;
                                 done += static_cast<std::size_t>(taken);
                                 return done == size ? taken : -EAGAIN;
                               });
  return done != 0 ? static_cast<ssize_t>(done) : result;
}

}  // namespace
}  // namespace pinion::c_abi

using pinion::c_abi::read_parts;
using pinion::c_abi::write_parts;

ssize_t pinion_stack_read(pinion_stack* stack, int fd, void* buffer, size_t size) noexcept {
  const iovec whole{.iov_base = buffer, .iov_len = size};
  return read_parts(stack, fd, &whole, 1, 0, nullptr, nullptr);
}

ssize_t pinion_stack_readv(pinion_stack* stack, int fd, const iovec* parts, int count) noexcept {
  return read_parts(stack, fd, parts, count, 0, nullptr, nullptr);
}

ssize_t pinion_stack_recvfrom(pinion_stack* stack, int fd, void* buffer, size_t size, int flags,
                              sockaddr* address, socklen_t* address_size) noexcept {
  const iovec whole{.iov_base = buffer, .iov_len = size};
  return read_parts(stack, fd, &whole, 1, flags, address, address_size);
}

ssize_t pinion_stack_write(pinion_stack* stack, int fd, const void* data, size_t size) noexcept {
  const iovec whole{.iov_base = const_cast<void*>(data), .iov_len = size};
  return write_parts(stack, fd, &whole, 1, 0, nullptr, 0);
}

ssize_t pinion_stack_writev(pinion_stack* stack, int fd, const iovec* parts, int count) noexcept {
  return write_parts(stack, fd, parts, count, 0, nullptr, 0);
}

ssize_t pinion_stack_sendto(pinion_stack* stack, int fd, const void* data, size_t size, int flags,
                            const sockaddr* address, socklen_t address_size) noexcept {
  const iovec whole{.iov_base = const_cast<void*>(data), .iov_len = size};
  return write_parts(stack, fd, &whole, 1, flags, address, address_size);
}

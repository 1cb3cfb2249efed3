#include <poll.h>

#include <climits>

#include "stack.h"

/// Readiness, as poll(2) of Linux has it.

// Only <poll.h> with _GNU_SOURCE has these.
#ifndef POLLRDHUP
#define POLLRDHUP 0x2000
#endif

namespace pinion::c_abi {
namespace {

constexpr int kIn = POLLIN | POLLRDNORM;
constexpr int kOut = POLLOUT | POLLWRNORM;
constexpr int kAlways = POLLERR | POLLHUP;

int of_connection(Stack& stack, const Socket& socket) noexcept {
  const auto info = stack.tcp().info(socket.connection);
  if (socket.over || !info) return kIn | kOut | POLLRDHUP | POLLHUP;
  const bool finished = info->end_of_stream || socket.read_shut;
  int ready = 0;
  if (finished) ready |= kIn | POLLRDHUP;
  if (finished && socket.write_shut) ready |= POLLHUP;
  if (info->unread != 0) ready |= kIn;
  if (socket.write_shut || (info->write_room && !socket.write_blocked)) ready |= kOut;
  return ready;
}

int of_stream(Stack& stack, const Socket& socket) noexcept {
  switch (socket.phase) {
    case SocketPhase::fresh:
      return kOut | POLLHUP;
    case SocketPhase::listening:
      return stack.tcp().waiting(socket.listener) != 0 ? kIn : 0;
    case SocketPhase::connecting:
      return 0;
    case SocketPhase::failed:
      return kIn | kOut | POLLRDHUP | POLLHUP;
    case SocketPhase::connected:
      return of_connection(stack, socket);
  }
  return 0;
}

int of_datagrams(Socket& socket) noexcept {
  // Asked here, it is kept until it is told.
  socket.error = socket.take_error();
  int ready = kOut;
  if (socket.udp && socket.udp->waiting() != 0) ready |= kIn;
  if (socket.read_shut) ready |= kIn | POLLRDHUP;
  if (socket.read_shut && socket.write_shut) ready |= POLLHUP;
  return ready;
}

short ready_of(Stack& stack, int fd, short events) noexcept {
  Socket* const socket = stack.find(fd);
  if (socket == nullptr) return POLLNVAL;
  int ready = socket->stream ? of_stream(stack, *socket) : of_datagrams(*socket);
  if (socket->error != 0) ready |= POLLERR;
  return static_cast<short>(ready & (events | kAlways));
}

}  // namespace
}  // namespace pinion::c_abi

int pinion_stack_poll(pinion_stack* stack, pollfd* fds, nfds_t count) noexcept {
  if (stack == nullptr || (fds == nullptr && count != 0)) return -EFAULT;
  if (count > static_cast<nfds_t>(INT_MAX)) return -EINVAL;
  int ready = 0;
  for (pollfd& polled : std::span(fds, count)) {
    polled.revents = 0;
    if (polled.fd < 0) continue;
    polled.revents = pinion::c_abi::ready_of(*stack, polled.fd, polled.events);
    if (polled.revents != 0) ++ready;
  }
  return ready;
}

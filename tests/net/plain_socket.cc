#include "plain_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace pinion::test {
namespace {

/// A ring that this thread had is taken down in the background, which interrupts what it waits in;
/// with a timeout set, the kernel restarts nothing.
bool interrupted() {
  return errno == EINTR;
}

bool connect_uninterrupted(int fd, const sockaddr_in& address) {
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  if (!interrupted()) return false;
  pollfd connecting{fd, POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&connecting, 1, 10'000);
  } while (ready < 0 && interrupted());
  int error = 0;
  socklen_t size = sizeof error;
  return ready == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

PlainSocket& PlainSocket::operator=(PlainSocket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

PlainSocket PlainSocket::connect_to(std::uint16_t port) {
  PlainSocket connected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval bound{10, 0};
  setsockopt(connected.fd_, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  setsockopt(connected.fd_, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!connect_uninterrupted(connected.fd_, address)) connected.close();
  return connected;
}

bool PlainSocket::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && interrupted()) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string PlainSocket::receive(std::size_t size) {
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < size) {
    const ssize_t got = ::recv(fd_, buffer.data(), std::min(buffer.size(), size - text.size()), 0);
    if (got < 0 && interrupted()) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

bool PlainSocket::readable_within(std::chrono::milliseconds time) const {
  pollfd poll_set{fd_, POLLIN, 0};
  return poll(&poll_set, 1, static_cast<int>(time.count())) == 1;
}

std::string PlainSocket::ending() {
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::recv(fd_, &byte, 1, 0);
  } while (got < 0 && interrupted());
  if (got > 0) return "data";
  if (got == 0) return "eof";
  return errno == ECONNRESET ? "reset" : "timeout";
}

void PlainSocket::half_close() {
  shutdown(fd_, SHUT_WR);
}

void PlainSocket::reset() {
  const linger at_once{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void PlainSocket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace pinion::test

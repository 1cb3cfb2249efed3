#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "socket.h"

namespace pinion::detail {
namespace {

/// The endpoints that lcores of this process share. SO_REUSEPORT alone would let a second process
/// take a part of the connections: so the first socket on an endpoint binds without it, which fails
/// when anybody else is there, and allows sharing only afterwards.
class SharedEndpoints {
 public:
  static SharedEndpoints& instance() {
    static SharedEndpoints endpoints;
    return endpoints;
  }

  std::mutex& lock() noexcept { return lock_; }
  [[nodiscard]] bool holds(const Endpoint& endpoint) {
    // What a forked child inherits is its parent's.
    if (std::exchange(process_, getpid()) != getpid()) held_.clear();
    return std::find(held_.begin(), held_.end(), endpoint) != held_.end();
  }
  void add(const Endpoint& endpoint) { held_.push_back(endpoint); }
  void remove(const Endpoint& endpoint) {
    const auto found = std::find(held_.begin(), held_.end(), endpoint);
    if (found != held_.end()) held_.erase(found);
  }

 private:
  std::mutex lock_;
  std::vector<Endpoint> held_;  ///< Once per listener.
  pid_t process_ = getpid();
};

Error listen_error(int errno_value, const Endpoint& endpoint) {
  const std::string what = fmt::format("cannot listen on {}", to_string(endpoint));
  switch (errno_value) {
    case EADDRINUSE:
      return {ErrorCode::already_exists, what + ": the port is in use",
              fmt::format("choose another port; `ss -ltnp 'sport = :{}'` shows who has it",
                          endpoint.port)};
    case EACCES:
      return {ErrorCode::permission_denied,
              fmt::format("{}: port {} is privileged", what, endpoint.port),
              fmt::format("choose a port from 1024 up, or `sysctl -w "
                          "net.ipv4.ip_unprivileged_port_start={}`",
                          endpoint.port)};
    case EADDRNOTAVAIL:
      return {ErrorCode::not_found,
              fmt::format("{}: this host has no address {}", what, to_string(endpoint.address)),
              fmt::format("`ip -br address` lists them; {} listens on all",
                          endpoint.address.is_v4() ? "0.0.0.0" : "[::]")};
    case EAFNOSUPPORT:
      return {ErrorCode::unsupported, what + ": IPv6 is off",
              "listen on an IPv4 address, or `sysctl -w net.ipv6.conf.all.disable_ipv6=0`"};
    case EMFILE:
      return {ErrorCode::resource_exhausted, what + ": no descriptor left", "ulimit -n 65536"};
    default:
      return errno_error(errno_value, what);
  }
}

int set_flag(int fd, int level, int name) noexcept {
  const int on = 1;
  return setsockopt(fd, level, name, &on, sizeof on) == 0 ? 0 : errno;
}

/// Binds and listens; an errno when that fails.
int bind_and_listen(int fd, const Endpoint& endpoint, const ListenOptions& options, bool join) {
  if (const int error = set_flag(fd, SOL_SOCKET, SO_REUSEADDR); error != 0) return error;
  if (endpoint.address.is_v6()) {
    if (const int error = set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY); error != 0) return error;
  }
  if (join) {
    if (const int error = set_flag(fd, SOL_SOCKET, SO_REUSEPORT); error != 0) return error;
  }
  SocketAddress address(endpoint);
  if (bind(fd, address.raw(), address.size) != 0) return errno;
  if (options.share && !join) {
    if (const int error = set_flag(fd, SOL_SOCKET, SO_REUSEPORT); error != 0) return error;
  }
  return listen(fd, std::clamp(options.backlog, 1, 65535)) == 0 ? 0 : errno;
}

}  // namespace

Result<int> open_listener(const Endpoint& endpoint, const ListenOptions& options) {
  SharedEndpoints& shared = SharedEndpoints::instance();
  const std::lock_guard guard(shared.lock());
  // Accepted sockets inherit the options of the listener.
  const int fd = open_connector(endpoint, options.stream);
  if (fd < 0) return tl::unexpected(listen_error(-fd, endpoint));
  const bool join = options.share && shared.holds(endpoint);
  if (const int error = bind_and_listen(fd, endpoint, options, join); error != 0) {
    close(fd);
    return tl::unexpected(listen_error(error, endpoint));
  }
  if (options.share) shared.add(local_endpoint(fd));
  return fd;
}

void stop_listening(int fd, const Endpoint& endpoint, bool shared) noexcept {
  if (shared) {
    SharedEndpoints& endpoints = SharedEndpoints::instance();
    const std::lock_guard guard(endpoints.lock());
    endpoints.remove(endpoint);
    shutdown(fd, SHUT_RDWR);
    return;
  }
  shutdown(fd, SHUT_RDWR);
}

}  // namespace pinion::detail

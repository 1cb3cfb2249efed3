#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "peers/echo_server.h"

/// An echo server on libevent's plain events, which cost less than its bufferevents:
/// edge-triggered, read and written back at once. Timeouts are common timeouts, libevent's queues
/// for many events with the same delay: the read timeout is the read event's own, restarted by
/// libevent; the write timeout is that of the write event, which is added when a socket does not
/// take everything; the idle timeout is an event of its own.

namespace pinion::bench {
namespace {

struct Server {
  event_base* base = nullptr;
  event listener{};
  bool timers = false;
  const timeval* read_timeout = nullptr;  ///< null without timers
  const timeval* write_timeout = nullptr;
  const timeval* idle_timeout = nullptr;
};

struct Connection {
  explicit Connection(Server& owner) : server(owner) {}

  Server& server;
  int fd = -1;
  event readable{};
  event writable{};
  event idle{};
  std::vector<char> unsent;
};

void end(Connection& connection) {
  event_del(&connection.readable);
  event_del(&connection.writable);
  if (connection.server.timers) event_del(&connection.idle);
  close(connection.fd);
  delete &connection;
}

void on_idle(evutil_socket_t, short, void* argument) {
  end(*static_cast<Connection*>(argument));
}

/// Until the socket is empty: a read that does not fill the buffer says so.
void echo(Connection& connection) {
  std::array<char, kReadSize> buffer;
  for (;;) {
    const ssize_t got = recv(connection.fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return end(connection);
    if (connection.server.timers) event_add(&connection.idle, connection.server.idle_timeout);
    const auto size = static_cast<std::size_t>(got);
    const ssize_t sent = send(connection.fd, buffer.data(), size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return end(connection);
    if (sent < got) {
      connection.unsent.assign(buffer.data() + (sent < 0 ? 0 : sent), buffer.data() + got);
      event_add(&connection.writable, connection.server.write_timeout);
      return;
    }
    if (size < buffer.size()) return;
  }
}

void on_readable(evutil_socket_t, short what, void* argument) {
  Connection& connection = *static_cast<Connection*>(argument);
  if ((what & EV_TIMEOUT) != 0) return end(connection);
  if (connection.unsent.empty()) echo(connection);
}

void on_writable(evutil_socket_t, short what, void* argument) {
  Connection& connection = *static_cast<Connection*>(argument);
  if ((what & EV_TIMEOUT) != 0) return end(connection);
  std::vector<char>& unsent = connection.unsent;
  const ssize_t sent = send(connection.fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) return end(connection);
  if (sent > 0) unsent.erase(unsent.begin(), unsent.begin() + sent);
  if (unsent.empty()) return echo(connection);
  event_add(&connection.writable, connection.server.write_timeout);
}

void on_connection(evutil_socket_t listener, short, void* argument) {
  Server& server = *static_cast<Server*>(argument);
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    set_no_delay(fd);
    auto* const connection = new Connection(server);
    connection->fd = fd;
    event_assign(&connection->readable, server.base, fd, EV_READ | EV_ET | EV_PERSIST, &on_readable,
                 connection);
    event_assign(&connection->writable, server.base, fd, EV_WRITE | EV_ET, &on_writable,
                 connection);
    event_add(&connection->readable, server.read_timeout);
    if (!server.timers) continue;
    evtimer_assign(&connection->idle, server.base, &on_idle, connection);
    event_add(&connection->idle, server.idle_timeout);
  }
}

const timeval* common_timeout(event_base* base, std::chrono::seconds delay) {
  const timeval wanted{.tv_sec = delay.count(), .tv_usec = 0};
  return event_base_init_common_timeout(base, &wanted);
}

void run(const EchoServerOptions& options) {
  event_config* const config = event_config_new();
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  event_config_require_features(config, EV_FEATURE_ET);
  Server server;
  server.base = event_base_new_with_config(config);
  require(server.base != nullptr, "event_base_new");
  server.timers = options.timers;
  if (options.timers) {
    server.read_timeout = common_timeout(server.base, echo_timeouts.read);
    server.write_timeout = common_timeout(server.base, echo_timeouts.write);
    server.idle_timeout = common_timeout(server.base, echo_timeouts.idle);
  }
  const int fd = listen_on_loopback();
  event_assign(&server.listener, server.base, fd, EV_READ | EV_PERSIST, &on_connection, &server);
  event_add(&server.listener, nullptr);
  announce(port_of(fd));
  event_base_dispatch(server.base);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  pinion::bench::run(pinion::bench::start_echo_server(argc, argv));
}

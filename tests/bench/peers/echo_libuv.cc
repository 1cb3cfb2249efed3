#include <uv.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "peers/echo_server.h"

/// An echo server on libuv: reads into one buffer of the loop, writes at once, and queues what a
/// socket does not take. Its timers are handles of the connection, started again for each use.

namespace pinion::bench {
namespace {

constexpr std::size_t kTimers = 3;

struct Server {
  uv_loop_t loop{};
  uv_tcp_t listener{};
  bool timers = false;
  std::array<char, kReadSize> buffer{};
};

enum Kind : std::size_t { kRead, kWrite, kIdle };

struct Connection {
  explicit Connection(Server& owner) : server(owner) {}

  Server& server;
  uv_tcp_t socket{};
  std::array<uv_timer_t, kTimers> timers{};
  int open_handles = 0;
  int writes = 0;
};

struct Write {
  uv_write_t request{};
  std::vector<char> bytes;
};

Connection& connection_of(const void* handle) {
  return *static_cast<Connection*>(static_cast<const uv_handle_t*>(handle)->data);
}

uv_handle_t* as_handle(void* handle) {
  return static_cast<uv_handle_t*>(handle);
}

void on_closed(uv_handle_t* handle) {
  Connection& connection = connection_of(handle);
  if (--connection.open_handles == 0) delete &connection;
}

void end(Connection& connection) {
  if (uv_is_closing(as_handle(&connection.socket)) != 0) return;
  uv_close(as_handle(&connection.socket), &on_closed);
  if (!connection.server.timers) return;
  for (uv_timer_t& timer : connection.timers) uv_close(as_handle(&timer), &on_closed);
}

void on_timeout(uv_timer_t* timer) {
  end(connection_of(timer));
}

void start(Connection& connection, Kind kind, std::chrono::milliseconds delay) {
  if (!connection.server.timers) return;
  uv_timer_start(&connection.timers[kind], &on_timeout, static_cast<std::uint64_t>(delay.count()),
                 0);
}

void on_written(uv_write_t* request, int status) {
  Connection& connection = connection_of(request->handle);
  delete static_cast<Write*>(request->data);
  --connection.writes;
  if (status < 0) return end(connection);
  if (connection.writes == 0 && connection.server.timers) {
    uv_timer_stop(&connection.timers[kWrite]);
  }
}

/// The part that has to wait is copied, and the write timeout guards it.
void queue(Connection& connection, const char* bytes, std::size_t count) {
  auto* const write = new Write{.request = {}, .bytes = {bytes, bytes + count}};
  write->request.data = write;
  const uv_buf_t rest = uv_buf_init(write->bytes.data(), static_cast<unsigned>(count));
  auto* const stream = reinterpret_cast<uv_stream_t*>(&connection.socket);
  ++connection.writes;
  start(connection, kWrite, echo_timeouts.write);
  if (uv_write(&write->request, stream, &rest, 1, &on_written) == 0) return;
  delete write;
  --connection.writes;
  end(connection);
}

void on_read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buffer) {
  Connection& connection = connection_of(stream);
  if (got == 0) return;
  if (got < 0) return end(connection);
  start(connection, kIdle, echo_timeouts.idle);
  start(connection, kRead, echo_timeouts.read);
  const uv_buf_t bytes = uv_buf_init(buffer->base, static_cast<unsigned>(got));
  const int sent = connection.writes == 0 ? uv_try_write(stream, &bytes, 1) : UV_EAGAIN;
  if (sent == got) return;
  if (sent < 0 && sent != UV_EAGAIN) return end(connection);
  const std::size_t done = sent < 0 ? 0 : static_cast<std::size_t>(sent);
  queue(connection, buffer->base + done, static_cast<std::size_t>(got) - done);
}

void on_buffer_wanted(uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
  std::array<char, kReadSize>& memory = connection_of(handle).server.buffer;
  *buffer = uv_buf_init(memory.data(), static_cast<unsigned>(memory.size()));
}

void on_connection(uv_stream_t* listener, int status) {
  if (status < 0) return;
  Server& server = *static_cast<Server*>(listener->data);
  auto* const connection = new Connection(server);
  uv_tcp_init(&server.loop, &connection->socket);
  connection->socket.data = connection;
  connection->open_handles = 1;
  if (server.timers) {
    for (uv_timer_t& timer : connection->timers) {
      uv_timer_init(&server.loop, &timer);
      timer.data = connection;
      ++connection->open_handles;
    }
  }
  auto* const stream = reinterpret_cast<uv_stream_t*>(&connection->socket);
  if (uv_accept(listener, stream) != 0) return end(*connection);
  uv_tcp_nodelay(&connection->socket, 1);
  start(*connection, kRead, echo_timeouts.read);
  start(*connection, kIdle, echo_timeouts.idle);
  uv_read_start(stream, &on_buffer_wanted, &on_read);
}

void run(const EchoServerOptions& options) {
  Server server;
  server.timers = options.timers;
  require(uv_loop_init(&server.loop) == 0, "uv_loop_init");
  require(uv_tcp_init(&server.loop, &server.listener) == 0, "uv_tcp_init");
  server.listener.data = &server;
  const int fd = listen_on_loopback();
  require(uv_tcp_open(&server.listener, fd) == 0, "uv_tcp_open");
  auto* const listener = reinterpret_cast<uv_stream_t*>(&server.listener);
  require(uv_listen(listener, 4096, &on_connection) == 0, "uv_listen");
  announce(port_of(fd));
  uv_run(&server.loop, UV_RUN_DEFAULT);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  pinion::bench::run(pinion::bench::start_echo_server(argc, argv));
}

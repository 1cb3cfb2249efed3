#include <array>
#include <asio.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "peers/echo_server.h"

/// An echo server on Asio, one thread and no locks. It is built twice: as it is, on epoll, and with
/// ASIO_HAS_IO_URING and ASIO_DISABLE_EPOLL. Executors are concrete types, so that no call goes
/// through a virtual function. Its timers are steady_timers, for each use set and waited for anew.

namespace pinion::bench {
namespace {

using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;
using Clock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, bool timers)
      : timers_(timers),
        socket_(std::move(socket)),
        read_timer_(socket_.get_executor()),
        write_timer_(socket_.get_executor()),
        idle_timer_(socket_.get_executor()) {}

  void begin() {
    start(idle_timer_, echo_timeouts.idle);
    read();
  }

 private:
  void read() {
    start(read_timer_, echo_timeouts.read);
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](asio::error_code error, std::size_t got) {
                              if (error) return self->end();
                              self->start(self->idle_timer_, echo_timeouts.idle);
                              self->write(got);
                            });
  }

  void write(std::size_t size) {
    start(write_timer_, echo_timeouts.write);
    asio::async_write(socket_, asio::buffer(buffer_.data(), size),
                      [self = shared_from_this()](asio::error_code error, std::size_t) {
                        if (self->timers_) self->write_timer_.cancel();
                        if (error) return self->end();
                        self->read();
                      });
  }

  /// Setting a timer takes back the wait for what it was set to before.
  void start(Timer& timer, std::chrono::seconds delay) {
    if (!timers_) return;
    timer.expires_after(delay);
    timer.async_wait([weak = weak_from_this()](asio::error_code error) {
      if (error) return;
      if (const auto self = weak.lock()) self->end();
    });
  }

  void end() {
    asio::error_code ignored;
    socket_.close(ignored);
    read_timer_.cancel();
    write_timer_.cancel();
    idle_timer_.cancel();
  }

  bool timers_;
  Socket socket_;
  Timer read_timer_;
  Timer write_timer_;
  Timer idle_timer_;
  std::array<char, kReadSize> buffer_;
};

void accept(Acceptor& acceptor, bool timers) {
  acceptor.async_accept([&acceptor, timers](asio::error_code error, Socket socket) {
    if (!error) {
      socket.set_option(asio::ip::tcp::no_delay(true));
      std::make_shared<Connection>(std::move(socket), timers)->begin();
    }
    accept(acceptor, timers);
  });
}

void run(const EchoServerOptions& options) {
  asio::io_context context(ASIO_CONCURRENCY_HINT_UNSAFE);
  const int fd = listen_on_loopback();
  Acceptor acceptor(context, asio::ip::tcp::v4(), fd);
  accept(acceptor, options.timers);
  announce(port_of(fd));
  context.run();
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  pinion::bench::run(pinion::bench::start_echo_server(argc, argv));
}

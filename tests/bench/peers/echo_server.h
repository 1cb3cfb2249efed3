#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

/// What the echo servers of the bench have in common: the command line, the socket, the limits.
///
/// A server is a process of its own, so that the kernel counts what it uses. It ties itself to one
/// cpu, listens on a free port of 127.0.0.1, says which on its first line, and serves until it is
/// killed or its parent dies. Every one does the same: bytes go back as they come, with TCP_NODELAY
/// and without looking at them. With --timers each connection has three timeouts, by the timers of
/// the library that it shows: a read timeout that starts again with each read, a write timeout
/// around each write that can't be done at once, an idle timeout that starts again with data.

namespace pinion::bench {

enum class Waiting { park, adaptive, spin };

struct EchoServerOptions {
  int cpu = -1;
  bool timers = false;
  Waiting waiting = Waiting::park;
  bool once = false;  ///< pinion's: end when the last connection has ended
};

struct EchoTimeouts {
  std::chrono::seconds read{30};
  std::chrono::seconds write{10};
  std::chrono::seconds idle{60};
};

/// What start_echo_server() was told; not changed afterwards.
inline EchoTimeouts echo_timeouts;

/// The most that is read at once, so that all of them have the same size of buffer.
inline constexpr std::size_t kReadSize = 4096;

/// Reads `--cpu N`, `--timers`, `--wait park|adaptive|spin`, `--once`, and `--patient`, which makes
/// all timeouts ten times as long; ties this process to the cpu and to its parent's life, and
/// raises its descriptor limit. On wrong use says so and exits with 2.
EchoServerOptions start_echo_server(int argc, char** argv);

/// Ends the process, with what failed and errno, when `ok` is false.
void require(bool ok, const char* what);

/// A listening socket on a free port of 127.0.0.1 that does not block; ends the process otherwise.
int listen_on_loopback();

/// The port that a listening socket has.
std::uint16_t port_of(int listener);

/// The line that the parent waits for.
void announce(std::uint16_t port);

void set_no_delay(int fd);

}  // namespace pinion::bench

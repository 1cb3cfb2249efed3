#include "peers/echo_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace pinion::bench {
namespace {

[[noreturn]] void wrong_use() {
  fmt::print(
      stderr,
      "usage: echo server: --cpu N [--timers] [--wait park|adaptive|spin] [--once] [--patient]\n");
  std::exit(2);
}

Waiting parse_waiting(std::string_view word) {
  if (word == "park") return Waiting::park;
  if (word == "adaptive") return Waiting::adaptive;
  if (word == "spin") return Waiting::spin;
  wrong_use();
}

int parse_cpu(std::string_view word) {
  int cpu = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), cpu);
  if (error != std::errc{} || end != word.data() + word.size()) wrong_use();
  return cpu;
}

void raise_descriptor_limit() {
  rlimit limit{};
  require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

}  // namespace

void require(bool ok, const char* what) {
  if (ok) return;
  fmt::print(stderr, "error: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

EchoServerOptions start_echo_server(int argc, char** argv) {
  EchoServerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--timers") {
      options.timers = true;
    } else if (word == "--patient") {
      echo_timeouts = {echo_timeouts.read * 10, echo_timeouts.write * 10, echo_timeouts.idle * 10};
    } else if (word == "--once") {
      options.once = true;
    } else if (word == "--cpu" && i + 1 < argc) {
      options.cpu = parse_cpu(argv[++i]);
    } else if (word == "--wait" && i + 1 < argc) {
      options.waiting = parse_waiting(argv[++i]);
    } else {
      wrong_use();
    }
  }
  if (options.cpu < 0 || options.cpu >= CPU_SETSIZE) wrong_use();
  require(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(options.cpu), &one);
  require(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
  raise_descriptor_limit();
  signal(SIGPIPE, SIG_IGN);
  return options;
}

int listen_on_loopback() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  require(fd >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  require(listen(fd, 4096) == 0, "listen");
  return fd;
}

std::uint16_t port_of(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  require(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  return ntohs(address.sin_port);
}

void announce(std::uint16_t port) {
  fmt::print("{}\n", port);
  std::fflush(stdout);
}

void set_no_delay(int fd) {
  const int on = 1;
  require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

}  // namespace pinion::bench

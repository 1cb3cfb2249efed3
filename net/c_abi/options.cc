#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>

#include "../tcp/segment_size.h"
#include "stack.h"

/// Socket options.

namespace pinion::c_abi {
namespace {

/// The value that the caller has, or has room for.
struct Given {
  const void* value;
  socklen_t size;
};

template <class Value>
int read_value(const Given& given, Value& into) noexcept {
  if (given.value == nullptr) return -EFAULT;
  if (given.size < sizeof(into)) return -EINVAL;
  std::memcpy(&into, given.value, sizeof(into));
  return 0;
}

/// An int from `least` to `most`.
template <class To>
int read_int(const Given& given, int least, int most, To& into) noexcept {
  int value = 0;
  if (const int error = read_value(given, value); error != 0) return error;
  if (value < least || value > most) return -EINVAL;
  into = static_cast<To>(value);
  return 0;
}

int read_flag(const Given& given, bool& into) noexcept {
  int value = 0;
  if (const int error = read_value(given, value); error != 0) return error;
  into = value != 0;
  return 0;
}

int read_buffer(const Given& given, std::uint32_t& into) noexcept {
  int value = 0;
  if (const int error = read_value(given, value); error != 0) return error;
  into = bounded_buffer(static_cast<std::uint32_t>(std::max(value, 0)));
  return 0;
}

/// 0 is for ever, as Linux has it, and so is less.
int read_timeout(const Given& given, Delay& into) noexcept {
  timeval value{};
  if (const int error = read_value(given, value); error != 0) return error;
  constexpr auto kSecond = 1'000'000;
  if (value.tv_usec < 0 || value.tv_usec >= kSecond) return -EDOM;
  into = kNoTimeout;
  if (value.tv_sec < 0 || (value.tv_sec == 0 && value.tv_usec == 0)) return 0;
  const Delay seconds = std::chrono::seconds{value.tv_sec};
  const std::int64_t microseconds = std::int64_t{value.tv_usec} * 1'000;
  if (seconds.count() <= INT64_MAX - microseconds) {
    into = std::chrono::nanoseconds{seconds.count() + microseconds};
  }
  return 0;
}

template <class Value>
int write_value(const Value& value, void* into, socklen_t* size) noexcept {
  *size = static_cast<socklen_t>(std::min<std::size_t>(*size, sizeof(value)));
  std::memcpy(into, &value, *size);
  return 0;
}

int write_int(std::int64_t value, void* into, socklen_t* size) noexcept {
  return write_value(static_cast<int>(value), into, size);
}

int write_timeout(Delay timeout, void* into, socklen_t* size) noexcept {
  timeval value{};
  if (timeout != kNoTimeout) {
    value.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
    value.tv_usec = static_cast<suseconds_t>(timeout.count() % 1'000'000'000 / 1'000);
  }
  return write_value(value, into, size);
}

/// -EISCONN for what a connection can't change any more.
int check_unconnected(const Socket& socket) noexcept {
  const bool under_way = socket.stream && (socket.phase == SocketPhase::connecting ||
                                           socket.phase == SocketPhase::connected);
  return under_way ? -EISCONN : 0;
}

/// What is set becomes true of the connection, or of those to come.
void apply_to_listener(Stack& stack, const Socket& socket) noexcept {
  if (socket.phase == SocketPhase::listening) {
    stack.tcp().set_options(socket.listener, socket.tcp_options());
  }
}

void apply_keepalive(Stack& stack, const Socket& socket) noexcept {
  apply_to_listener(stack, socket);
  stack.tcp().set_keepalive(socket.connection, socket.keepalive(), stack.now());
}

int set_buffer(Stack& stack, Socket& socket, bool receive, const Given& given) noexcept {
  if (const int error = check_unconnected(socket); error != 0) return error;
  const bool promised = socket.stream ? socket.phase == SocketPhase::listening : socket.bound;
  if (receive && promised) return -EINVAL;
  std::uint32_t& buffer = receive ? socket.settings.receive_buffer : socket.settings.send_buffer;
  if (const int error = read_buffer(given, buffer); error != 0) return error;
  apply_to_listener(stack, socket);
  return 0;
}

int set_socket_option(Stack& stack, Socket& socket, int name, const Given& given) noexcept {
  SocketSettings& settings = socket.settings;
  switch (name) {
    case SO_REUSEADDR:
      return read_flag(given, settings.reuse_address);
    case SO_KEEPALIVE: {
      const int error = read_flag(given, settings.keepalive);
      if (error == 0 && socket.stream) apply_keepalive(stack, socket);
      return error;
    }
    case SO_LINGER: {
      linger value{};
      if (const int error = read_value(given, value); error != 0) return error;
      if (value.l_onoff != 0 && value.l_linger < 0) return -EINVAL;
      settings.linger = value.l_onoff != 0;
      settings.linger_s = value.l_linger;
      return 0;
    }
    case SO_RCVTIMEO:
      return read_timeout(given, settings.receive_timeout);
    case SO_SNDTIMEO:
      return read_timeout(given, settings.send_timeout);
    case SO_RCVBUF:
    case SO_SNDBUF:
      return set_buffer(stack, socket, name == SO_RCVBUF, given);
    default:
      return -ENOPROTOOPT;
  }
}

int set_max_segment(Socket& socket, const Given& given) noexcept {
  constexpr int kMost = 32'767;
  if (const int error = check_unconnected(socket); error != 0) return error;
  if (socket.phase == SocketPhase::listening) return -EINVAL;
  int value = 0;
  if (const int error = read_int(given, 0, kMost, value); error != 0) return error;
  if (value != 0 && value < int{kLeastClamp}) return -EINVAL;
  socket.settings.max_segment = static_cast<std::uint16_t>(value);
  return 0;
}

int set_keepalive_part(Stack& stack, Socket& socket, int most, int& part,
                       const Given& given) noexcept {
  const int error = read_int(given, 1, most, part);
  if (error == 0) apply_keepalive(stack, socket);
  return error;
}

int set_tcp_option(Stack& stack, Socket& socket, int name, const Given& given) noexcept {
  if (!socket.stream) return -ENOPROTOOPT;
  constexpr int kLongest = 32'767;
  constexpr int kLongestInterval = 6'553;  // TCP keeps it in tenths of a second.
  SocketSettings& settings = socket.settings;
  switch (name) {
    case TCP_NODELAY: {
      const int error = read_flag(given, settings.no_delay);
      if (error != 0) return error;
      apply_to_listener(stack, socket);
      stack.tcp().set_no_delay(socket.connection, settings.no_delay, stack.now());
      return 0;
    }
    case TCP_KEEPIDLE:
      return set_keepalive_part(stack, socket, kLongest, settings.keepalive_idle_s, given);
    case TCP_KEEPINTVL:
      return set_keepalive_part(stack, socket, kLongestInterval, settings.keepalive_interval_s,
                                given);
    case TCP_KEEPCNT:
      return set_keepalive_part(stack, socket, 127, settings.keepalive_probes, given);
    case TCP_USER_TIMEOUT: {
      const int error = read_int(given, 0, INT_MAX, settings.user_timeout_ms);
      if (error != 0) return error;
      apply_to_listener(stack, socket);
      stack.tcp().set_user_timeout(socket.connection, socket.user_timeout());
      return 0;
    }
    case TCP_MAXSEG:
      return set_max_segment(socket, given);
    default:
      return -ENOPROTOOPT;
  }
}

int set_ip_option(Stack& stack, Socket& socket, bool v6, int name, const Given& given) noexcept {
  if (socket.v6 != v6) return -ENOPROTOOPT;
  if (v6 && name == IPV6_V6ONLY) {
    bool only = false;
    if (const int error = read_flag(given, only); error != 0) return error;
    return only ? 0 : -EINVAL;
  }
  if (name != (v6 ? IPV6_TCLASS : IP_TOS)) return -ENOPROTOOPT;
  int value = 0;
  if (const int error = read_int(given, v6 ? -1 : 0, 255, value); error != 0) return error;
  if (value < 0) value = 0;
  auto traffic_class = static_cast<std::uint8_t>(value);
  if (socket.stream) traffic_class = dscp_of(traffic_class);
  socket.settings.traffic_class = traffic_class;
  if (socket.udp) socket.udp->set_traffic_class(traffic_class);
  apply_to_listener(stack, socket);
  stack.tcp().set_traffic_class(socket.connection, traffic_class);
  return 0;
}

int get_socket_option(Socket& socket, int name, void* value, socklen_t* size) noexcept {
  const SocketSettings& settings = socket.settings;
  switch (name) {
    case SO_ERROR:
      return write_int(socket.take_error(), value, size);
    case SO_TYPE:
      return write_int(socket.stream ? SOCK_STREAM : SOCK_DGRAM, value, size);
    case SO_DOMAIN:
      return write_int(socket.v6 ? AF_INET6 : AF_INET, value, size);
    case SO_PROTOCOL:
      return write_int(socket.stream ? IPPROTO_TCP : IPPROTO_UDP, value, size);
    case SO_ACCEPTCONN:
      return write_int(socket.phase == SocketPhase::listening ? 1 : 0, value, size);
    case SO_REUSEADDR:
      return write_int(settings.reuse_address ? 1 : 0, value, size);
    case SO_KEEPALIVE:
      return write_int(settings.keepalive ? 1 : 0, value, size);
    case SO_LINGER:
      return write_value(linger{.l_onoff = settings.linger ? 1 : 0, .l_linger = settings.linger_s},
                         value, size);
    case SO_RCVTIMEO:
      return write_timeout(settings.receive_timeout, value, size);
    case SO_SNDTIMEO:
      return write_timeout(settings.send_timeout, value, size);
    case SO_RCVBUF:
      return write_int(settings.receive_buffer, value, size);
    case SO_SNDBUF:
      return write_int(settings.send_buffer, value, size);
    default:
      return -ENOPROTOOPT;
  }
}

/// The numbers that Linux has for states.
std::uint8_t linux_state(const Socket& socket, const std::optional<TcpInfo>& info) noexcept {
  if (socket.phase == SocketPhase::listening) return TCP_LISTEN;
  if (!info || socket.over) return TCP_CLOSE;
  switch (info->state) {
    case TcpState::syn_sent:
      return TCP_SYN_SENT;
    case TcpState::syn_received:
      return TCP_SYN_RECV;
    case TcpState::established:
      return TCP_ESTABLISHED;
    case TcpState::fin_wait_1:
      return TCP_FIN_WAIT1;
    case TcpState::fin_wait_2:
      return TCP_FIN_WAIT2;
    case TcpState::close_wait:
      return TCP_CLOSE_WAIT;
    case TcpState::closing:
      return TCP_CLOSING;
    case TcpState::last_ack:
      return TCP_LAST_ACK;
    case TcpState::over:
      break;
  }
  return TCP_CLOSE;
}

tcp_info linux_info(Stack& stack, const Socket& socket) noexcept {
  tcp_info out{};
  const std::optional<TcpInfo> info = stack.tcp().info(socket.connection);
  out.tcpi_state = linux_state(socket, info);
  if (!info) return out;
  const std::uint32_t headers = socket.v6 ? 60 : 40;
  const auto path =
      static_cast<std::uint32_t>(stack.ip().path_mtu(info->local.address, socket.peer.address));
  const std::uint32_t segment = std::max<std::uint32_t>(info->segment, 1);
  if (info->timestamps) out.tcpi_options |= TCPI_OPT_TIMESTAMPS;
  if (info->sack) out.tcpi_options |= TCPI_OPT_SACK;
  if (info->send_scale != 0 || info->receive_scale != 0) out.tcpi_options |= TCPI_OPT_WSCALE;
  out.tcpi_snd_wscale = info->send_scale & 0xfU;
  out.tcpi_rcv_wscale = info->receive_scale & 0xfU;
  out.tcpi_retransmits = info->retransmissions;
  out.tcpi_rto = info->timeout_us;
  out.tcpi_rtt = info->srtt_us;
  out.tcpi_rttvar = info->rttvar_us;
  out.tcpi_snd_mss = info->segment;
  out.tcpi_rcv_mss = info->segment;
  const auto link =
      static_cast<std::uint32_t>(stack.ip().link_mtu(info->local.address, socket.peer.address));
  out.tcpi_advmss = link - headers;
  out.tcpi_pmtu = path;
  // Linux counts these in segments.
  out.tcpi_unacked = (info->flight + segment - 1) / segment;
  out.tcpi_snd_cwnd = info->congestion_window / segment;
  out.tcpi_snd_ssthresh =
      info->congestion_threshold >= INT32_MAX ? INT32_MAX : info->congestion_threshold / segment;
  out.tcpi_rcv_space = info->receive_window;
  return out;
}

int get_tcp_option(Stack& stack, const Socket& socket, int name, void* value,
                   socklen_t* size) noexcept {
  if (!socket.stream) return -ENOPROTOOPT;
  constexpr int kDefaultSegment = 536;
  const SocketSettings& settings = socket.settings;
  switch (name) {
    case TCP_NODELAY:
      return write_int(settings.no_delay ? 1 : 0, value, size);
    case TCP_KEEPIDLE:
      return write_int(settings.keepalive_idle_s, value, size);
    case TCP_KEEPINTVL:
      return write_int(settings.keepalive_interval_s, value, size);
    case TCP_KEEPCNT:
      return write_int(settings.keepalive_probes, value, size);
    case TCP_USER_TIMEOUT:
      return write_int(settings.user_timeout_ms, value, size);
    case TCP_MAXSEG: {
      const auto info = stack.tcp().info(socket.connection);
      const int set = settings.max_segment != 0 ? settings.max_segment : kDefaultSegment;
      return write_int(info ? info->segment : set, value, size);
    }
    case TCP_INFO:
      return write_value(linux_info(stack, socket), value, size);
    default:
      return -ENOPROTOOPT;
  }
}

int get_ip_option(const Socket& socket, bool v6, int name, void* value, socklen_t* size) noexcept {
  if (socket.v6 != v6) return -ENOPROTOOPT;
  if (v6 && name == IPV6_V6ONLY) return write_int(1, value, size);
  if (name != (v6 ? IPV6_TCLASS : IP_TOS)) return -ENOPROTOOPT;
  return write_int(socket.settings.traffic_class, value, size);
}

}  // namespace
}  // namespace pinion::c_abi

int pinion_stack_setsockopt(pinion_stack* stack, int fd, int level, int name, const void* value,
                            socklen_t size) noexcept {
  using namespace pinion::c_abi;
  if (stack == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  const Given given{.value = value, .size = size};
  const Call call(*stack);
  switch (level) {
    case SOL_SOCKET:
      return set_socket_option(*stack, *socket, name, given);
    case IPPROTO_TCP:
      return set_tcp_option(*stack, *socket, name, given);
    case IPPROTO_IP:
    case IPPROTO_IPV6:
      return set_ip_option(*stack, *socket, level == IPPROTO_IPV6, name, given);
    default:
      return -ENOPROTOOPT;
  }
}

int pinion_stack_getsockopt(pinion_stack* stack, int fd, int level, int name, void* value,
                            socklen_t* size) noexcept {
  using namespace pinion::c_abi;
  if (stack == nullptr || value == nullptr || size == nullptr) return -EFAULT;
  Socket* const socket = stack->find(fd);
  if (socket == nullptr) return -EBADF;
  if (*size > static_cast<socklen_t>(INT_MAX)) return -EINVAL;
  switch (level) {
    case SOL_SOCKET:
      return get_socket_option(*socket, name, value, size);
    case IPPROTO_TCP:
      return get_tcp_option(*stack, *socket, name, value, size);
    case IPPROTO_IP:
    case IPPROTO_IPV6:
      return get_ip_option(*socket, level == IPPROTO_IPV6, name, value, size);
    default:
      return -ENOPROTOOPT;
  }
}

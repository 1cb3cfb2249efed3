#include "socket.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "../stack/ip_kinds.h"

namespace pinion::c_abi {
namespace {

int errno_of(TcpEnd end) noexcept {
  switch (end) {
    case TcpEnd::orderly:
    case TcpEnd::close_timeout:
      return 0;
    case TcpEnd::aborted:
      return ECONNABORTED;
    case TcpEnd::reset:
    case TcpEnd::data_after_close:
      return ECONNRESET;
    case TcpEnd::refused:
      return ECONNREFUSED;
    case TcpEnd::unreachable:
      return EHOSTUNREACH;
    case TcpEnd::connect_timeout:
    case TcpEnd::peer_timeout:
    case TcpEnd::keepalive_timeout:
      return ETIMEDOUT;
  }
  return EIO;
}

int errno_of(IpTrouble trouble) noexcept {
  switch (trouble) {
    case IpTrouble::net_unreachable:
      return ENETUNREACH;
    case IpTrouble::host_unreachable:
    case IpTrouble::time_exceeded:
      return EHOSTUNREACH;
    case IpTrouble::protocol_unreachable:
      return ENOPROTOOPT;
    case IpTrouble::port_unreachable:
      return ECONNREFUSED;
    case IpTrouble::prohibited:
      return EACCES;
    case IpTrouble::packet_too_big:
      return EMSGSIZE;
    case IpTrouble::parameter_problem:
      return EPROTO;
  }
  return EIO;
}

}  // namespace

Endpoint Socket::reached_by(const Endpoint& given) const noexcept {
  if (!is_unspecified(given.address)) return given;
  if (!is_unspecified(local.address)) return {local.address, given.port};
  if (!v6) return {IpAddress::v4({127, 0, 0, 1}), given.port};
  return {IpAddress::v6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}), given.port};
}

int Socket::take_error() noexcept {
  if (udp) {
    if (const auto trouble = udp->take_trouble()) error = errno_of(*trouble);
  }
  return std::exchange(error, 0);
}

TcpKeepalive Socket::keepalive() const noexcept {
  if (!settings.keepalive) return {};
  return {.idle = std::chrono::seconds{settings.keepalive_idle_s},
          .interval = std::chrono::seconds{settings.keepalive_interval_s},
          .probes = settings.keepalive_probes};
}

Delay Socket::user_timeout() const noexcept {
  if (settings.user_timeout_ms == 0) return kNoTimeout;
  return std::chrono::milliseconds{settings.user_timeout_ms};
}

TcpListenOptions Socket::tcp_options() const noexcept {
  return {.socket = {.no_delay = settings.no_delay,
                     .keepalive = keepalive(),
                     .user_timeout = user_timeout(),
                     .traffic_class = settings.traffic_class,
                     .max_segment = settings.max_segment,
                     .send_buffer = settings.send_buffer,
                     .receive_buffer = settings.receive_buffer},
          .backlog = backlog};
}

void Socket::on_connected(TcpHandle /*connection*/, Instant /*now*/) noexcept {
  phase = SocketPhase::connected;
}

void Socket::on_readable(TcpHandle /*connection*/, Instant /*now*/) noexcept {}

void Socket::on_writable(TcpHandle /*connection*/, Instant /*now*/) noexcept {
  write_blocked = false;
}

void Socket::on_read_deadline(TcpHandle /*connection*/, Instant /*now*/) noexcept {}

void Socket::on_write_deadline(TcpHandle /*connection*/, Instant /*now*/) noexcept {}

void Socket::on_closed(TcpHandle /*connection*/, TcpEnd why, Instant /*now*/) noexcept {
  over = true;
  error = errno_of(why);
  if (phase == SocketPhase::connecting) phase = SocketPhase::failed;
}

}  // namespace pinion::c_abi

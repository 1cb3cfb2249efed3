#pragma once

#include <cstdint>
#include <optional>

#include "../stack/udp.h"
#include "../tcp/tcp.h"

/// A socket behind a descriptor: what was set of it, and what it is to the layer below.
///
/// Ownership:  the stack's, in an array that never moves: TCP knows it as an observer.
/// Threading:  the stack's.
/// Cost:       some 350 bytes, used or not.
/// Errors:     what happens to a connection is kept as an errno until somebody asks.

namespace pinion::c_abi {

enum class SocketPhase : std::uint8_t {
  fresh,  ///< Perhaps bound. Of UDP: all its life.
  listening,
  connecting,
  failed,     ///< connect() has failed; `error` says why until it was told.
  connected,  ///< Or was.
};

/// What setsockopt() sets.
struct SocketSettings {
  bool reuse_address = false;
  bool keepalive = false;
  bool no_delay = false;
  bool linger = false;
  std::uint8_t traffic_class = 0;
  std::uint16_t max_segment = 0;
  int linger_s = 0;
  int keepalive_idle_s = 7200;
  int keepalive_interval_s = 75;
  int keepalive_probes = 9;
  int user_timeout_ms = 0;
  std::uint32_t receive_buffer = 0;
  std::uint32_t send_buffer = 0;
  Delay receive_timeout = kNoTimeout;
  Delay send_timeout = kNoTimeout;
};

class Socket final : public TcpObserver {
 public:
  Socket() noexcept = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() = default;

  /// Begins, with a generation that tells it from those before.
  void begin(bool is_stream, bool is_v6, const SocketSettings& its_settings) noexcept {
    settings = its_settings;
    ++generation;
    used = true;
    stream = is_stream;
    v6 = is_v6;
    non_blocking = bound = write_blocked = read_shut = write_shut = over = untold = false;
    phase = SocketPhase::fresh;
    error = 0;
    backlog = 0;
    local = any();
    peer = any();
    connection = {};
    listener = {};
  }

  /// The unspecified address of its family.
  [[nodiscard]] Endpoint any() const noexcept { return {v6 ? IpAddress::v6({}) : IpAddress(), 0}; }

  /// What `given` is from here: no address means this host, as Linux has it.
  [[nodiscard]] Endpoint reached_by(const Endpoint& given) const noexcept;

  [[nodiscard]] int take_error() noexcept;

  [[nodiscard]] TcpKeepalive keepalive() const noexcept;
  [[nodiscard]] Delay user_timeout() const noexcept;
  [[nodiscard]] TcpListenOptions tcp_options() const noexcept;

  void on_connected(TcpHandle connection, Instant now) noexcept override;
  void on_readable(TcpHandle connection, Instant now) noexcept override;
  void on_writable(TcpHandle connection, Instant now) noexcept override;
  void on_read_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_write_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept override;

  SocketSettings settings;
  std::uint64_t generation = 0;
  bool used = false;
  bool stream = false;
  bool v6 = false;
  bool non_blocking = false;
  bool bound = false;
  bool write_blocked = false;  ///< A write took less than it was offered.
  bool read_shut = false;
  bool write_shut = false;
  bool over = false;    ///< The connection; what has arrived may still be read.
  bool untold = false;  ///< connect() hasn't answered 0 yet.
  SocketPhase phase = SocketPhase::fresh;
  int error = 0;  ///< SO_ERROR.
  std::uint32_t backlog = 0;
  Endpoint local;
  Endpoint peer;
  TcpHandle connection;
  TcpListenerHandle listener;
  std::optional<UdpSocket> udp;  ///< Once it is bound.
};

}  // namespace pinion::c_abi

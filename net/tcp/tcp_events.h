#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pinion/lib/time.h>

/// How the TCP layer names connections and listeners, and what it tells of them.
///
/// Ownership:  a handle is a plain value. An observer is its user's and outlives the connection, or
///             takes itself off by Tcp::set_observer().
/// Threading:  the layer's lcore.
/// Cost:       a virtual call per event; events of one burst are told once, at its end.
/// Errors:     a handle of a connection that is gone names nothing, for ever: calls with it answer
///             `gone` and change nothing.

namespace pinion {

/// A connection: its place and how many held it before.
struct TcpHandle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  ///< 0 for the handle of nothing.

  [[nodiscard]] explicit constexpr operator bool() const noexcept { return generation != 0; }
  friend constexpr bool operator==(TcpHandle, TcpHandle) noexcept = default;
};

/// A listener, likewise.
struct TcpListenerHandle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  [[nodiscard]] explicit constexpr operator bool() const noexcept { return generation != 0; }
  friend constexpr bool operator==(TcpListenerHandle, TcpListenerHandle) noexcept = default;
};

/// Why a connection is over.
enum class TcpEnd : std::uint8_t {
  orderly,            ///< Both sides have closed, and know it of each other.
  aborted,            ///< We reset it: abort(), or close() with unread data.
  reset,              ///< The peer reset it.
  refused,            ///< connect: nobody listens there.
  unreachable,        ///< No answer, or no acknowledgement, for too long, and ICMP said why.
  connect_timeout,    ///< connect: no answer.
  peer_timeout,       ///< What we sent was not acknowledged for too long.
  keepalive_timeout,  ///< No keepalive probe was answered.
  close_timeout,      ///< We have closed and the peer did not, for too long.
  data_after_close,   ///< The peer sent data that nobody would read, and was told by a reset.
};

/// The value's name, as it is spelled in the enumeration.
[[nodiscard]] std::string_view to_string(TcpEnd end) noexcept;

/// What a call on a connection came to.
enum class TcpOutcome : std::uint8_t {
  done,      ///< All of it; for a read: at least a byte.
  again,     ///< Read: nothing now. Write: not all of it. Wait for on_readable() or on_writable().
  finished,  ///< Read: the peer's FIN, and everything before it was read.
  closed,    ///< Write: after shutdown_write() or close(); read: after close(), or the connection
             ///< is over and everything was read.
  gone,      ///< The handle names no connection.
};

/// Why connect() has made no connection.
enum class TcpConnectError : std::uint8_t {
  unreachable,   ///< No route to the peer.
  address_used,  ///< The given local endpoint already has a connection to the peer.
  no_ports,      ///< No ephemeral port is free for this peer.
  no_resources,  ///< All connections are in use.
};

/// Who is told of a connection's events. Called at the end of a burst, from the wheel, or from
/// Tcp::end_of_burst() for what a call of the user's own brought about; never from within such a
/// call. May call anything but Tcp::receive(), Tcp::end_of_burst() and TimingWheel::advance().
class TcpObserver {
 public:
  /// connect() has succeeded.
  virtual void on_connected(TcpHandle connection, Instant now) noexcept = 0;

  /// There is something to read, or the peer's FIN has come. Told again only for more.
  virtual void on_readable(TcpHandle connection, Instant now) noexcept = 0;

  /// After a write that took less than was offered: there is room again, a third of the buffer or
  /// more.
  virtual void on_writable(TcpHandle connection, Instant now) noexcept = 0;

  /// The read or write deadline that was set has passed; it is off now.
  virtual void on_read_deadline(TcpHandle connection, Instant now) noexcept = 0;
  virtual void on_write_deadline(TcpHandle connection, Instant now) noexcept = 0;

  /// Once, last: the connection is over. What had arrived may still be read, until close() or
  /// abort(); if that was called before, the handle names nothing from now on.
  virtual void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept = 0;

 protected:
  ~TcpObserver() = default;
};

/// Who is told of a listener's events, as a TcpObserver is.
class TcpAcceptor {
 public:
  /// A connection waits for accept().
  virtual void on_acceptable(TcpListenerHandle listener, Instant now) noexcept = 0;

 protected:
  ~TcpAcceptor() = default;
};

}  // namespace pinion

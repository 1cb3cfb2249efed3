#pragma once

#include <cstdint>
#include <string_view>

#include <pinion/lib/export.h>

/// Why an operation of a stream, a listener or a connect did not do what was asked.

namespace pinion {

/// What each means, and whether one may go on afterwards: docs/stream.md, "Values".
enum class StreamError : std::uint8_t {
  end_of_file,        ///< The peer sent FIN; everything before it was read.
  reset,              ///< The peer reset the connection.
  read_timeout,       ///< This read's timeout passed. No byte is lost; read again.
  write_timeout,      ///< This write's timeout passed. Later writes fail.
  deadline_exceeded,  ///< The stream's deadline passed.
  keepalive_timeout,  ///< No keepalive probe was answered; the connection is reset.
  peer_timeout,       ///< What we sent was never acknowledged; the connection is reset.
  cancelled,          ///< The task was cancelled.
  draining,           ///< The lcore drains and nothing is buffered.
  closed,             ///< We closed, shut down or aborted; or the transport is gone.
  refused,            ///< connect: nobody listens there.
  unreachable,        ///< There is no way to the peer, or ICMP said why it never acknowledged.
  connect_timeout,    ///< connect: no answer within the timeout.
  no_resources,       ///< No descriptor, port, connection slot, buffer or memory left.
  io_error,           ///< Any other failure of the transport.
};

/// The value's name, as it is spelled in the enumeration.
[[nodiscard]] PINION_EXPORT std::string_view to_string(StreamError error) noexcept;

}  // namespace pinion

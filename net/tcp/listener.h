#pragma once

#include <cstdint>
#include <limits>

#include <pinion/net/address.h>

#include "tcp_events.h"
#include "tcp_options.h"

/// A listening endpoint and the connections that wait for accept(), linked by their indexes.
///
/// Ownership:  the layer's. The connections are the pool's.
/// Threading:  one lcore.
/// Cost:       a value of some 100 bytes.
/// Full:       with `backlog` connections waiting, or its part of the layer's max_waiting, the
///             handshake's last acknowledgement is dropped, so that the peer sends it or its data
///             again, until there is room or it gives up.

namespace pinion {

struct TcpListener {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  Endpoint endpoint;  ///< An unspecified address of either family: any address of that family.
  TcpListenOptions options;
  TcpAcceptor* acceptor = nullptr;
  std::uint32_t generation = 0;  ///< Odd while it listens.
  std::uint32_t first = kNone;   ///< The connection that waits longest,
  std::uint32_t last = kNone;
  std::uint32_t waiting = 0;
  bool has_news = false;  ///< Somebody has come whom the acceptor hasn't been told of.

  [[nodiscard]] bool listens() const noexcept { return generation % 2 != 0; }
};

}  // namespace pinion

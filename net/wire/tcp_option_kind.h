#pragma once

#include <cstdint>

/// The options that parser and emitter know, as they stand on the wire.
///
/// Ownership, threading, cost, errors:  constants.

namespace pinion::wire {

enum class TcpOptionKind : std::uint8_t {
  end = 0,
  no_operation = 1,
  mss = 2,             ///< RFC 9293, 3.7.1.
  window_scale = 3,    ///< RFC 7323, 2.2.
  sack_permitted = 4,  ///< RFC 2018, 2.
  sack = 5,            ///< RFC 2018, 3.
  timestamps = 8,      ///< RFC 7323, 3.2.
};

// Their lengths, kind and length byte included.
inline constexpr unsigned kTcpMssSize = 4;
inline constexpr unsigned kTcpWindowScaleSize = 3;
inline constexpr unsigned kTcpSackPermittedSize = 2;
inline constexpr unsigned kTcpSackHeadSize = 2;
inline constexpr unsigned kTcpSackBlockSize = 8;
inline constexpr unsigned kTcpTimestampsSize = 10;

}  // namespace pinion::wire

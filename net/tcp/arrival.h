#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/net/packet.h>

#include "../wire/sequence_number.h"
#include "../wire/tcp_parser.h"
#include "four_tuple.h"

/// A segment that has arrived, checked and parsed: SEG of RFC 9293, 3.3.1.
///
/// Ownership:  owns the packet.
/// Threading:  one lcore.
/// Cost:       a value on the stack.
/// Errors:     none.

namespace pinion {

struct TcpArrival {
  FourTuple tuple{};
  wire::TcpSegment segment{};
  PacketPtr packet;        ///< From the data on; its chain ends with them.
  std::uint32_t size = 0;  ///< Of the data.

  [[nodiscard]] bool has(wire::TcpFlag flag) const noexcept {
    return segment.header.flags.has(flag);
  }
  [[nodiscard]] wire::SequenceNumber sequence() const noexcept { return segment.header.sequence; }
  [[nodiscard]] wire::SequenceNumber acknowledgment() const noexcept {
    return segment.header.acknowledgment;
  }

  /// SEG.LEN: SYN and FIN count.
  [[nodiscard]] std::uint32_t length() const noexcept {
    return size + (has(wire::TcpFlag::syn) ? 1U : 0U) + (has(wire::TcpFlag::fin) ? 1U : 0U);
  }
  [[nodiscard]] wire::SequenceNumber end() const noexcept { return sequence() + length(); }

  /// Where the data begin: behind the SYN, if there is one.
  [[nodiscard]] wire::SequenceNumber text_begin() const noexcept {
    return sequence() + (has(wire::TcpFlag::syn) ? 1U : 0U);
  }
};

/// Those of a segment; nullptr when it has none.
[[nodiscard]] inline const wire::TcpTimestamps* timestamps_of(const TcpArrival& a) noexcept {
  const auto& timestamps = a.segment.options.timestamps;
  return timestamps ? &*timestamps : nullptr;
}

}  // namespace pinion

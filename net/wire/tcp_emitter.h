#pragma once

#include <cstddef>
#include <span>

#include "byte_order.h"
#include "tcp_header.h"

/// Writing TCP headers, for SYNs as for segments of established connections.
///
/// Ownership:  none: pure functions.
/// Threading:  any.
/// Cost:       one store per field.
/// Errors:     options that don't fit into a header are refused by an assertion: a SACK option may
///             have 4 blocks alone and 3 beside timestamps (RFC 2018, 3).

namespace pinion::wire {

/// Where the checksum stands in the header.
inline constexpr std::size_t kTcpChecksumOffset = 16;

/// What emit_tcp() writes for `options`: a multiple of 4.
[[nodiscard]] std::size_t tcp_options_size(const TcpOptions& options) noexcept;

/// Writes the header with its options to the front of `to` and answers how much that is. The
/// checksum is left 0. `header.data_offset` is not looked at: the options decide it. Each group of
/// options begins and ends on a word: NOPs go in front (RFC 7323, appendix A), none go behind.
std::size_t emit_tcp(std::span<std::byte> to, const TcpHeader& header,
                     const TcpOptions& options) noexcept;

[[nodiscard]] constexpr std::size_t plain_tcp_size(bool timestamps) noexcept {
  return kTcpHeaderSize + (timestamps ? kTcpPaddedTimestampsSize : 0);
}

/// The same as emit_tcp() with no option but `timestamps`, or none, to `at`, where there are
/// plain_tcp_size() bytes.
inline void emit_plain_tcp(const TcpHeader& header, const TcpTimestamps* timestamps,
                           std::byte* at) noexcept {
  const auto words = static_cast<std::uint32_t>(plain_tcp_size(timestamps != nullptr) / 4);
  store_be32(at, std::uint32_t{header.source_port} << 16 | header.destination_port);
  store_be32(at + 4, header.sequence.value());
  store_be32(at + 8, header.acknowledgment.value());
  store_be32(at + 12, words << 28 | std::uint32_t{header.flags.bits()} << 16 | header.window);
  store_be32(at + kTcpChecksumOffset, header.urgent_pointer);
  if (timestamps == nullptr) return;
  store_be32(at + 20, kTcpPaddedTimestamps);
  store_be32(at + 24, timestamps->value);
  store_be32(at + 28, timestamps->echo_reply);
}

}  // namespace pinion::wire

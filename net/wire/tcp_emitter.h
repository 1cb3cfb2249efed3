#pragma once

#include <cstddef>
#include <span>

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

}  // namespace pinion::wire

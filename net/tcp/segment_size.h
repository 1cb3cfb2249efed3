#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "four_tuple.h"

/// How large segments are (RFC 9293, 3.7.1).
///
/// Ownership:  pure functions.
/// Threading:  any.
/// Cost:       none.
/// Errors:     none.

namespace pinion {

/// Peers that say less than this get segments of this size: with timestamps 36 bytes of data are
/// left in one. Below it a connection would be nothing but headers.
inline constexpr std::uint16_t kLeastMss = 48;

/// The least that a user may bound segments to.
inline constexpr std::uint16_t kLeastClamp = 88;

/// What the peer takes when its SYN says nothing (MUST-15).
[[nodiscard]] constexpr std::uint16_t default_mss(const FourTuple& tuple) noexcept {
  return tuple.is_v4() ? 536 : 1220;
}

/// The IP header without options and the TCP header without options.
[[nodiscard]] constexpr std::size_t fixed_headers_size(const FourTuple& tuple) noexcept {
  return tuple.is_v4() ? 40 : 60;
}

/// The options that every segment of a connection has: its data are so much less (RFC 6691).
[[nodiscard]] constexpr std::uint16_t fixed_options_size(bool timestamps) noexcept {
  return timestamps ? 12 : 0;
}

/// What a SACK option of so many blocks takes, padded.
[[nodiscard]] constexpr std::uint32_t sack_option_size(std::size_t blocks) noexcept {
  return blocks == 0 ? 0 : static_cast<std::uint32_t>(4 + 8 * blocks);
}

/// The most SACK blocks beside timestamps, and without (RFC 2018, 3).
[[nodiscard]] constexpr std::size_t most_sack_blocks(bool timestamps) noexcept {
  return timestamps ? 3 : 4;
}

/// Buffers of a connection, in bytes.
inline constexpr std::uint32_t kLeastBuffer = 4 * 1024;
inline constexpr std::uint32_t kLargestBuffer = 512 * 1024 * 1024;

[[nodiscard]] constexpr std::uint32_t bounded_buffer(std::uint32_t size) noexcept {
  return std::clamp(size, kLeastBuffer, kLargestBuffer);
}

}  // namespace pinion

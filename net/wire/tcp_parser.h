#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "byte_order.h"
#include "tcp_header.h"
#include "wire_fault.h"

/// Reading TCP headers: any bytes in, a value or a fault out.
///
/// Ownership:  none: pure functions; nothing refers to the bytes afterwards.
/// Threading:  any.
/// Cost:       the two layouts of established connections, no options and NOP NOP TIMESTAMP (RFC
///             7323, appendix A), are read inline without a loop; others one option at a time.
/// Errors:     a WireFault. The checksum is not looked at: that is tcp_checksum.h, and comes first.

namespace pinion::wire {

/// All that a segment says ahead of its data, which begins at header.size().
struct TcpSegment {
  TcpHeader header;
  TcpOptions options;

  friend constexpr bool operator==(const TcpSegment&, const TcpSegment&) noexcept = default;
};

/// Reads the bytes between the header and the data. NOPs are skipped, EOL ends the list whatever is
/// behind it (RFC 9293, 3.2), unknown options are skipped by their length (MUST-6), a window scale
/// above 14 counts as 14 (RFC 7323, 2.3), and of an option that comes twice the last one counts. A
/// length below 2, past the end or not that of a known option is a fault (MUST-7).
[[nodiscard]] Parsed<TcpOptions> parse_tcp_options(std::span<const std::byte> bytes) noexcept;

namespace detail {

/// `at` has kTcpHeaderSize bytes. The reserved bits are ignored (RFC 9293, 3.1).
[[nodiscard]] constexpr TcpHeader load_tcp_header(const std::byte* at) noexcept {
  TcpHeader header;
  header.source_port = load_be16(at);
  header.destination_port = load_be16(at + 2);
  header.sequence = SequenceNumber(load_be32(at + 4));
  header.acknowledgment = SequenceNumber(load_be32(at + 8));
  header.data_offset = static_cast<std::uint8_t>(load_u8(at + 12) >> 4);
  header.flags = TcpFlags::from_bits(load_u8(at + 13));
  header.window = load_be16(at + 14);
  header.urgent_pointer = load_be16(at + 18);
  return header;
}

/// SYN together with FIN or RST: only scanners and attackers send these.
[[nodiscard]] constexpr bool flags_contradict(TcpFlags flags) noexcept {
  return flags.has(TcpFlag::syn) && (flags.has(TcpFlag::fin) || flags.has(TcpFlag::rst));
}

}  // namespace detail

/// Reads the header and the options of the segment that `bytes` begins with into `into`, where no
/// option is noted. The header must lie in `bytes` as a whole; the data need not. Answers what is
/// wrong with it, if anything is.
[[nodiscard]] inline std::optional<WireFault> read_tcp(std::span<const std::byte> bytes,
                                                       TcpSegment& into) noexcept {
  if (bytes.size() < kTcpHeaderSize) return WireFault::tcp_truncated;
  into.header = detail::load_tcp_header(bytes.data());
  const TcpHeader& header = into.header;
  const std::size_t size = header.size();
  if (size < kTcpHeaderSize || size > bytes.size()) return WireFault::tcp_header_length;
  if (header.source_port == 0 || header.destination_port == 0) return WireFault::tcp_port;
  if (detail::flags_contradict(header.flags)) return WireFault::tcp_flags;
  if (size == kTcpHeaderSize) return std::nullopt;
  const std::byte* const at = bytes.data() + kTcpHeaderSize;
  if (size == kTcpHeaderSize + kTcpPaddedTimestampsSize && load_be32(at) == kTcpPaddedTimestamps) {
    into.options.timestamps =
        TcpTimestamps{.value = load_be32(at + 4), .echo_reply = load_be32(at + 8)};
    return std::nullopt;
  }
  const Parsed<TcpOptions> options = parse_tcp_options({at, size - kTcpHeaderSize});
  if (!options) return options.error();
  into.options = *options;
  return std::nullopt;
}

/// The same as a value.
[[nodiscard]] inline Parsed<TcpSegment> parse_tcp(std::span<const std::byte> bytes) noexcept {
  TcpSegment segment;
  if (const auto fault = read_tcp(bytes, segment)) return tl::unexpected(*fault);
  return segment;
}

}  // namespace pinion::wire

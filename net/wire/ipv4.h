#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/bits.h>

#include "byte_order.h"
#include "checksum.h"
#include "ip_address.h"
#include "wire_fault.h"

/// IPv4 headers (RFC 791, RFC 1122).
///
/// Ownership:  plain values; a parsed header's options are a view of the bytes it was read from.
/// Threading:  any.
/// Cost:       a header without options, of no fragment: a few loads and compares, inline.
/// Errors:     a WireFault. Emitting what can't be parsed again is refused by an assertion. The
///             checksum is asked for by a call of its own: a device may have verified it already.

namespace pinion::wire {

struct Ipv4Header {
  static constexpr std::size_t kMinSize = 20;
  static constexpr std::size_t kMaxOptionsSize = 40;
  static constexpr std::size_t kChecksumOffset = 10;

  Ipv4Address source{};
  Ipv4Address destination{};
  std::uint16_t payload_size = 0;  ///< Bytes behind the header.
  std::uint16_t identification = 0;
  std::uint16_t fragment_offset = 0;  ///< In bytes, a multiple of 8.
  bool more_fragments = false;
  bool dont_fragment = false;
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN.
  std::uint8_t hop_limit = 64;     ///< Time to live.
  std::uint8_t protocol = 0;
  std::span<const std::byte> options{};

  /// Bytes of the header, with its options padded to whole words.
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return kMinSize + round_up_to_multiple(options.size(), std::size_t{4});
  }

  [[nodiscard]] constexpr bool is_fragment() const noexcept {
    return more_fragments || fragment_offset != 0;
  }

  /// Whether the options ask for a route of the sender's choice.
  [[nodiscard]] bool has_source_route() const noexcept;

  friend bool operator==(const Ipv4Header& a, const Ipv4Header& b) noexcept;
};

namespace detail {

inline constexpr std::uint16_t kIpv4DontFragment = 0x4000;
inline constexpr std::uint16_t kIpv4MoreFragments = 0x2000;
inline constexpr std::uint16_t kIpv4Offset = 0x1fff;

/// The fields that may have any value, and `payload_size`.
[[nodiscard]] inline Ipv4Header ipv4_fields(const std::byte* at, std::size_t header_size) noexcept {
  const std::uint16_t fragment = load_be16(at + 6);
  Ipv4Header header;
  header.source = load_bytes<4>(at + 12);
  header.destination = load_bytes<4>(at + 16);
  header.payload_size = static_cast<std::uint16_t>(load_be16(at + 2) - header_size);
  header.identification = load_be16(at + 4);
  header.fragment_offset = static_cast<std::uint16_t>((fragment & kIpv4Offset) << 3);
  header.more_fragments = (fragment & kIpv4MoreFragments) != 0;
  header.dont_fragment = (fragment & kIpv4DontFragment) != 0;
  header.traffic_class = load_u8(at + 1);
  header.hop_limit = load_u8(at + 8);
  header.protocol = load_u8(at + 9);
  return header;
}

/// What parse_ipv4() answers, for any header.
[[nodiscard]] Parsed<Ipv4Header> parse_any_ipv4(std::span<const std::byte> bytes,
                                                std::size_t arrived) noexcept;

}  // namespace detail

/// Where the source's address stands in a header, and behind it the destination's.
inline constexpr std::size_t kIpv4Addresses = 12;

/// Whether a header, of which there are at least Ipv4Header::kMinSize bytes, has no options and is
/// of no fragment.
[[nodiscard]] inline bool is_plain_ipv4(const std::byte* at) noexcept {
  using namespace detail;
  return load_u8(at) == 0x45 && (load_be16(at + 6) & (kIpv4MoreFragments | kIpv4Offset)) == 0;
}

/// The header at the front of `bytes`, the first segment of a packet of which `arrived` bytes have
/// come in all. What has arrived behind the datagram's end is padding (RFC 894).
[[nodiscard]] inline Parsed<Ipv4Header> parse_ipv4(std::span<const std::byte> bytes,
                                                   std::size_t arrived) noexcept {
  using namespace detail;
  const std::byte* const at = bytes.data();
  if (bytes.size() >= Ipv4Header::kMinSize && is_plain_ipv4(at)) [[likely]] {
    const std::size_t total = load_be16(at + 2);
    if (total >= Ipv4Header::kMinSize && total <= arrived) [[likely]] {
      return ipv4_fields(at, Ipv4Header::kMinSize);
    }
  }
  return parse_any_ipv4(bytes, arrived);
}

[[nodiscard]] inline Parsed<Ipv4Header> parse_ipv4(std::span<const std::byte> bytes) noexcept {
  return parse_ipv4(bytes, bytes.size());
}

/// Whether the checksum of a header, options included, is right.
[[nodiscard]] inline bool ipv4_checksum_good(std::span<const std::byte> header) noexcept {
  PINION_DCHECK(header.size() >= Ipv4Header::kMinSize);
  InternetChecksum sum;
  sum.add_words<2>(header.data());
  sum.add_half_word(header.data() + 16);
  if (header.size() > Ipv4Header::kMinSize) [[unlikely]] {
    sum.add(header.subspan(Ipv4Header::kMinSize));
  }
  return sum.value() == 0;
}

/// The same as emit_ipv4() for a header that has no options and is of no fragment, to the
/// Ipv4Header::kMinSize bytes at `at`.
inline void emit_plain_ipv4(const Ipv4Header& header, std::byte* at) noexcept {
  PINION_DCHECK(header.options.empty() && !header.is_fragment());
  PINION_DCHECK(header.payload_size <= 65'535 - Ipv4Header::kMinSize);
  const auto total = static_cast<std::uint16_t>(Ipv4Header::kMinSize + header.payload_size);
  store_be32(at, std::uint32_t{0x45} << 24 | std::uint32_t{header.traffic_class} << 16 | total);
  store_be32(at + 4, std::uint32_t{header.identification} << 16 |
                         (header.dont_fragment ? detail::kIpv4DontFragment : 0U));
  store_be32(at + 8, std::uint32_t{header.hop_limit} << 24 | std::uint32_t{header.protocol} << 16);
  store_bytes(at + 12, header.source);
  store_bytes(at + 16, header.destination);
  InternetChecksum sum;
  sum.add_words<2>(at);
  sum.add_half_word(at + 16);
  store_be16(at + Ipv4Header::kChecksumOffset, sum.value());
}

/// Writes the header, with its checksum, to the front of `into`, which has room for it; returns its
/// size.
std::size_t emit_ipv4(const Ipv4Header& header, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

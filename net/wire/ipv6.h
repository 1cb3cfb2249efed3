#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "byte_order.h"
#include "ip_address.h"
#include "wire_fault.h"

/// IPv6 headers (RFC 8200). What may follow one is in ipv6_extensions.h.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       three compares and a few loads, inline.
/// Errors:     a WireFault. Jumbograms (RFC 2675) are not supported: their option is an unknown
///             one.

namespace pinion::wire {

struct Ipv6Header {
  static constexpr std::size_t kSize = 40;

  Ipv6Address source{};
  Ipv6Address destination{};
  std::uint32_t flow_label = 0;    ///< 20 bits.
  std::uint16_t payload_size = 0;  ///< Bytes behind the header, extension headers included.
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN.
  std::uint8_t hop_limit = 64;
  std::uint8_t next_header = 0;  ///< Of an extension header, or the payload's protocol.

  friend bool operator==(const Ipv6Header&, const Ipv6Header&) noexcept = default;
};

/// Where the source's address stands in a header, and behind it the destination's.
inline constexpr std::size_t kIpv6Addresses = 8;

/// The header at the front of `bytes`, the first segment of a packet of which `arrived` bytes have
/// come in all. What has arrived behind the payload's end is padding (RFC 2464, 3).
[[nodiscard]] inline Parsed<Ipv6Header> parse_ipv6(std::span<const std::byte> bytes,
                                                   std::size_t arrived) noexcept {
  if (bytes.size() < Ipv6Header::kSize) return tl::unexpected(WireFault::ipv6_truncated);
  const std::byte* const at = bytes.data();
  const std::uint32_t first = load_be32(at);
  if (first >> 28 != 6) return tl::unexpected(WireFault::ipv6_version);
  Ipv6Header header;
  header.payload_size = load_be16(at + 4);
  if (Ipv6Header::kSize + header.payload_size > arrived) {
    return tl::unexpected(WireFault::ipv6_payload_length);
  }
  header.source = load_bytes<16>(at + 8);
  header.destination = load_bytes<16>(at + 24);
  header.flow_label = first & 0xfffffU;
  header.traffic_class = static_cast<std::uint8_t>(first >> 20);
  header.hop_limit = load_u8(at + 7);
  header.next_header = load_u8(at + 6);
  return header;
}

[[nodiscard]] inline Parsed<Ipv6Header> parse_ipv6(std::span<const std::byte> bytes) noexcept {
  return parse_ipv6(bytes, bytes.size());
}

/// Writes the header to the front of `into`, which has room for it; returns its size.
std::size_t emit_ipv6(const Ipv6Header& header, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

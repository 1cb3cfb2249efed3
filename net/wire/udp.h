#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/net/address.h>
#include <pinion/net/packet.h>

#include "wire_fault.h"

/// UDP headers (RFC 768).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few loads and compares; verifying a checksum reads the datagram.
/// Errors:     a WireFault.

namespace pinion::wire {

struct UdpHeader {
  static constexpr std::size_t kSize = 8;
  static constexpr std::size_t kChecksumOffset = 6;

  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t payload_size = 0;
  std::uint16_t checksum = 0;  ///< 0: there is none.

  friend bool operator==(const UdpHeader&, const UdpHeader&) noexcept = default;
};

/// The header at the front of `bytes`, the first segment of an IP payload of `arrived` bytes in
/// all. What that has behind the datagram's end is not UDP's.
[[nodiscard]] Parsed<UdpHeader> parse_udp(std::span<const std::byte> bytes,
                                          std::size_t arrived) noexcept;

/// Whether the checksum is right of the datagram at the front of the chain `first`, which begins
/// with `header`. A missing one is right over IPv4 alone (RFC 8200, 8.1).
[[nodiscard]] bool udp_checksum_good(const Packet& first, const UdpHeader& header,
                                     const IpAddress& source,
                                     const IpAddress& destination) noexcept;

/// Whether such a datagram's checksum, which is wrong, is one that its sender left to a NIC.
[[nodiscard]] bool udp_checksum_partial(const UdpHeader& header, const IpAddress& source,
                                        const IpAddress& destination) noexcept;

/// What to write where a checksum comes out as `checksum`: never that there is none.
[[nodiscard]] constexpr std::uint16_t udp_checksum_field(std::uint16_t checksum) noexcept {
  return checksum == 0 ? 0xffff : checksum;
}

/// Writes the header to the front of `into`, which has room for it; returns its size.
std::size_t emit_udp(const UdpHeader& header, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

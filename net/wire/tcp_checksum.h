#pragma once

#include <cstddef>
#include <span>

#include <pinion/net/address.h>
#include <pinion/net/packet.h>

#include "byte_order.h"
#include "checksum.h"
#include "tcp_emitter.h"

/// TCP's checksum, over its pseudo header of either family (RFC 9293, 3.1, MUST-2 and MUST-3).
///
/// Ownership:  the caller's packets.
/// Threading:  the packet's lcore.
/// Cost:       one pass over the segment; none when the device has verified it.
/// Errors:     none.

namespace pinion::wire {

inline constexpr std::uint8_t kTcpProtocol = 6;

/// Whether the checksum of the segment that is the chain `first`, `size` bytes long, is right.
[[nodiscard]] inline bool tcp_checksum_good(const Packet& first, std::size_t size,
                                            const IpAddress& source,
                                            const IpAddress& destination) noexcept {
  if (first.has(PacketMark::transport_checksum_good)) return true;
  return transport_checksum(first, size, source, destination, kTcpProtocol) == 0;
}

/// The same of a segment in one piece, by the `Bytes` bytes of its two addresses as they stand in
/// the IP header: 8 of IPv4, 32 of IPv6.
template <std::size_t Bytes>
[[nodiscard]] inline bool tcp_checksum_good(const std::byte* addresses,
                                            std::span<const std::byte> segment) noexcept {
  InternetChecksum sum;
  sum.add_words<Bytes / 8>(addresses);
  sum.add_be16(kTcpProtocol);
  sum.add_be16(static_cast<std::uint16_t>(segment.size()));
  sum.add(segment);
  return sum.value() == 0;
}

/// Whether the checksum of such a segment, which is wrong, is one that its sender left to a NIC.
[[nodiscard]] inline bool tcp_checksum_partial(const Packet& first, std::size_t size,
                                               const IpAddress& source,
                                               const IpAddress& destination) noexcept {
  return first.size() >= kTcpHeaderSize &&
         load_be16(first.data() + kTcpChecksumOffset) ==
             partial_checksum(source, destination, kTcpProtocol, size);
}

/// Fills in the checksum of the segment that is the chain `first`, `size` bytes long, where
/// emit_tcp() has left 0.
inline void store_tcp_checksum(Packet& first, std::size_t size, const IpAddress& source,
                               const IpAddress& destination) noexcept {
  PINION_DCHECK(first.size() >= kTcpHeaderSize);
  store_be16(first.data() + kTcpChecksumOffset,
             transport_checksum(first, size, source, destination, kTcpProtocol));
}

}  // namespace pinion::wire

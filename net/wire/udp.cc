#include "udp.h"

#include <pinion/lib/assert.h>

#include "byte_order.h"
#include "checksum.h"

namespace pinion::wire {
namespace {

constexpr std::uint8_t kProtocolUdp = 17;

}  // namespace

Parsed<UdpHeader> parse_udp(std::span<const std::byte> bytes, std::size_t arrived) noexcept {
  if (bytes.size() < UdpHeader::kSize) return tl::unexpected(WireFault::udp_truncated);
  const std::byte* const at = bytes.data();
  const std::size_t length = load_be16(at + 4);
  if (length < UdpHeader::kSize || length > arrived) {
    return tl::unexpected(WireFault::udp_length);
  }
  return UdpHeader{
      .source_port = load_be16(at),
      .destination_port = load_be16(at + 2),
      .payload_size = static_cast<std::uint16_t>(length - UdpHeader::kSize),
      .checksum = load_be16(at + UdpHeader::kChecksumOffset),
  };
}

bool udp_checksum_good(const Packet& first, const UdpHeader& header, const IpAddress& source,
                       const IpAddress& destination) noexcept {
  if (header.checksum == 0) return source.is_v4();
  const std::size_t size = UdpHeader::kSize + header.payload_size;
  return transport_checksum(first, size, source, destination, kProtocolUdp) == 0;
}

bool udp_checksum_partial(const UdpHeader& header, const IpAddress& source,
                          const IpAddress& destination) noexcept {
  const std::size_t size = UdpHeader::kSize + header.payload_size;
  return header.checksum == partial_checksum(source, destination, kProtocolUdp, size);
}

std::size_t emit_udp(const UdpHeader& header, std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= UdpHeader::kSize);
  PINION_ASSERT(header.payload_size <= 65535 - UdpHeader::kSize);
  std::byte* const at = into.data();
  store_be16(at, header.source_port);
  store_be16(at + 2, header.destination_port);
  store_be16(at + 4, static_cast<std::uint16_t>(UdpHeader::kSize + header.payload_size));
  store_be16(at + UdpHeader::kChecksumOffset, header.checksum);
  return UdpHeader::kSize;
}

}  // namespace pinion::wire

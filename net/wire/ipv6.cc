#include "ipv6.h"

#include <pinion/lib/assert.h>

namespace pinion::wire {

std::size_t emit_ipv6(const Ipv6Header& header, std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= Ipv6Header::kSize);
  PINION_DCHECK(header.flow_label <= 0xfffffU);
  std::byte* const at = into.data();
  store_be32(at, 6U << 28 | std::uint32_t{header.traffic_class} << 20 | header.flow_label);
  store_be16(at + 4, header.payload_size);
  store_u8(at + 6, header.next_header);
  store_u8(at + 7, header.hop_limit);
  store_bytes(at + 8, header.source);
  store_bytes(at + 24, header.destination);
  return Ipv6Header::kSize;
}

}  // namespace pinion::wire

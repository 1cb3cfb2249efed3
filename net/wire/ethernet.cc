#include "ethernet.h"

namespace pinion::wire {

Parsed<EthernetHeader> parse_ethernet_tags(EthernetHeader header,
                                           std::span<const std::byte> frame) noexcept {
  while (is_vlan(header.type)) {
    if (header.tag_count == EthernetHeader::kMaxTags) {
      return tl::unexpected(WireFault::ethernet_vlan_depth);
    }
    if (frame.size() < header.size() + EthernetHeader::kTagSize) {
      return tl::unexpected(WireFault::ethernet_truncated);
    }
    const std::byte* const behind = frame.data() + header.size();
    const std::uint16_t control = load_be16(behind);
    header.tags[header.tag_count] = {
        .type = header.type,
        .priority = static_cast<std::uint8_t>(control >> 13),
        .drop_eligible = (control >> 12 & 1) != 0,
        .id = static_cast<std::uint16_t>(control & 0xfffU),
    };
    ++header.tag_count;
    header.type = static_cast<EtherType>(load_be16(behind + 2));
  }
  if (static_cast<std::uint16_t>(header.type) < kSmallestEtherType) {
    return tl::unexpected(WireFault::ethernet_type);
  }
  return header;
}

std::size_t emit_ethernet(const EthernetHeader& header, std::span<std::byte> into) noexcept {
  PINION_ASSERT(header.tag_count <= EthernetHeader::kMaxTags);
  PINION_ASSERT(into.size() >= header.size());
  PINION_DCHECK(!is_vlan(header.type));
  PINION_DCHECK(static_cast<std::uint16_t>(header.type) >= kSmallestEtherType);
  store_bytes(into.data(), header.destination);
  store_bytes(into.data() + 6, header.source);
  std::byte* at = into.data() + 12;
  for (std::size_t i = 0; i < header.tag_count; ++i) {
    const VlanTag& tag = header.tags[i];
    PINION_DCHECK(is_vlan(tag.type));
    PINION_DCHECK(tag.priority < 8);
    PINION_DCHECK(tag.id < 4096);
    store_be16(at, static_cast<std::uint16_t>(tag.type));
    unsigned control = unsigned{tag.priority} << 13 | tag.id;
    if (tag.drop_eligible) control |= 1U << 12;
    store_be16(at + 2, static_cast<std::uint16_t>(control));
    at += EthernetHeader::kTagSize;
  }
  store_be16(at, static_cast<std::uint16_t>(header.type));
  return header.size();
}

}  // namespace pinion::wire

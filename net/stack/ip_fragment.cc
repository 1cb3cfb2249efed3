#include <algorithm>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "../wire/ipv6.h"
#include "../wire/ipv6_extensions.h"
#include "ip_output.h"

namespace pinion {
namespace {

/// All fragments but the last carry a multiple of it.
constexpr std::size_t kUnit = 8;

/// How much of a datagram's payload one fragment takes, behind `headers` bytes.
std::size_t part_size(std::size_t mtu, std::size_t headers, const PacketPool& pool) noexcept {
  const std::size_t room = std::min(mtu, pool.buffer_size() - kPacketHeadroom);
  return (room - headers) / kUnit * kUnit;
}

}  // namespace

/// A packet of its own with the bytes of `whole` from `offset` on; none, and counted, when none is
/// left.
PacketPtr IpOutput::copy_part(const Packet& whole, std::size_t offset, std::size_t size) noexcept {
  PacketPtr part(context_.pool.allocate());
  if (!part) {
    ++context_.counters.out_no_packet;
    return {};
  }
  copy_out(whole, offset, {part->append(size), size});
  return part;
}

void IpOutput::fragment_v4(Interface& interface, const MacAddress& to, PacketPtr whole,
                           std::size_t mtu) noexcept {
  const auto parsed = wire::parse_ipv4(whole->bytes(), whole->chain_size());
  PINION_ASSERT(parsed.has_value());
  if (parsed->dont_fragment) {
    // The path has shrunk since it waits for its neighbour.
    ++context_.counters.out_too_big;
    return;
  }
  wire::Ipv4Header header = *parsed;
  const std::size_t size = header.payload_size;
  const std::size_t most = part_size(mtu, wire::Ipv4Header::kMinSize, context_.pool);
  for (std::size_t done = 0; done < size;) {
    const std::size_t part = std::min(most, size - done);
    PacketPtr fragment = copy_part(*whole, wire::Ipv4Header::kMinSize + done, part);
    if (!fragment) return;
    header.fragment_offset = static_cast<std::uint16_t>(done);
    header.payload_size = static_cast<std::uint16_t>(part);
    done += part;
    header.more_fragments = done < size;
    std::byte* const at = push_header(fragment, wire::Ipv4Header::kMinSize);
    if (at == nullptr) return;
    wire::emit_ipv4(header, {at, wire::Ipv4Header::kMinSize});
    ++context_.counters.fragments_out;
    send_frame(interface, to, wire::EtherType::ipv4, std::move(fragment));
  }
}

void IpOutput::fragment_v6(Interface& interface, const MacAddress& to, PacketPtr whole,
                           std::size_t mtu) noexcept {
  const auto parsed = wire::parse_ipv6(whole->bytes(), whole->chain_size());
  PINION_ASSERT(parsed.has_value());
  wire::Ipv6Header header = *parsed;
  const std::uint8_t protocol = header.next_header;
  constexpr std::size_t kHeaders = wire::Ipv6Header::kSize + wire::Ipv6Fragment::kSize;
  const std::size_t size = header.payload_size;
  const std::size_t most = part_size(mtu, kHeaders, context_.pool);
  wire::Ipv6Fragment place;
  place.identification = identifications_.next_v6();
  header.next_header = static_cast<std::uint8_t>(wire::Ipv6NextHeader::fragment);
  for (std::size_t done = 0; done < size;) {
    const std::size_t part = std::min(most, size - done);
    PacketPtr fragment = copy_part(*whole, wire::Ipv6Header::kSize + done, part);
    if (!fragment) return;
    place.offset = static_cast<std::uint16_t>(done);
    done += part;
    place.more = done < size;
    header.payload_size = static_cast<std::uint16_t>(wire::Ipv6Fragment::kSize + part);
    std::byte* const at = push_header(fragment, kHeaders);
    if (at == nullptr) return;
    const std::size_t first = wire::emit_ipv6(header, {at, kHeaders});
    wire::emit_ipv6_fragment(place, protocol, {at + first, kHeaders - first});
    ++context_.counters.fragments_out;
    send_frame(interface, to, wire::EtherType::ipv6, std::move(fragment));
  }
}

}  // namespace pinion

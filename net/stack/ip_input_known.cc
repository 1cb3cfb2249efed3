#include "ip_input.h"

/// The way of nearly all packets: in one piece, nothing between the IP header and the transport's,
/// to one of our addresses, of a flow that a transport knows.

namespace pinion {

bool IpInput::receive_known(std::uint8_t interface, PacketPtr& packet, Instant now) noexcept {
  if (packet->empty() || packet->next_segment() != nullptr) return false;
  const std::byte* const at = packet->data();
  const bool v4 = wire::load_u8(at) >> 4 == 4;
  const std::size_t header_size = v4 ? wire::Ipv4Header::kMinSize : wire::Ipv6Header::kSize;
  if (packet->size() < header_size) return false;
  const Interface& home = context_.interfaces[interface];
  const Known known = v4 ? known_v4(*packet, home) : known_v6(*packet, home);
  if (known.transport == nullptr || known.size < header_size || known.size > packet->size()) {
    return false;
  }
  // Ethernet pads what is short (RFC 894; RFC 2464, 3).
  packet->remove_suffix(packet->size() - known.size);
  if (!known.transport->receive_known(packet, now)) return false;
  ++context_.counters.delivered;
  return true;
}

IpInput::Known IpInput::known_v4(const Packet& packet, const Interface& home) const noexcept {
  const std::byte* const at = packet.data();
  if (!wire::is_plain_ipv4(at) || !home.has_v4(wire::load_be32(at + 16))) return {};
  if (!packet.has(PacketMark::ip_checksum_good) &&
      !wire::ipv4_checksum_good({at, wire::Ipv4Header::kMinSize})) {
    return {};
  }
  return {.transport = context_.transport(wire::load_u8(at + 9)), .size = wire::load_be16(at + 2)};
}

/// Extension headers have no transport.
IpInput::Known IpInput::known_v6(const Packet& packet, const Interface& home) const noexcept {
  const std::byte* const at = packet.data();
  if (wire::load_u8(at) >> 4 != 6) return {};
  if (!home.has(IpAddress::v6(wire::load_bytes<16>(at + 24)))) return {};
  return {.transport = context_.transport(wire::load_u8(at + 6)),
          .size = wire::Ipv6Header::kSize + wire::load_be16(at + 4)};
}

}  // namespace pinion

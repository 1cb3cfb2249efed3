#include "ip_input.h"

/// The way of nearly all packets: in one piece, nothing between the IP header and the transport's,
/// to one of our addresses, of a flow that a transport knows.

namespace pinion {

bool IpInput::receive_known(std::uint8_t interface, PacketPtr& packet, Instant now) noexcept {
  if (packet->empty()) return false;
  const bool v4 = wire::load_u8(packet->data()) >> 4 == 4;
  return v4 ? receive_known_v4(interface, packet, now) : receive_known_v6(interface, packet, now);
}

bool IpInput::receive_known_v4(std::uint8_t interface, PacketPtr& packet, Instant now) noexcept {
  constexpr std::size_t kHeader = wire::Ipv4Header::kMinSize;
  if (packet->size() < kHeader || packet->next_segment() != nullptr) return false;
  return take_known(known_v4(*packet, context_.interfaces[interface]), kHeader, packet, now);
}

bool IpInput::receive_known_v6(std::uint8_t interface, PacketPtr& packet, Instant now) noexcept {
  constexpr std::size_t kHeader = wire::Ipv6Header::kSize;
  if (packet->size() < kHeader || packet->next_segment() != nullptr) return false;
  return take_known(known_v6(*packet, context_.interfaces[interface]), kHeader, packet, now);
}

bool IpInput::take_known(const Known& known, std::size_t header_size, PacketPtr& packet,
                         Instant now) noexcept {
  if (known.transport == nullptr || known.size < header_size || known.size > packet->size()) {
    return false;
  }
  // Ethernet pads what is short (RFC 894; RFC 2464, 3).
  packet->remove_suffix(packet->size() - known.size);
  if (!known.transport->receive_known(packet, now)) return false;
  ++context_.counters.delivered;
  return true;
}

/// Our own source is refused: a flow of ours to ourselves has it, too, and comes from inside alone.
IpInput::Known IpInput::known_v4(const Packet& packet, const Interface& home) const noexcept {
  const std::byte* const at = packet.data();
  if (!wire::is_plain_ipv4(at) || !home.has_v4(wire::load_be32(at + 16))) return {};
  if (!context_.is_host(home.index, wire::load_be32(at + 12))) return {};
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
  if (context_.is_local(IpAddress::v6(wire::load_bytes<16>(at + 8)))) return {};
  return {.transport = context_.transport(wire::load_u8(at + 6)),
          .size = wire::Ipv6Header::kSize + wire::load_be16(at + 4)};
}

}  // namespace pinion

#include "ip_stack.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <pinion/net/packet_copy.h>

#include "../wire/ethernet.h"
#include "../wire/ipv4.h"
#include "../wire/ipv6.h"

namespace pinion {

IpStack::IpStack(const IpOptions& options, TimingWheel& wheel, PacketPool& pool, std::uint64_t seed)
    : context_(wheel, pool, seed),
      output_(context_, *this, options.neighbours, options.path_mtus),
      checks_(context_, *this),
      arp_(context_, output_, checks_),
      ndp_(context_, output_, checks_),
      mld_(context_, output_),
      errors_(context_, output_, options.icmp_errors),
      icmp_(context_, output_, ndp_, mld_),
      input_(context_, errors_, icmp_, options.reassembly) {}

void IpStack::attach(IpProtocol protocol, IpTransport& transport) noexcept {
  PINION_ASSERT(protocol != IpProtocol::icmp && protocol != IpProtocol::icmp_v6);
  IpTransport*& place = context_.transports[static_cast<std::uint8_t>(protocol)];
  PINION_ASSERT(place == nullptr);
  place = &transport;
  const std::span attached(attached_.data(), attached_count_);
  if (std::ranges::find(attached, &transport) != attached.end()) return;
  PINION_ASSERT(attached_count_ < attached_.size());
  attached_[attached_count_++] = &transport;
}

void IpStack::receive(std::uint8_t interface, std::span<Packet* const> burst,
                      Instant now) noexcept {
  PINION_ASSERT(interface < context_.interface_count);
  Interface& from = context_.interfaces[interface];
  context_.counters.packets_in += burst.size();
  const std::size_t link_header =
      from.link == LinkKind::ethernet ? wire::EthernetHeader::kMinSize : 0;
  for (std::size_t i = 0; i < attached_count_; ++i) attached_[i]->expect(burst, link_header);
  for (Packet* const arrived : burst) {
    PacketPtr packet(arrived);
    if (from.link == LinkKind::ethernet) {
      receive_frame(from, std::move(packet), now);
    } else if (!input_.receive_known(interface, packet, now)) {
      input_.receive(interface, std::move(packet), now);
    }
  }
}

void IpStack::receive_frame(Interface& interface, PacketPtr packet, Instant now) noexcept {
  const auto parsed = wire::parse_ethernet(std::as_const(*packet).bytes());
  if (!parsed) {
    context_.counters.count(parsed.error());
    return;
  }
  const wire::EthernetHeader& header = *parsed;
  const bool to_many = wire::is_multicast(header.destination);
  if (!to_many && header.destination != interface.mac) {
    ++context_.counters.frame_other_host;
    return;
  }
  // On a link that echoes, our own solicitation would look like another's for the same address
  // (RFC 7527).
  if (header.source == interface.mac) {
    ++context_.counters.frame_ours;
    return;
  }
  packet->remove_prefix(header.size());
  // A tag of VLAN 0 tells a priority, and of no VLAN (IEEE 802.1Q, 9.6).
  const bool untagged = header.tag_count == 0 || (header.tag_count == 1 && header.tags[0].id == 0 &&
                                                  header.tags[0].type == wire::EtherType::vlan);
  if (untagged && header.type == wire::EtherType::ipv4) {
    if (!to_many && input_.receive_known_v4(interface.index, packet, now)) return;
    input_.receive_v4(interface.index, std::move(packet), to_many, now);
  } else if (untagged && header.type == wire::EtherType::ipv6) {
    if (!to_many && input_.receive_known_v6(interface.index, packet, now)) return;
    input_.receive_v6(interface.index, std::move(packet), to_many, now);
  } else if (untagged && header.type == wire::EtherType::arp) {
    arp_.receive(interface, header, *packet, now);
  } else {
    ++context_.counters.frame_type;
  }
}

void IpStack::end_of_burst(Instant now) noexcept {
  // What these draw waits for the next turn.
  for (std::size_t waiting = output_.loopback().size(); waiting > 0; --waiting) {
    input_.receive(IpContext::kLoopback, output_.loopback().pop_front(), now);
  }
  for (std::size_t i = 0; i < attached_count_; ++i) attached_[i]->end_of_burst(now);
  input_.end_of_burst();
}

std::size_t IpStack::take(std::uint8_t interface, std::span<Packet*> into) noexcept {
  PINION_ASSERT(interface < context_.interface_count);
  return context_.interfaces[interface].take(into);
}

void IpStack::send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept {
  output_.send(std::move(packet), how, now);
}

std::size_t IpStack::path_mtu(const IpAddress& source,
                              const IpAddress& destination) const noexcept {
  return output_.path_mtu(source, destination, context_.wheel.now());
}

std::size_t IpStack::link_mtu(const IpAddress& source,
                              const IpAddress& destination) const noexcept {
  return output_.link_mtu(source, destination);
}

void IpStack::learn_path_mtu(const IpAddress& source, const IpAddress& destination, std::size_t mtu,
                             Instant now) noexcept {
  if (output_.learn_path_mtu(source, destination, {.mtu = mtu}, now)) tell_paths_shrank();
}

void IpStack::guess_path_mtu(const IpAddress& source, const IpAddress& destination, std::size_t mtu,
                             Instant now) noexcept {
  // Anybody can say it: who has sent something finds it when that isn't acknowledged.
  static_cast<void>(
      output_.learn_path_mtu(source, destination, {.mtu = mtu, .displaces = false}, now));
}

void IpStack::tell_paths_shrank() noexcept {
  for (std::size_t i = 0; i < attached_count_; ++i) attached_[i]->paths_shrank();
}

std::optional<IpAddress> IpStack::source_for(const IpAddress& destination) const noexcept {
  return output_.source_for(destination);
}

bool IpStack::is_local(const IpAddress& address) const noexcept {
  return context_.is_local(address);
}

bool IpStack::is_unicast(const IpAddress& address) const noexcept {
  return !is_never_a_host(address) && !context_.is_broadcast(address);
}

void IpStack::confirm_reachable(const IpAddress& source, const IpAddress& destination,
                                Instant now) noexcept {
  output_.confirm_reachable(source, destination, now);
}

void IpStack::suspect(const IpAddress& source, const IpAddress& destination, Instant now) noexcept {
  output_.suspect(source, destination, now);
}

bool IpStack::is_crowded(const IpAddress& source, const IpAddress& destination,
                         Instant now) noexcept {
  return output_.is_crowded(source, destination, now);
}

std::optional<AddressState> IpStack::address_state(std::uint8_t interface,
                                                   const IpAddress& address) const noexcept {
  PINION_ASSERT(interface < context_.interface_count);
  const InterfaceAddress* const own = context_.interfaces[interface].find(address);
  return own == nullptr ? std::nullopt : std::optional(own->state);
}

void IpStack::solicit(Interface& interface, const IpAddress& target, const MacAddress* to,
                      Instant /*now*/) noexcept {
  if (target.is_v4()) {
    arp_.solicit(interface, target, to);
  } else {
    ndp_.solicit(interface, target, to);
  }
}

/// Told to its transport as a router's word would be.
void IpStack::undeliverable(PacketPtr packet, Instant now) noexcept {
  const std::span bytes = std::as_const(*packet).bytes();
  IpComplaint complaint;
  complaint.trouble = IpTrouble::host_unreachable;
  std::uint8_t protocol = 0;
  std::size_t header_size = 0;
  if (wire::load_u8(bytes.data()) >> 4 == 4) {
    const auto header = wire::parse_ipv4(bytes, packet->chain_size());
    PINION_ASSERT(header.has_value());
    complaint.source = IpAddress::v4(header->source);
    complaint.destination = IpAddress::v4(header->destination);
    protocol = header->protocol;
    header_size = header->size();
  } else {
    const auto header = wire::parse_ipv6(bytes, packet->chain_size());
    PINION_ASSERT(header.has_value());
    complaint.source = IpAddress::v6(header->source);
    complaint.destination = IpAddress::v6(header->destination);
    protocol = header->next_header;
    header_size = wire::Ipv6Header::kSize;
  }
  IpTransport* const transport = context_.transport(protocol);
  if (transport == nullptr) return;
  // The headers may lie in a segment of their own.
  std::array<std::byte, 64> quoted;
  complaint.quoted = std::span(quoted).first(copy_out(*packet, header_size, quoted));
  packet.reset();
  transport->complain(complaint, now);
}

void IpStack::probe(Interface& interface, const IpAddress& address, Instant /*now*/) noexcept {
  if (address.is_v4()) {
    arp_.probe(interface, address);
  } else {
    ndp_.probe(interface, address);
  }
}

void IpStack::announce(Interface& interface, const IpAddress& address, Instant /*now*/) noexcept {
  PINION_DCHECK(address.is_v4());
  arp_.announce(interface, address);
}

void IpStack::usable(Interface& interface, const IpAddress& address, Instant now) noexcept {
  if (address.is_v6() && is_link_local(address)) mld_.speaks(interface, now);
}

}  // namespace pinion

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/arp.h"
#include "wire/ethernet.h"
#include "wire/icmp.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/ipv6_extensions.h"
#include "wire/ndp.h"
#include "wire/udp.h"

/// A frame, from Ethernet down to the transports, as a host takes it apart. Whatever a parser takes
/// is written, and that is read as the same value.

namespace {

using namespace pinion::wire;

using View = std::span<const std::byte>;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s: what was read isn't what is written\n", what);
  std::abort();
}

/// Writes `value` into a block of its own and reads that.
template <class Value, class Emit, class Parse>
void check_round_trip(const char* what, const Value& value, std::size_t room, Emit emit,
                      Parse parse) {
  std::vector<std::byte> bytes(room);
  const std::size_t size = emit(value, std::span<std::byte>(bytes));
  require(size <= room, what);
  const auto again = parse(View(bytes).first(size));
  require(again.has_value() && *again == value, what);
}

void arp(View payload) {
  const auto message = parse_arp(payload);
  if (message) check_round_trip("ARP", *message, ArpMessage::kSize, emit_arp, parse_arp);
}

void udp(View payload) {
  const auto header = parse_udp(payload, payload.size());
  if (!header) return;
  require(UdpHeader::kSize + header->payload_size <= payload.size(), "UDP size");
  check_round_trip("UDP", *header, UdpHeader::kSize, emit_udp,
                   [](View bytes) { return parse_udp(bytes, 65535); });
}

void icmp(View payload) {
  const auto message = parse_icmp(payload);
  if (!message) return;
  check_round_trip("ICMP", *message, IcmpMessage::kHeaderSize, emit_icmp, parse_icmp);
  const auto quote = parse_icmp_quote(payload);
  if (quote) require(quote->transport.size() >= 8, "quote");
}

void icmp_v6(View payload, const Ipv6Header& ip) {
  const auto message = parse_icmp(payload);
  if (!message) return;
  const auto quote = parse_icmp_v6_quote(payload);
  if (quote) require(quote->transport.size() >= 8, "quote");
  if (!is_ndp(*message)) return;
  const NdpEnvelope envelope{
      .source = ip.source, .destination = ip.destination, .hop_limit = ip.hop_limit};
  const auto ndp = parse_ndp(*message, payload, envelope);
  const bool neighbor = message->is(IcmpV6Type::neighbor_solicitation) ||
                        message->is(IcmpV6Type::neighbor_advertisement);
  if (!ndp || !neighbor) return;
  check_round_trip("NDP", *ndp, kMaxNdpSize, emit_ndp, [&](View bytes) {
    return parse_ndp(parse_icmp(bytes).value(), bytes, envelope);
  });
}

void ipv4(View packet) {
  const auto header = parse_ipv4(packet);
  require(header == detail::parse_any_ipv4(packet, packet.size()), "the fast and the slow way");
  if (!header) return;
  require(header->size() + header->payload_size <= packet.size(), "IPv4 size");
  static_cast<void>(header->has_source_route());
  static_cast<void>(ipv4_checksum_good(packet.first(header->size())));
  check_round_trip("IPv4", *header, header->size(), emit_ipv4,
                   [](View bytes) { return parse_ipv4(bytes, 65535); });
  const View payload = packet.subspan(header->size(), header->payload_size);
  if (header->is_fragment()) return;
  if (header->protocol == 1) icmp(payload);
  if (header->protocol == 17) udp(payload);
}

void ipv6(View packet) {
  const auto header = parse_ipv6(packet);
  if (!header) return;
  check_round_trip("IPv6", *header, Ipv6Header::kSize, emit_ipv6,
                   [](View bytes) { return parse_ipv6(bytes, SIZE_MAX); });
  const View payload = packet.subspan(Ipv6Header::kSize, header->payload_size);
  const Ipv6Walk found = walk_ipv6_extensions(*header, payload);
  if (!found) return;
  require(found->size <= payload.size(), "the walk stays inside");
  require(found->fragment || !is_ipv6_extension(found->protocol), "the walk goes to the end");
  if (found->fragment) return;
  const View transport = payload.subspan(found->size);
  if (found->protocol == 58) icmp_v6(transport, *header);
  if (found->protocol == 17) udp(transport);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const View frame(reinterpret_cast<const std::byte*>(data), size);
  const auto header = parse_ethernet(frame);
  if (!header) return 0;
  check_round_trip("Ethernet", *header, header->size(), emit_ethernet, parse_ethernet);
  const View payload = frame.subspan(header->size());
  switch (header->type) {
    case EtherType::arp:
      arp(payload);
      break;
    case EtherType::ipv4:
      ipv4(payload);
      break;
    case EtherType::ipv6:
      ipv6(payload);
      break;
    default:
      break;
  }
  return 0;
}

#include "stack_world.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/ip_kinds.h"

namespace pinion::test {
namespace {

std::span<const std::byte> view(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

}  // namespace

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool same(std::span<const std::byte> bytes, const Bytes& expected) {
  return std::ranges::equal(bytes, view(expected));
}

Bytes counted(std::size_t size, std::uint8_t start) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(start + i + i / 251);
  return bytes;
}

Bytes ip_packet(wire::Ipv4Header header, const IpAddress& from, const IpAddress& to,
                const Bytes& payload) {
  header.source = v4_bytes(from);
  header.destination = v4_bytes(to);
  header.payload_size = static_cast<std::uint16_t>(payload.size());
  Bytes bytes(header.size());
  emit_ipv4(header, std::as_writable_bytes(std::span(bytes)));
  return join({bytes, payload});
}

Bytes ip_packet(wire::Ipv6Header header, const IpAddress& from, const IpAddress& to,
                const Bytes& payload) {
  header.source = from.bytes();
  header.destination = to.bytes();
  header.payload_size = static_cast<std::uint16_t>(payload.size());
  Bytes bytes(wire::Ipv6Header::kSize);
  emit_ipv6(header, std::as_writable_bytes(std::span(bytes)));
  return join({bytes, payload});
}

Bytes ip_packet(const IpAddress& from, const IpAddress& to, std::uint8_t protocol,
                const Bytes& payload) {
  if (from.is_v4()) {
    wire::Ipv4Header header;
    header.protocol = protocol;
    return ip_packet(header, from, to, payload);
  }
  wire::Ipv6Header header;
  header.next_header = protocol;
  return ip_packet(header, from, to, payload);
}

Bytes icmp_message(const wire::IcmpMessage& message, const IpAddress& from, const IpAddress& to,
                   const Bytes& body) {
  Bytes bytes(wire::IcmpMessage::kHeaderSize);
  emit_icmp(message, std::as_writable_bytes(std::span(bytes)));
  bytes = join({bytes, body});
  wire::InternetChecksum sum;
  if (from.is_v6()) sum.add_pseudo_header(from, to, 58, bytes.size());
  sum.add(view(bytes));
  bytes[2] = static_cast<std::uint8_t>(sum.value() >> 8);
  bytes[3] = static_cast<std::uint8_t>(sum.value());
  return bytes;
}

Bytes udp_message(const Endpoint& from, const Endpoint& to, const Bytes& payload) {
  Bytes bytes(wire::UdpHeader::kSize);
  wire::emit_udp({.source_port = from.port,
                  .destination_port = to.port,
                  .payload_size = static_cast<std::uint16_t>(payload.size())},
                 std::as_writable_bytes(std::span(bytes)));
  bytes = join({bytes, payload});
  wire::InternetChecksum sum;
  sum.add_pseudo_header(from.address, to.address, 17, bytes.size());
  sum.add(view(bytes));
  const std::uint16_t field = wire::udp_checksum_field(sum.value());
  bytes[6] = static_cast<std::uint8_t>(field >> 8);
  bytes[7] = static_cast<std::uint8_t>(field);
  return bytes;
}

Bytes ndp_message(const wire::NdpMessage& message, const IpAddress& from, const IpAddress& to) {
  Bytes bytes(wire::kMaxNdpSize);
  bytes.resize(emit_ndp(message, std::as_writable_bytes(std::span(bytes))));
  wire::InternetChecksum sum;
  sum.add_pseudo_header(from, to, 58, bytes.size());
  sum.add(view(bytes));
  bytes[2] = static_cast<std::uint8_t>(sum.value() >> 8);
  bytes[3] = static_cast<std::uint8_t>(sum.value());
  return bytes;
}

std::span<const std::byte> SentFrame::payload() const {
  return view(bytes).subspan(ethernet.size());
}

wire::ArpMessage SentFrame::arp() const {
  EXPECT_EQ(ethernet.type, wire::EtherType::arp);
  return wire::parse_arp(payload()).value_or(wire::ArpMessage{});
}

wire::Ipv4Header SentFrame::v4() const {
  EXPECT_EQ(ethernet.type, wire::EtherType::ipv4);
  const auto parsed = wire::parse_ipv4(payload());
  EXPECT_TRUE(parsed && wire::ipv4_checksum_good(payload().first(parsed->size())));
  return parsed.value_or(wire::Ipv4Header{});
}

wire::Ipv6Header SentFrame::v6() const {
  EXPECT_EQ(ethernet.type, wire::EtherType::ipv6);
  return wire::parse_ipv6(payload()).value_or(wire::Ipv6Header{});
}

std::span<const std::byte> SentFrame::ip_payload() const {
  const bool is_v4 = ethernet.type == wire::EtherType::ipv4;
  return payload().subspan(is_v4 ? v4().size() : wire::Ipv6Header::kSize);
}

wire::IcmpMessage SentFrame::icmp() const {
  const auto message = wire::parse_icmp(ip_payload());
  wire::InternetChecksum sum;
  if (ethernet.type == wire::EtherType::ipv6) {
    const wire::Ipv6Header header = v6();
    sum.add_pseudo_header(IpAddress::v6(header.source), IpAddress::v6(header.destination), 58,
                          header.payload_size);
  }
  sum.add(ip_payload());
  EXPECT_EQ(sum.value(), 0);
  return message.value_or(wire::IcmpMessage{});
}

void RecordingTransport::receive(PacketPtr packet, const IpArrival& arrival,
                                 Instant /*now*/) noexcept {
  received.push_back({bytes_of(*packet), arrival, packet->size()});
}

void RecordingTransport::complain(const IpComplaint& complaint, Instant /*now*/) noexcept {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(complaint.quoted.data());
  complaints.push_back({complaint, Bytes(data, data + complaint.quoted.size())});
  complaints.back().complaint.quoted = {};
}

void RecordingTransport::end_of_burst(Instant /*now*/) noexcept {
  ++bursts;
}

void StackWorld::SetUp() {
  make_stack();
}

void StackWorld::TearDown() {
  stack.reset();
}

void StackWorld::make_bare_stack(const IpOptions& options) {
  stack = std::make_unique<IpStack>(options, *wheel, *pool, seed());
  stack->attach(static_cast<IpProtocol>(kTestProtocol), transport);
  stack->attach(IpProtocol::tcp, transport);
}

void StackWorld::make_stack(const IpOptions& options) {
  make_bare_stack(options);
  const std::array addresses{IpPrefix{ours4, 24}, IpPrefix{ours6, 64}};
  ASSERT_TRUE(stack->add_interface(
      {.mac = our_mac, .addresses = addresses, .check_duplicates = false}, now));
  ASSERT_TRUE(stack->add_route({.destination = {ip("0.0.0.0"), 0}, .gateway = ip("10.0.0.254")}));
  ASSERT_TRUE(stack->add_route({.destination = {ip("::"), 0}, .gateway = ip("2001:db8::fe")}));
  meet_neighbours();
}

void StackWorld::inject_frame(const Bytes& frame) {
  PacketPtr packet = make_packet(*pool, frame);
  ASSERT_TRUE(packet);
  Packet* const burst = packet.take();
  stack->receive(0, {&burst, 1}, now);
}

void StackWorld::inject(const MacAddress& from, const MacAddress& to, wire::EtherType type,
                        const Bytes& payload) {
  Bytes header(wire::EthernetHeader::kMinSize);
  wire::emit_ethernet({.destination = to, .source = from, .type = type},
                      std::as_writable_bytes(std::span(header)));
  inject_frame(join({header, payload}));
}

void StackWorld::inject(const MacAddress& from, wire::EtherType type, const Bytes& payload) {
  inject(from, our_mac, type, payload);
}

void StackWorld::inject_ip(const Bytes& packet) {
  const std::span<const std::byte> bytes = view(packet);
  const bool v4 = packet[0] >> 4 == 4;
  const IpAddress to = v4 ? IpAddress::v4(wire::load_bytes<4>(&bytes[16]))
                          : IpAddress::v6(wire::load_bytes<16>(&bytes[24]));
  MacAddress frame_to = our_mac;
  if (is_multicast(to)) frame_to = multicast_mac(to);
  if (is_limited_broadcast(to) || to == ip("10.0.0.255")) frame_to = wire::kBroadcastMac;
  inject(peer_mac, frame_to, v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6, packet);
}

std::vector<SentFrame> StackWorld::sent() {
  std::vector<SentFrame> frames;
  std::array<Packet*, 64> burst{};
  while (const std::size_t count = stack->take(0, burst)) {
    for (std::size_t i = 0; i < count; ++i) {
      const PacketPtr packet(burst[i]);
      SentFrame frame{bytes_of(*packet), {}};
      const auto ethernet = wire::parse_ethernet(view(frame.bytes));
      EXPECT_TRUE(ethernet.has_value());
      frame.ethernet = ethernet.value_or(wire::EthernetHeader{});
      EXPECT_EQ(frame.ethernet.source, our_mac);
      frames.push_back(std::move(frame));
    }
  }
  return frames;
}

SentFrame StackWorld::sent_one() {
  std::vector<SentFrame> frames = sent();
  EXPECT_EQ(frames.size(), 1U);
  return frames.empty() ? SentFrame{Bytes(64), {}} : frames[0];
}

std::vector<SentFrame> StackWorld::sent_errors() {
  std::vector<SentFrame> errors;
  for (SentFrame& frame : sent()) {
    const bool v4 = frame.ethernet.type == wire::EtherType::ipv4;
    const bool v6 = frame.ethernet.type == wire::EtherType::ipv6 && frame.v6().next_header == 58;
    if ((v4 && frame.v4().protocol == 1 && is_icmp_error(frame.icmp())) ||
        (v6 && is_icmp_v6_error(frame.icmp()))) {
      errors.push_back(std::move(frame));
    }
  }
  return errors;
}

void StackWorld::meet_neighbours() {
  for (const auto& [address, last] : {std::pair{peer4, 9}, {ip("10.0.0.254"), 254}}) {
    Bytes request(wire::ArpMessage::kSize);
    const MacAddress from = mac(static_cast<std::uint8_t>(last));
    wire::emit_arp({.sender_mac = from, .sender = v4_bytes(address), .target = v4_bytes(ours4)},
                   std::as_writable_bytes(std::span(request)));
    inject(from, wire::kBroadcastMac, wire::EtherType::arp, request);
  }
  for (const auto& [address, last] : {std::pair{peer6, 9}, {ip("2001:db8::fe"), 254}}) {
    const MacAddress from = mac(static_cast<std::uint8_t>(last));
    wire::Ipv6Header header;
    header.next_header = 58;
    header.hop_limit = 255;
    const Bytes message = ndp_message({.target = ours6.bytes(), .mac = from}, address, ours6);
    inject(from, wire::EtherType::ipv6, ip_packet(header, address, ours6, message));
  }
  sent();
}

void StackWorld::send(const IpDeparture& how, std::size_t size) {
  PacketPtr head = make_packet(*pool, counted(std::min<std::size_t>(size, 1500)));
  Packet* last = head.get();
  for (std::size_t done = last->size(); done < size; done += last->size()) {
    const Bytes all = counted(size);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(done);
    const auto part = static_cast<std::ptrdiff_t>(std::min<std::size_t>(size - done, 1500));
    Packet* const next = make_packet(*pool, Bytes(from, from + part)).take();
    last->set_next_segment(next);
    last = next;
  }
  stack->send(std::move(head), how, now);
}

}  // namespace pinion::test

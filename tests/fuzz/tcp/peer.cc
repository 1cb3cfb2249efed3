#include "peer.h"

#include <algorithm>

#include "wire/checksum.h"

namespace pinion::test {
namespace {

using Stage = PeerView::Stage;

void put(PacketBytes& bytes, const PacketBytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// Of a transport whose checksum's field, which is zero, is at `place`.
void put_checksum(PacketBytes& message, std::size_t place, const IpAddress& source,
                  const IpAddress& destination, std::uint8_t protocol) {
  wire::InternetChecksum sum;
  constexpr std::uint8_t kIcmp = 1;
  if (protocol != kIcmp) sum.add_pseudo_header(source, destination, protocol, message.size());
  sum.add(message);
  wire::store_be16(&message[place], sum.value());
}

}  // namespace

PacketBytes bytes_of(std::uint32_t number) {
  PacketBytes bytes(4);
  wire::store_be32(bytes.data(), number);
  return bytes;
}

SegmentOption timestamps_option(std::uint32_t value, std::uint32_t echo) {
  SegmentOption option{.kind = kOptionTimestamps, .data = bytes_of(value)};
  put(option.data, bytes_of(echo));
  return option;
}

void TcpPeer::begins_again() {
  options_.isn += 10'000'019;
  again_ = true;
}

std::uint32_t TcpPeer::next() const {
  const PeerView& view = watch_.peer_view();
  const bool known = view.stage == Stage::host_answers || view.stage == Stage::open;
  return known ? view.next : options_.isn;
}

std::uint32_t TcpPeer::segment() const {
  return watch_.info() ? watch_.info()->segment : 1460;
}

/// Never before what the host has echoed: that came, from whomever, and what is older is dropped.
std::uint32_t TcpPeer::timestamp(std::uint32_t milliseconds) const {
  const std::uint32_t own = milliseconds + 77;
  const std::uint32_t echo = watch_.peer_view().echo;
  return static_cast<std::int32_t>(echo - own) > 0 ? echo : own;
}

Segment TcpPeer::bare(std::uint32_t milliseconds) const {
  Segment segment;
  segment.source_port = peer_.port;
  segment.destination_port = host_.port;
  segment.sequence = next();
  segment.acknowledgment = received();
  segment.flags = kAck;
  segment.window = window_;
  if (watch_.peer_view().timestamps) {
    segment.options.push_back(
        timestamps_option(timestamp(milliseconds), watch_.peer_view().timestamp));
  }
  return segment;
}

std::vector<SegmentOption> TcpPeer::offers(std::uint32_t milliseconds) const {
  std::vector<SegmentOption> options;
  if (options_.mss) {
    const PacketBytes bytes = bytes_of(*options_.mss);
    options.push_back({.kind = kOptionMss, .data = {bytes[2], bytes[3]}});
  }
  if (options_.scale) {
    options.push_back({.kind = kOptionWindowScale, .data = {std::byte{*options_.scale}}});
  }
  if (options_.sack) options.push_back({.kind = kOptionSackPermitted, .data = {}});
  if (options_.timestamps) {
    options.push_back(timestamps_option(timestamp(milliseconds), watch_.peer_view().timestamp));
  }
  return options;
}

PacketBytes TcpPeer::reply(std::uint32_t milliseconds) {
  Segment segment = bare(milliseconds);
  const Stage stage = watch_.peer_view().stage;
  if (stage == Stage::host_opens) {
    segment.flags = kSyn | kAck;
    segment.sequence = options_.isn;
    segment.options = offers(milliseconds);
    again_ = false;
    return packet(segment);
  }
  if (stage == Stage::open && !watch_.connection()) begins_again();
  if (stage == Stage::nothing || again_) {
    segment.flags = kSyn;
    segment.sequence = options_.isn;
    segment.acknowledgment = 0;
    segment.options = offers(milliseconds);
    again_ = false;
  }
  return packet(segment);
}

PacketBytes TcpPeer::data(std::size_t size, bool fin, std::uint32_t milliseconds) const {
  Segment segment = bare(milliseconds);
  if (size != 0) segment.flags |= kPsh;
  if (fin) segment.flags |= kFin;
  segment.payload = peer_bytes(segment.sequence, size);
  return packet(segment);
}

PacketBytes TcpPeer::packet(const Segment& segment) const {
  return write_packet(peer_.address, host_.address, segment);
}

PacketBytes TcpPeer::repaired(PacketBytes segment) const {
  constexpr std::size_t kPlace = 16;
  if (segment.size() >= kPlace + 2) {
    wire::store_be16(&segment[kPlace], 0);
    put_checksum(segment, kPlace, peer_.address, host_.address, 6);
  }
  return write_ip(peer_.address, host_.address, segment);
}

PacketBytes TcpPeer::complaint(const IcmpSpeech& speech) const {
  Segment quoted;
  quoted.source_port = host_.port;
  quoted.destination_port = peer_.port;
  quoted.sequence = speech.sequence;
  quoted.flags = kAck;
  PacketBytes datagram = write_packet(host_.address, peer_.address, quoted);
  const bool v6 = host_.address.is_v6();
  const std::size_t header = v6 ? 40 : 20;
  datagram.resize(std::min(datagram.size(), header + speech.quoted));

  PacketBytes message{std::byte{speech.type}, std::byte{speech.code}, std::byte{0}, std::byte{0}};
  put(message, bytes_of(speech.detail));
  put(message, datagram);
  const std::uint8_t protocol = v6 ? 58 : 1;
  put_checksum(message, 2, peer_.address, host_.address, protocol);

  PacketBytes packet = write_ip(peer_.address, host_.address, message);
  packet[v6 ? 6 : 9] = std::byte{protocol};
  if (v6) return packet;
  wire::store_be16(&packet[10], 0);
  wire::store_be16(&packet[10], wire::checksum_of(std::span(packet).first(header)));
  return packet;
}

}  // namespace pinion::test

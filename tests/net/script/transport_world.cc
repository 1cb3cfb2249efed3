#include "transport_world.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <pinion/lib/assert.h>

#include "stack/ip_kinds.h"

namespace pinion::test {
namespace {

/// Not on a tick, so that a deadline rounded down would be early.
constexpr Instant kBegin{std::chrono::seconds{1000} + std::chrono::microseconds{300}};

IpAddress address_of(std::uint8_t last, bool v6) {
  if (!v6) return IpAddress::v4({192, 0, 2, last});
  return IpAddress::v6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}

std::size_t ip_header_size(std::span<const std::byte> packet) {
  const auto first = std::to_integer<std::size_t>(packet[0]);
  return first >> 4 == 6 ? 40 : (first & 0x0f) * 4;
}

/// Of a packet that the script has made.
IpArrival arrival_of(std::span<const std::byte> packet) {
  const auto byte = [packet](std::size_t at) { return std::to_integer<std::uint8_t>(packet[at]); };
  IpArrival arrival;
  if (byte(0) >> 4 == 4) {
    const auto address = [&byte](std::size_t at) {
      return IpAddress::v4({byte(at), byte(at + 1), byte(at + 2), byte(at + 3)});
    };
    arrival.source = address(12);
    arrival.destination = address(16);
    arrival.traffic_class = byte(1);
    arrival.hop_limit = byte(8);
    return arrival;
  }
  const auto address = [&byte](std::size_t at) {
    std::array<std::uint8_t, 16> copy{};
    for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = byte(at + i);
    return IpAddress::v6(copy);
  };
  arrival.source = address(8);
  arrival.destination = address(24);
  arrival.hop_limit = byte(7);
  return arrival;
}

}  // namespace

void ScriptIpLayer::send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept {
  PINION_ASSERT(how.protocol == IpProtocol::tcp);
  PacketBytes segment;
  for (const Packet* at = packet.get(); at != nullptr; at = at->next_segment()) {
    segment.insert(segment.end(), at->data(), at->data() + at->size());
  }
  sent_.push_back({now, write_ip(how.source, how.destination, segment)});
}

std::size_t ScriptIpLayer::path_mtu(const IpAddress&, const IpAddress&) const noexcept {
  return mtu_;
}

void ScriptIpLayer::learn_path_mtu(const IpAddress&, const IpAddress&, std::size_t mtu,
                                   Instant) noexcept {
  mtu_ = std::min(mtu_, mtu);
}

std::optional<IpAddress> ScriptIpLayer::source_for(const IpAddress& destination) const noexcept {
  if (destination.is_v6() != local_.is_v6()) return {};
  return local_;
}

bool ScriptIpLayer::is_local(const IpAddress& address) const noexcept {
  return address == local_;
}

bool ScriptIpLayer::is_unicast(const IpAddress& address) const noexcept {
  return !is_never_a_host(address);
}

void ScriptIpLayer::confirm_reachable(const IpAddress&, const IpAddress&, Instant) noexcept {
  ++confirmations_;
}

std::optional<SentPacket> ScriptIpLayer::take() {
  if (sent_.empty()) return {};
  SentPacket packet = std::move(sent_.front());
  sent_.pop_front();
  return packet;
}

TransportWorld::TransportWorld(PacketPool& pool, bool v6, std::size_t mtu)
    : pool_(pool),
      host_{address_of(1, v6), 7},
      peer_{address_of(2, v6), 80},
      now_(kBegin),
      wheel_(kBegin),
      ip_(host_.address, mtu),
      long_way_(std::getenv("PINION_TEST_LONG_WAY") != nullptr) {}

void TransportWorld::inject(std::span<const PacketBytes> packets) {
  for (const PacketBytes& bytes : packets) deliver(bytes);
  transport().end_of_burst(now_);
}

/// As the IP layer does: first as a packet of a flow that is known, then the long way.
void TransportWorld::deliver(std::span<const std::byte> bytes) {
  const IpArrival arrival = arrival_of(bytes);
  const std::size_t header_size = ip_header_size(bytes);
  const bool plain = header_size == (host_.address.is_v4() ? 20U : 40U);
  PacketPtr packet = packet_of(bytes);
  if (verified_) packet->set(PacketMark::transport_checksum_good);
  const bool whole = packet->next_segment() == nullptr;
  if (!long_way_ && plain && whole && arrival.destination == host_.address &&
      transport().receive_known(packet, now_)) {
    ++taken_as_known_;
    return;
  }
  packet->remove_prefix(header_size);
  transport().receive(std::move(packet), arrival, now_);
}

PacketPtr TransportWorld::packet_of(std::span<const std::byte> bytes) {
  PacketPtr first(pool_.allocate());
  PINION_ASSERT(first);
  Packet* last = first.get();
  while (!bytes.empty()) {
    if (last->tailroom() == 0) {
      Packet* const more = pool_.allocate();
      PINION_ASSERT(more != nullptr);
      last->set_next_segment(more);
      last = more;
    }
    const std::size_t part = std::min(bytes.size(), last->tailroom());
    std::memcpy(last->append(part), bytes.data(), part);
    bytes = bytes.subspan(part);
  }
  return first;
}

void TransportWorld::advance(Instant to) {
  now_ = to;
  wheel_.advance(now_);
  transport().end_of_burst(now_);
}

}  // namespace pinion::test

#include "udp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "../wire/checksum.h"
#include "../wire/udp.h"

namespace pinion {
namespace {

/// Whether a datagram can be for it: a host, a group, all of a link.
bool is_destination(const Endpoint& to) noexcept {
  const IpAddress& address = to.address;
  const bool to_many = is_multicast(address) || is_limited_broadcast(address);
  return to.port != 0 && (to_many || !is_never_a_host(address));
}

constexpr auto kUdp = static_cast<std::uint8_t>(IpProtocol::udp);

}  // namespace

UdpLayer::UdpLayer(IpStack& stack, PacketPool& pool, std::uint64_t seed,
                   const UdpOptions& options) noexcept
    : stack_(stack), pool_(pool), options_(options), secrets_(seed) {
  stack.attach(IpProtocol::udp, *this);
}

void UdpLayer::receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept {
  const auto parsed = wire::parse_udp(packet->bytes(), packet->chain_size());
  if (!parsed) {
    ++counters_.malformed[wire_fault_index(parsed.error())];
    return;
  }
  // A device may pass one that is missing, which it must not be over IPv6 (RFC 8200, 8.1).
  const bool missing = parsed->checksum == 0 && arrival.source.is_v6();
  const bool verified = packet->has(PacketMark::transport_checksum_good) && !missing;
  if (!verified &&
      !wire::udp_checksum_good(*packet, *parsed, arrival.source, arrival.destination)) {
    const bool partial = wire::udp_checksum_partial(*parsed, arrival.source, arrival.destination);
    ++counters_.malformed[wire_fault_index(partial ? wire::WireFault::udp_checksum_partial
                                                   : wire::WireFault::udp_checksum)];
    if (!partial || !options_.trust_partial_checksums) return;
  }
  const Endpoint from{arrival.source, parsed->source_port};
  UdpSocket* const socket =
      find({arrival.destination, parsed->destination_port}, from, arrival.broadcast);
  if (socket == nullptr) {
    ++(arrival.broadcast ? counters_.no_port_group : counters_.no_port);
    if (!arrival.broadcast) stack_.refuse_port(*packet, now);
    return;
  }
  const std::size_t size = wire::UdpHeader::kSize + parsed->payload_size;
  if (packet->chain_size() > size) truncate_chain(*packet, size);
  packet->remove_prefix(wire::UdpHeader::kSize);
  socket->take_in({.packet = std::move(packet),
                   .from = from,
                   .to = arrival.destination,
                   .traffic_class = arrival.traffic_class});
}

void UdpLayer::complain(const IpComplaint& complaint, Instant now) noexcept {
  constexpr std::size_t kPorts = 4;
  if (complaint.quoted.size() < kPorts) {
    ++counters_.complaints_ignored;
    return;
  }
  const Endpoint local{complaint.source, wire::load_be16(complaint.quoted.data())};
  const Endpoint peer{complaint.destination, wire::load_be16(complaint.quoted.data() + 2)};
  UdpSocket* const socket = find(local, peer, false);
  if (socket == nullptr) {
    ++counters_.complaints_ignored;
    return;
  }
  if (complaint.trouble == IpTrouble::packet_too_big) {
    // What we send over IPv4 may be fragmented: a router that complains of its length is none.
    if (peer.address.is_v4()) {
      ++counters_.complaints_ignored;
      return;
    }
    // Whoever guesses a port can say this of any destination, unless we talk to that one alone.
    if (socket->peer_) {
      stack_.learn_path_mtu(local.address, peer.address, complaint.mtu, now);
    } else {
      stack_.guess_path_mtu(local.address, peer.address, complaint.mtu, now);
    }
  }
  if (!socket->peer_) {
    ++counters_.complaints_ignored;
    return;
  }
  ++counters_.complaints;
  socket->trouble_ = complaint.trouble;
}

/// The socket that a datagram is for: connected to its sender, bound to its address, bound to any.
/// One to many is for those of any address alone.
UdpSocket* UdpLayer::find(const Endpoint& local, const Endpoint& peer, bool to_many) noexcept {
  UdpSocket* best = nullptr;
  int best_rank = 0;
  for (UdpSocket& socket : bucket(local.port)) {
    if (socket.local_.port != local.port) continue;
    if (socket.local_.address.is_v4() != local.address.is_v4()) continue;
    const bool any = is_unspecified(socket.local_.address);
    if (!any && (to_many || socket.local_.address != local.address)) continue;
    if (socket.peer_ && *socket.peer_ != peer) continue;
    const int rank = 1 + (any ? 0 : 1) + (socket.peer_ ? 2 : 0);
    if (rank <= best_rank) continue;
    best_rank = rank;
    best = &socket;
  }
  return best;
}

/// Whether a socket has this port, at this address or any.
bool UdpLayer::taken(const Endpoint& local) noexcept {
  return std::ranges::any_of(bucket(local.port), [&local](const UdpSocket& other) {
    if (other.local_.port != local.port) return false;
    if (other.local_.address.is_v4() != local.address.is_v4()) return false;
    return other.local_.address == local.address || is_unspecified(other.local_.address) ||
           is_unspecified(local.address);
  });
}

Result<> UdpLayer::bind(UdpSocket& socket, Endpoint local) {
  if (!is_unspecified(local.address) && !stack_.is_local(local.address)) {
    return fail(ErrorCode::not_found, to_string(local.address) + " is not an address of ours",
                "an address of an interface, or 0.0.0.0 or :: for any");
  }
  if (local.port != 0 && taken(local)) {
    return fail(ErrorCode::already_exists, to_string(local) + " is taken by another socket",
                "another port, or port 0 for a free one");
  }
  if (local.port == 0) {
    constexpr std::uint32_t kFirst = 49'152;
    constexpr std::uint32_t kCount = 65'536 - kFirst;
    const auto start = secrets_.below(kCount);
    std::uint32_t tried = 0;
    do {
      local.port = static_cast<std::uint16_t>(kFirst + (start + tried) % kCount);
      ++tried;
    } while (taken(local) && tried < kCount);
    if (taken(local)) {
      return fail(ErrorCode::resource_exhausted,
                  "no free port from 49152 to 65535 at " + to_string(local.address),
                  "close sockets, or bind to ports below");
    }
  }
  socket.local_ = local;
  bucket(local.port).push_back(socket);
  return {};
}

UdpSend UdpLayer::send(const UdpSocket& socket, std::span<const std::byte> payload,
                       const Endpoint& to, const std::optional<IpAddress>& from,
                       Instant now) noexcept {
  if (to.address.is_v4() != socket.local_.address.is_v4()) return UdpSend::other_family;
  if (!is_destination(to)) return UdpSend::no_destination;
  if (payload.size() > most_payload(to.address) - wire::UdpHeader::kSize) return UdpSend::too_long;
  const IpAddress& bound = socket.local_.address;
  const bool any = is_unspecified(bound);
  if (from && (any ? from->is_v4() != bound.is_v4() || !stack_.is_local(*from) : *from != bound)) {
    return UdpSend::not_ours;
  }
  std::optional<IpAddress> source = from ? from : std::optional(bound);
  if (any && !from) source = stack_.source_for(to.address);
  if (!source) return UdpSend::no_route;
  PacketPtr packet = packet_of(payload, pool_);
  if (!packet) return UdpSend::no_packets;
  std::byte* const at = packet->prepend(wire::UdpHeader::kSize);
  wire::emit_udp({.source_port = socket.local_.port,
                  .destination_port = to.port,
                  .payload_size = static_cast<std::uint16_t>(payload.size())},
                 {at, wire::UdpHeader::kSize});
  const std::uint16_t checksum = wire::transport_checksum(
      *packet, wire::UdpHeader::kSize + payload.size(), *source, to.address, kUdp);
  wire::store_be16(at + wire::UdpHeader::kChecksumOffset, wire::udp_checksum_field(checksum));
  ++counters_.sent;
  stack_.send(std::move(packet),
              {.source = *source,
               .destination = to.address,
               .protocol = IpProtocol::udp,
               .traffic_class = socket.options_.traffic_class,
               .hop_limit = is_multicast(to.address) ? socket.options_.group_hop_limit
                                                     : socket.options_.hop_limit,
               .may_fragment = true},
              now);
  return UdpSend::sent;
}

UdpSocket::UdpSocket(UdpLayer& layer, const UdpSocketOptions& options)
    : layer_(layer), ring_(options.datagrams), options_(options) {
  PINION_ASSERT(options.datagrams > 0);
  PINION_ASSERT(options.hop_limit > 0);
  PINION_ASSERT(options.group_hop_limit > 0);
}

UdpSocket::~UdpSocket() {
  if (linked()) List<UdpSocket>::erase(*this);
}

Result<> UdpSocket::bind(const Endpoint& local) {
  if (linked()) {
    return fail(ErrorCode::already_exists, "the socket is bound to " + to_string(local_));
  }
  return layer_.bind(*this, local);
}

Result<> UdpSocket::connect(const Endpoint& peer) {
  if (!is_destination(peer)) {
    return fail(ErrorCode::invalid_argument, to_string(peer) + " is nobody to talk to",
                "an address and a port from 1 to 65535");
  }
  const std::optional<IpAddress> source = layer_.stack_.source_for(peer.address);
  if (!source) {
    return fail(ErrorCode::unavailable, "there is no route to " + to_string(peer.address),
                "add a route, or an address of its family");
  }
  if (!linked()) {
    if (Result<> bound = bind({*source, 0}); !bound) return bound;
  }
  if (peer.address.is_v4() != local_.address.is_v4()) {
    return fail(ErrorCode::invalid_argument,
                to_string(peer) + " is of another family than " + to_string(local_));
  }
  peer_ = peer;
  return {};
}

UdpSend UdpSocket::send(std::span<const std::byte> payload, Instant now) noexcept {
  return peer_ ? send_to(payload, *peer_, now) : UdpSend::not_connected;
}

UdpSend UdpSocket::send_to(std::span<const std::byte> payload, const Endpoint& to, Instant now,
                           const std::optional<IpAddress>& from) noexcept {
  PINION_ASSERT(linked());
  const UdpSend result = layer_.send(*this, payload, to, from, now);
  if (result == UdpSend::sent) ++stats_.sent;
  return result;
}

std::optional<UdpDatagram> UdpSocket::receive() noexcept {
  if (count_ == 0) return std::nullopt;
  std::optional<UdpDatagram> oldest(std::move(ring_[first_]));
  first_ = (first_ + 1) % ring_.size();
  --count_;
  bytes_ -= chain_true_size(*oldest->packet);
  return oldest;
}

std::optional<IpTrouble> UdpSocket::take_trouble() noexcept {
  return std::exchange(trouble_, std::nullopt);
}

void UdpSocket::take_in(UdpDatagram datagram) noexcept {
  if (is_low(layer_.pool_)) {
    ++stats_.dropped;
    ++layer_.counters_.pool_low;
    return;
  }
  const std::size_t cost = chain_true_size(*datagram.packet);
  if (count_ == ring_.size() || bytes_ + cost > options_.bytes) {
    ++stats_.dropped;
    ++layer_.counters_.queue_full;
    return;
  }
  ring_[(first_ + count_) % ring_.size()] = std::move(datagram);
  ++count_;
  bytes_ += cost;
  ++stats_.received;
  ++layer_.counters_.received;
}

}  // namespace pinion

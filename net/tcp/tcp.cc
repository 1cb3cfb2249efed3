#include "tcp.h"

#include <algorithm>
#include <utility>

#include "../stack/ip_kinds.h"
#include "../wire/tcp_checksum.h"
#include "packet_tuple.h"

namespace pinion {

/// Time never goes back, whoever says what it is.
void Tcp::note(Instant now) noexcept {
  if (now <= now_) return;
  now_ = now;
  time_ = TcpTime::at(now);
  time_after_ = TcpTime::after(now);
}

void Tcp::receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept {
  note(now);
  ++stats_.segments_in;
  if (arrival.broadcast) return drop(TcpDrop::broadcast);
  TcpArrival a{.packet = std::move(packet)};
  if (!read_segment(a, arrival)) return;
  if (TcpConnection* const c = find(a.tuple); c != nullptr) return input(*c, a);
  input_unknown(a);
}

/// A segment of a connection, before anything else is made of its packet.
bool Tcp::receive_known(PacketPtr& packet, Instant now) noexcept {
  const std::byte* const ip = packet->data();
  return wire::load_u8(ip) >> 4 == 4 ? receive_known_v4(packet, now)
                                     : receive_known_v6(packet, now);
}

bool Tcp::receive_known_v4(PacketPtr& packet, Instant now) noexcept {
  constexpr std::size_t kIpHeader = wire::Ipv4Header::kMinSize;
  const std::byte* const ip = packet->data();
  const std::span<const std::byte> bytes(ip + kIpHeader, packet->size() - kIpHeader);
  if (bytes.size() < wire::kTcpHeaderSize) return false;
  const FourTuple::V4 tuple = tuple_of_v4(ip);
  const std::optional<std::uint32_t> index =
      table_.find(table_hash(table_secret_, tuple),
                  [&](std::uint32_t at) { return connections_.at(at).tuple.is(tuple); });
  if (!index) return false;
  if (!packet->has(PacketMark::transport_checksum_good) &&
      !wire::tcp_checksum_good<2 * 4>(ip + wire::kIpv4Addresses, bytes)) {
    return false;
  }
  note(now);
  return input_known(connections_.at(*index), packet, kIpHeader);
}

bool Tcp::receive_known_v6(PacketPtr& packet, Instant now) noexcept {
  constexpr std::size_t kIpHeader = wire::Ipv6Header::kSize;
  const std::byte* const ip = packet->data();
  const std::span<const std::byte> bytes(ip + kIpHeader, packet->size() - kIpHeader);
  if (bytes.size() < wire::kTcpHeaderSize) return false;
  TcpConnection* const c = find(tuple_of_v6(ip));
  if (c == nullptr) return false;
  if (!packet->has(PacketMark::transport_checksum_good) &&
      !wire::tcp_checksum_good<2 * 16>(ip + wire::kIpv6Addresses, bytes)) {
    return false;
  }
  note(now);
  return input_known(*c, packet, kIpHeader);
}

/// The segment of `packet`, whose checksum is right, behind an IP header of `ip_size` bytes.
bool Tcp::input_known(TcpConnection& c, PacketPtr& packet, std::size_t ip_size) noexcept {
  if (input_expected(c, packet, ip_size)) return true;
  TcpArrival a{.packet = {}};
  const std::span bytes = std::as_const(*packet).bytes().subspan(ip_size);
  if (wire::read_tcp(bytes, a.segment)) return false;
  ++stats_.segments_in;
  a.tuple = c.tuple;
  const std::size_t header_size = a.segment.header.size();
  a.size = static_cast<std::uint32_t>(bytes.size() - header_size);
  packet->remove_prefix(ip_size + header_size);
  a.packet = std::move(packet);
  input(c, a);
  return true;
}

/// Fills in what the packet has. False, and counted, when that is no segment.
bool Tcp::read_segment(TcpArrival& a, const IpArrival& arrival) noexcept {
  const std::size_t size = a.packet->chain_size();
  const auto count = [this](wire::WireFault fault) {
    ++stats_.faults[wire::wire_fault_index(fault)];
    return false;
  };
  if (size >= wire::kTcpHeaderSize &&
      !wire::tcp_checksum_good(*a.packet, size, arrival.source, arrival.destination)) {
    if (!wire::tcp_checksum_partial(*a.packet, size, arrival.source, arrival.destination)) {
      return count(wire::WireFault::tcp_checksum);
    }
    static_cast<void>(count(wire::WireFault::tcp_checksum_partial));
    if (!config_.trust_partial_checksums) return false;
  }
  const auto fault = wire::read_tcp(std::as_const(*a.packet).bytes(), a.segment);
  if (fault) return count(*fault);
  const std::optional<FourTuple> tuple =
      FourTuple::between({arrival.destination, a.segment.header.destination_port},
                         {arrival.source, a.segment.header.source_port});
  if (!tuple || is_never_a_host(arrival.source)) {
    drop(TcpDrop::address);
    return false;
  }
  const std::size_t header_size = a.segment.header.size();
  a.packet->remove_prefix(header_size);
  a.tuple = *tuple;
  a.size = static_cast<std::uint32_t>(size - header_size);
  return true;
}

TcpConnection* Tcp::find(const FourTuple& tuple) noexcept {
  const std::optional<std::uint32_t> index =
      table_.find(table_hash(table_secret_, tuple),
                  [&](std::uint32_t at) { return connections_.at(at).tuple == tuple; });
  return index ? &connections_.at(*index) : nullptr;
}

void Tcp::end_of_burst(Instant now) noexcept {
  note(now);
  settle_all();
  if (scarce(packets_, kReorderingReserve)) shed_reordering();
}

/// Whether what comes may be kept for the reader: always if nothing waits for it, so that everybody
/// gets on though others don't read.
bool Tcp::may_hold_more(const TcpConnection& c) const noexcept {
  return c.receive.empty() || c.discarding || !scarce(packets_, kHoardReserve);
}

/// What waits for a hole to be filled gives way first: the peer keeps it (RFC 2018, 8).
void Tcp::shed_reordering() noexcept {
  if (out_of_order_memory_.true_size() == 0) return;
  const std::uint64_t wanted = packets_.capacity() / kReorderingReserve * packets_.buffer_size();
  stats_.shed_bytes += out_of_order_memory_.shed(wanted);
}

void Tcp::settle_all() noexcept {
  PINION_ASSERT(settling_ == nullptr);
  while (!touched_.empty()) settle(connections_.at(touched_.pop_front()));
  if (acceptors_wait_) tell_acceptors();
}

/// Tells the user what has happened, then sends what follows from that and from what the user did.
void Tcp::settle(TcpConnection& c) noexcept {
  c.touched = false;
  settling_ = &c;
  if (c.progress) {
    c.progress = false;
    ip_.confirm_reachable(c.tuple.local.address(), c.tuple.remote.address(), now_);
  }
  if (c.received) {
    c.received = false;
    c.receive.compact(receive_memory_);
  }
  tell_news(c);
  if (!c.over()) output(c);
  if (c.over()) tell_end(c);
  settling_ = nullptr;
  release_if_done(c);
}

/// What a call of the user's has changed is sent: now, or when the callback that it came from is
/// over.
void Tcp::act(TcpConnection& c) noexcept {
  if (settling_ != &c && !c.over()) output(c);
}

void Tcp::tell_news(TcpConnection& c) noexcept {
  if (c.waits_for_accept || c.news == 0) return;
  const TcpHandle handle = connections_.handle_of(c);
  const auto tells = [&c](TcpNews what) {
    return c.take(what) && !c.released && c.observer != nullptr;
  };
  if (tells(TcpNews::connected)) c.observer->on_connected(handle, now_);
  if (tells(TcpNews::readable)) c.observer->on_readable(handle, now_);
  if (c.news == 0) return;
  if (tells(TcpNews::writable)) c.observer->on_writable(handle, now_);
  if (tells(TcpNews::read_deadline)) c.observer->on_read_deadline(handle, now_);
  if (tells(TcpNews::write_deadline)) c.observer->on_write_deadline(handle, now_);
}

void Tcp::tell_end(TcpConnection& c) noexcept {
  if (c.told_end) return;
  c.told_end = true;
  if (c.observer == nullptr) return;
  std::exchange(c.observer, nullptr)->on_closed(connections_.handle_of(c), c.end, now_);
}

void Tcp::tell_acceptors() noexcept {
  acceptors_wait_ = false;
  for (TcpListener& listener : listeners_) {
    if (!std::exchange(listener.has_news, false) || !listener.listens()) continue;
    if (listener.acceptor == nullptr || listener.waiting == 0) continue;
    const auto index = static_cast<std::uint32_t>(&listener - listeners_.data());
    listener.acceptor->on_acceptable({.index = index, .generation = listener.generation}, now_);
  }
}

}  // namespace pinion

#include "stack_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

/// Packets by hand: the measured stacks' own code makes none of them.

namespace pinion::bench {
namespace {

constexpr std::size_t kIpHeader = 20;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kHeaders = kIpHeader + kTcpHeader;
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kReset = 0x04;
constexpr std::uint8_t kPush = 0x08;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kTcp = 6;
/// Beyond what a server sends before its peer has acknowledged, and not scaled.
constexpr std::uint16_t kWindow = 65'535;

void store16(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}

void store32(std::byte* at, std::uint32_t value) {
  store16(at, value >> 16);
  store16(at + 2, value);
}

std::uint32_t load16(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 8 | std::to_integer<std::uint32_t>(at[1]);
}

std::uint32_t load32(const std::byte* at) {
  return load16(at) << 16 | load16(at + 2);
}

/// RFC 1071, two bytes at a time.
std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += load16(bytes.data() + i);
  if (i < bytes.size()) sum += std::to_integer<std::uint32_t>(bytes[i]) << 8;
  return sum;
}

std::uint32_t folded(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffffU) + (sum >> 16);
  return static_cast<std::uint32_t>(sum);
}

/// Of a whole packet with its pseudo header; with the right checksum in it, 0xffff.
std::uint32_t tcp_sum(std::span<const std::byte> packet) {
  const std::size_t size = packet.size() - kIpHeader;
  return folded(sum_of(packet.subspan(12, 8)) + kTcp + size + sum_of(packet.subspan(kIpHeader)));
}

}  // namespace

std::span<const std::byte> StackPeer::syn(std::uint32_t connection) {
  // MSS 1460, no-operation, window scale 0.
  constexpr std::uint8_t kOptions[] = {2, 4, 5, 0xb4, 1, 3, 3, 0};
  std::memcpy(out_.data() + kHeaders, kOptions, sizeof(kOptions));
  connections_[connection] = {.next = connection * 64'019U, .expected = 0};
  const auto packet = finish(connection, kSyn, 0, sizeof(kOptions));
  connections_[connection].next += 1;
  return packet;
}

std::span<const std::byte> StackPeer::acknowledgment(std::uint32_t connection) {
  return finish(connection, kAck, connections_[connection].expected, 0);
}

std::span<const std::byte> StackPeer::acknowledgment() {
  const Due due = due_.front();
  due_.pop_front();
  return finish(due.connection, kAck, due.number, 0);
}

std::span<const std::byte> StackPeer::data(std::uint32_t connection, std::size_t size) {
  Connection& c = connections_[connection];
  // Whose it is, and where in its stream.
  const std::uint64_t number = std::uint64_t{connection} << 32 | c.next;
  std::memcpy(out_.data() + kHeaders, &number, sizeof(number));
  numbers_made_ += number;
  bytes_made_ += size;
  const auto packet = finish(connection, kAck | kPush, c.expected, size);
  c.next += static_cast<std::uint32_t>(size);
  return packet;
}

/// Puts the headers in front of the `size` bytes that stand behind them: options of a SYN, or data.
std::span<const std::byte> StackPeer::finish(std::uint32_t connection, std::uint8_t flags,
                                             std::uint32_t acknowledgment, std::size_t size) {
  const std::span packet(out_.data(), kHeaders + size);
  std::byte* const ip = packet.data();
  const std::size_t options = (flags & kSyn) != 0 ? size : 0;
  store16(ip, 0x4500);
  store16(ip + 2, static_cast<std::uint32_t>(packet.size()));
  store16(ip + 4, ++identification_);
  store16(ip + 6, 0x4000);  // Don't fragment.
  store16(ip + 8, 64U << 8 | kTcp);
  store16(ip + 10, 0);
  store32(ip + 12, kStackPeers + connection / kStackPeerPorts);
  store32(ip + 16, kStackServer);
  store16(ip + 10, ~folded(sum_of(packet.first(kIpHeader))));
  std::byte* const tcp = ip + kIpHeader;
  store16(tcp, kStackPeerFirstPort + connection % kStackPeerPorts);
  store16(tcp + 2, kStackPort);
  store32(tcp + 4, connections_[connection].next);
  store32(tcp + 8, acknowledgment);
  store16(tcp + 12, static_cast<std::uint32_t>((kTcpHeader + options) / 4) << 12 | flags);
  store16(tcp + 14, kWindow);
  store32(tcp + 16, 0);
  store16(tcp + 16, ~tcp_sum(packet));
  return packet;
}

void StackPeer::take(std::span<const std::byte> packet) {
  const std::byte* const ip = packet.data();
  const std::byte* const tcp = ip + kIpHeader;
  if (packet.size() < kHeaders || load16(ip) != 0x4500 || load16(ip + 2) != packet.size()) {
    return complain(0, "no IPv4 packet without options");
  }
  const std::uint32_t connection =
      stack_connection(load32(ip + 16), static_cast<std::uint16_t>(load16(tcp + 2)));
  if (connection >= connections_.size() || load32(ip + 12) != kStackServer) {
    return complain(connection, "a packet to nobody");
  }
  if (folded(sum_of(packet.first(kIpHeader))) != 0xffff) {
    return complain(connection, "a wrong checksum of IPv4");
  }
  if (tcp_sum(packet) != 0xffff) return complain(connection, "a wrong checksum of TCP");
  Connection& c = connections_[connection];
  const std::uint32_t flags = load16(tcp + 12) & 0x3fU;
  const std::size_t header = kIpHeader + (load16(tcp + 12) >> 12) * 4;
  if ((flags & kReset) != 0) return complain(connection, "a reset");
  if ((flags & kAck) == 0) return complain(connection, "a segment without ACK");
  if (static_cast<std::int32_t>(c.next - load32(tcp + 8)) < 0) {
    return complain(connection, "an acknowledgment of what was never sent");
  }
  if ((flags & kSyn) != 0) {
    c.expected = load32(tcp + 4) + 1;
    return;
  }
  if (load32(tcp + 4) != c.expected) return complain(connection, "another segment than the next");
  const std::span bytes = packet.subspan(header);
  if (bytes.empty()) {
    ++empty_;
    return;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof(number)));
  numbers_taken_ += number;
  ++segments_;
  bytes_ += bytes.size();
  c.expected += static_cast<std::uint32_t>(bytes.size());
  due_.push_back({.connection = connection, .number = c.expected});
}

void StackPeer::complain(std::uint32_t connection, const char* what) {
  if (fault_.empty()) fault_ = fmt::format("connection {}: {}", connection, what);
}

}  // namespace pinion::bench

#include "segment.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

namespace pinion::test {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;

tl::unexpected<std::string> refused(std::string why) {
  return tl::unexpected(std::move(why));
}

/// A number of `size` bytes, the first one the most significant.
std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  }
  return value;
}
std::uint8_t u8_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint8_t>(number_at(bytes, at, 1));
}
std::uint16_t u16_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(number_at(bytes, at, 2));
}
std::uint32_t u32_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(number_at(bytes, at, 4));
}

void put(PacketBytes& bytes, std::size_t size, std::uint64_t value) {
  for (std::size_t i = size; i != 0; --i) {
    bytes.push_back(static_cast<std::byte>(value >> (8 * (i - 1))));
  }
}
void put(PacketBytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}
void put(PacketBytes& bytes, const IpAddress& address) {
  const std::size_t size = address.is_v4() ? 4 : 16;
  for (std::size_t i = 0; i < size; ++i) bytes.push_back(std::byte{address.bytes()[i]});
}

/// RFC 1071 word by word.
std::uint16_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    const bool last = at + 1 == bytes.size();
    sum += number_at(bytes, at, 1) << 8 | (last ? 0 : number_at(bytes, at + 1, 1));
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

PacketBytes pseudo_header(const IpAddress& source, const IpAddress& destination, std::size_t size) {
  PacketBytes bytes;
  put(bytes, source);
  put(bytes, destination);
  put(bytes, 4, size);
  put(bytes, 4, kTcp);
  return bytes;
}

std::uint16_t tcp_checksum(const IpAddress& source, const IpAddress& destination,
                           std::span<const std::byte> segment) {
  PacketBytes summed = pseudo_header(source, destination, segment.size());
  put(summed, segment);
  return checksum(summed);
}

/// What is left for a NIC to complete: the sum, not its complement.
std::uint16_t partial_checksum(const IpAddress& source, const IpAddress& destination,
                               std::size_t size) {
  return static_cast<std::uint16_t>(~checksum(pseudo_header(source, destination, size)));
}

void set_u16(PacketBytes& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::byte>(value >> 8);
  bytes[at + 1] = static_cast<std::byte>(value);
}

PacketBytes option_bytes(const Segment& segment, const SegmentDamage& damage) {
  PacketBytes options;
  for (const SegmentOption& option : segment.options) {
    put(options, 1, option.kind);
    put(options, 1, option.data.size() + 2);
    put(options, option.data);
  }
  put(options, damage.raw_options);
  while (options.size() % 4 != 0) options.push_back(std::byte{kOptionEnd});
  return options;
}

/// How long the options of a known kind may be.
bool is_size_of(std::uint8_t kind, std::size_t size) {
  const auto one_of = [size](std::initializer_list<std::size_t> sizes) {
    return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
  };
  switch (kind) {
    case kOptionMss:
      return one_of({4});
    case kOptionWindowScale:
      return one_of({3});
    case kOptionSackPermitted:
      return one_of({2});
    case kOptionSack:
      return one_of({10, 18, 26, 34});
    case kOptionTimestamps:
      return one_of({10});
    default:
      return true;
  }
}

/// Reads options; what is wrong, or nothing.
std::string read_options(std::span<const std::byte> bytes, std::vector<SegmentOption>& options) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::uint8_t kind = u8_at(bytes, at);
    if (kind == kOptionEnd) return {};
    if (kind == kOptionNop) {
      ++at;
      continue;
    }
    if (at + 1 == bytes.size()) return "tcp_option_overrun";
    const std::size_t size = u8_at(bytes, at + 1);
    if (size == 0 || size == 1) return "tcp_option_length";
    if (at + size > bytes.size()) return "tcp_option_overrun";
    if (!is_size_of(kind, size)) return "tcp_option_length";
    SegmentOption& option = options.emplace_back();
    option.kind = kind;
    put(option.data, bytes.subspan(at + 2, size - 2));
    at += size;
  }
  return {};
}

struct Payload {
  IpAddress source;
  IpAddress destination;
  std::span<const std::byte> bytes;
};

tl::expected<Payload, std::string> read_ipv4(std::span<const std::byte> bytes) {
  if (bytes.size() < kIpv4Header) return refused("an IPv4 header cut short");
  const std::size_t header = (u8_at(bytes, 0) & 0x0fU) * std::size_t{4};
  if (header < kIpv4Header || header > bytes.size()) return refused("a wrong IHL");
  if (u16_at(bytes, 2) != bytes.size()) return refused("a wrong IPv4 total length");
  if (checksum(bytes.first(header)) != 0) return refused("a wrong IPv4 header checksum");
  if ((u16_at(bytes, 6) & 0x3fffU) != 0) return refused("an IPv4 fragment");
  if (u8_at(bytes, 9) != kTcp) return refused("not TCP");
  const auto address = [bytes](std::size_t at) {
    return IpAddress::v4(
        {u8_at(bytes, at), u8_at(bytes, at + 1), u8_at(bytes, at + 2), u8_at(bytes, at + 3)});
  };
  return Payload{address(12), address(16), bytes.subspan(header)};
}

tl::expected<Payload, std::string> read_ipv6(std::span<const std::byte> bytes) {
  if (bytes.size() < kIpv6Header) return refused("an IPv6 header cut short");
  if (u16_at(bytes, 4) + kIpv6Header != bytes.size()) {
    return refused("a wrong IPv6 payload length");
  }
  if (u8_at(bytes, 6) != kTcp) return refused("not TCP");
  const auto address = [bytes](std::size_t at) {
    std::array<std::uint8_t, 16> copy{};
    for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = u8_at(bytes, at + i);
    return IpAddress::v6(copy);
  };
  return Payload{address(8), address(24), bytes.subspan(kIpv6Header)};
}

PacketBytes ip_header(const IpAddress& source, const IpAddress& destination, std::size_t payload) {
  PacketBytes header;
  if (source.is_v6()) {
    put(header, 4, 0x60000000);
    put(header, 2, payload);
    put(header, 1, kTcp);
    put(header, 1, 64);
  } else {
    put(header, 2, 0x4500);
    put(header, 2, kIpv4Header + payload);
    put(header, 4, 0x00004000);  // DF.
    put(header, 1, 64);
    put(header, 1, kTcp);
    put(header, 2, 0);
  }
  put(header, source);
  put(header, destination);
  if (source.is_v4()) set_u16(header, 10, checksum(header));
  return header;
}

}  // namespace

std::uint32_t SegmentOption::word(std::size_t at) const {
  return u32_at(data, at);
}

const SegmentOption* Segment::option(std::uint8_t kind) const {
  const SegmentOption* found = nullptr;
  for (const SegmentOption& option : options) {
    if (option.kind == kind) found = &option;
  }
  return found;
}

std::byte pattern_byte(std::uint64_t offset) {
  std::uint64_t mixed = (offset + 1) * 0x9e3779b97f4a7c15U;
  mixed ^= mixed >> 29;
  return static_cast<std::byte>(mixed >> 24);
}

PacketBytes write_tcp(const Segment& segment, const SegmentDamage& damage) {
  const PacketBytes options = option_bytes(segment, damage);
  const std::size_t words = (kTcpHeader + options.size()) / 4;
  PacketBytes bytes;
  put(bytes, 2, segment.source_port);
  put(bytes, 2, segment.destination_port);
  put(bytes, 4, segment.sequence);
  put(bytes, 4, segment.acknowledgment);
  put(bytes, 1, std::uint64_t{damage.data_offset.value_or(static_cast<std::uint8_t>(words))} << 4);
  put(bytes, 1, segment.flags);
  put(bytes, 2, segment.window);
  put(bytes, 2, 0);
  put(bytes, 2, segment.urgent_pointer);
  put(bytes, options);
  put(bytes, segment.payload);
  if (damage.cut_to) bytes.resize(std::min(bytes.size(), *damage.cut_to));
  return bytes;
}

tl::expected<Segment, std::string> read_tcp(std::span<const std::byte> bytes) {
  if (bytes.size() < kTcpHeader) return refused("tcp_truncated");
  Segment segment;
  segment.source_port = u16_at(bytes, 0);
  segment.destination_port = u16_at(bytes, 2);
  segment.sequence = u32_at(bytes, 4);
  segment.acknowledgment = u32_at(bytes, 8);
  segment.flags = u8_at(bytes, 13);
  segment.window = u16_at(bytes, 14);
  segment.urgent_pointer = u16_at(bytes, 18);
  const std::size_t header = u8_at(bytes, 12) / 16 * std::size_t{4};
  if (header < kTcpHeader) return refused("tcp_header_length");
  if (header > bytes.size()) return refused("tcp_header_length");
  if (segment.source_port == 0) return refused("tcp_port");
  if (segment.destination_port == 0) return refused("tcp_port");
  if (segment.has(kSyn) && segment.has(kFin)) return refused("tcp_flags");
  if (segment.has(kSyn) && segment.has(kRst)) return refused("tcp_flags");
  const auto options = bytes.subspan(kTcpHeader, header - kTcpHeader);
  if (const std::string fault = read_options(options, segment.options); !fault.empty()) {
    return refused(fault);
  }
  put(segment.payload, bytes.subspan(header));
  return segment;
}

PacketBytes write_ip(const IpAddress& source, const IpAddress& destination,
                     std::span<const std::byte> segment) {
  PacketBytes packet = ip_header(source, destination, segment.size());
  put(packet, segment);
  return packet;
}

PacketBytes write_packet(const IpAddress& source, const IpAddress& destination,
                         const Segment& segment, const SegmentDamage& damage) {
  PacketBytes tcp = write_tcp(segment, damage);
  if (tcp.size() >= 18) {
    std::uint16_t sum = tcp_checksum(source, destination, tcp);
    if (damage.partial_checksum) sum = partial_checksum(source, destination, tcp.size());
    if (damage.checksum) sum ^= 0x0100U;
    set_u16(tcp, 16, sum);
  }
  return write_ip(source, destination, tcp);
}

tl::expected<ReadPacket, std::string> read_packet(std::span<const std::byte> bytes) {
  const unsigned version = bytes.empty() ? 0U : u8_at(bytes, 0) / 16U;
  if (version != 4 && version != 6) return refused("no IP version");
  const auto payload = version == 4 ? read_ipv4(bytes) : read_ipv6(bytes);
  if (!payload) return refused(payload.error());
  if (tcp_checksum(payload->source, payload->destination, payload->bytes) != 0) {
    return refused("a wrong TCP checksum");
  }
  auto segment = read_tcp(payload->bytes);
  if (!segment) return refused(segment.error());
  return ReadPacket{payload->source, payload->destination, std::move(*segment)};
}

}  // namespace pinion::test

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/net/address.h>
#include <pinion/net/packet.h>

#include "checksum.h"
#include "wire_fault.h"

/// What all ICMP messages begin with, of IPv4 (RFC 792) and IPv6 (RFC 4443), and the datagram that
/// an error message quotes.
///
/// Ownership:  plain values; a quote is a view of the message.
/// Threading:  any.
/// Cost:       a few loads and compares; a checksum reads the message.
/// Errors:     a WireFault.

namespace pinion::wire {

enum class IcmpType : std::uint8_t {
  echo_reply = 0,
  destination_unreachable = 3,
  source_quench = 4,
  redirect = 5,
  echo_request = 8,
  time_exceeded = 11,
  parameter_problem = 12,
};

/// Codes of IcmpType::destination_unreachable (RFC 792, RFC 1122, RFC 1812).
enum class IcmpUnreachable : std::uint8_t {
  net = 0,
  host = 1,
  protocol = 2,
  port = 3,
  fragmentation_needed = 4,
  source_route_failed = 5,
  net_unknown = 6,
  host_unknown = 7,
  net_prohibited = 9,
  host_prohibited = 10,
  prohibited = 13,
};

enum class IcmpV6Type : std::uint8_t {
  destination_unreachable = 1,
  packet_too_big = 2,
  time_exceeded = 3,
  parameter_problem = 4,
  echo_request = 128,
  echo_reply = 129,
  router_solicitation = 133,
  router_advertisement = 134,
  neighbor_solicitation = 135,
  neighbor_advertisement = 136,
  redirect = 137,
};

/// Codes of IcmpV6Type::destination_unreachable.
enum class IcmpV6Unreachable : std::uint8_t {
  no_route = 0,
  prohibited = 1,
  beyond_scope = 2,
  address = 3,
  port = 4,
};

struct IcmpMessage {
  static constexpr std::size_t kHeaderSize = 8;
  static constexpr std::size_t kChecksumOffset = 2;

  std::uint8_t type = 0;  ///< An IcmpType or an IcmpV6Type.
  std::uint8_t code = 0;
  /// The four bytes behind the checksum. Echo: identifier and sequence number, 16 bits each. Of
  /// IPv4, fragmentation needed: the MTU; parameter problem: the pointer in the highest byte. Of
  /// IPv6, packet too big: the MTU; parameter problem: the pointer.
  std::uint32_t detail = 0;

  [[nodiscard]] constexpr bool is(IcmpType other) const noexcept {
    return type == static_cast<std::uint8_t>(other);
  }
  [[nodiscard]] constexpr bool is(IcmpV6Type other) const noexcept {
    return type == static_cast<std::uint8_t>(other);
  }

  friend bool operator==(const IcmpMessage&, const IcmpMessage&) noexcept = default;
};

/// Whether a message is an error message, which quotes a datagram and is never answered by another
/// (RFC 1122, 3.2.2; RFC 4443, 2.4).
[[nodiscard]] constexpr bool is_icmp_error(const IcmpMessage& message) noexcept {
  return message.is(IcmpType::destination_unreachable) || message.is(IcmpType::source_quench) ||
         message.is(IcmpType::redirect) || message.is(IcmpType::time_exceeded) ||
         message.is(IcmpType::parameter_problem);
}
[[nodiscard]] constexpr bool is_icmp_v6_error(const IcmpMessage& message) noexcept {
  return message.type < 128;
}

/// The header at the front of `bytes`, of either family. Shorter messages than its size exist in
/// neither.
[[nodiscard]] Parsed<IcmpMessage> parse_icmp(std::span<const std::byte> bytes) noexcept;

/// Writes the header, with a checksum of 0, to the front of `into`, which has room for it; returns
/// its size.
std::size_t emit_icmp(const IcmpMessage& message, std::span<std::byte> into) noexcept;

/// The checksum of the ICMP message of IPv4 that is the first `size` bytes of the chain `first`: 0
/// if it holds the right one. That of IPv6 is transport_checksum().
[[nodiscard]] inline std::uint16_t icmp_checksum(const Packet& first, std::size_t size) noexcept {
  InternetChecksum sum;
  sum.add(first, size);
  return sum.value();
}

/// The beginning of a datagram, in an error message. It is the sender's word: whoever is told of it
/// checks that he has sent it.
struct QuotedDatagram {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 0;
  std::span<const std::byte> transport{};  ///< From the transport's header on: 8 bytes or more.
};

/// The datagram that the error message at the front of `bytes`, header included, quotes. Later
/// fragments, which don't show their transport's header, are no use and a fault.
[[nodiscard]] Parsed<QuotedDatagram> parse_icmp_quote(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] Parsed<QuotedDatagram> parse_icmp_v6_quote(std::span<const std::byte> bytes) noexcept;

}  // namespace pinion::wire

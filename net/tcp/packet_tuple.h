#pragma once

#include <cstddef>

#include "../wire/byte_order.h"
#include "../wire/ipv4.h"
#include "../wire/ipv6.h"
#include "four_tuple.h"

/// The four-tuple of a segment as it stands in an IP packet that has arrived, with nothing between
/// the IP header and TCP's.
///
/// Ownership:  the packet's bytes are read and not kept.
/// Threading:  any.
/// Cost:       a load and a turn of bytes for each word.
/// Errors:     none: there are the IP header's bytes and kPortsSize behind it.

namespace pinion {

inline constexpr std::size_t kPortsSize = 4;

[[nodiscard]] inline FourTuple::V4 tuple_of_v4(const std::byte* ip) noexcept {
  const std::byte* const ports = ip + wire::Ipv4Header::kMinSize;
  return {.local = wire::load_be32(ip + wire::kIpv4Addresses + 4),
          .remote = wire::load_be32(ip + wire::kIpv4Addresses),
          .local_port = wire::load_be16(ports + 2),
          .remote_port = wire::load_be16(ports)};
}

[[nodiscard]] inline FourTuple tuple_of_v6(const std::byte* ip) noexcept {
  const std::byte* const ports = ip + wire::Ipv6Header::kSize;
  return {.local = CompactAddress::v6(wire::load_bytes<16>(ip + wire::kIpv6Addresses + 16)),
          .remote = CompactAddress::v6(wire::load_bytes<16>(ip + wire::kIpv6Addresses)),
          .local_port = wire::load_be16(ports + 2),
          .remote_port = wire::load_be16(ports)};
}

}  // namespace pinion

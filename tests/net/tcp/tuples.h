#pragma once

#include <array>
#include <cstdint>

#include <pinion/lib/random.h>
#include <pinion/net/address.h>

#include "tcp/four_tuple.h"

/// Four-tuples to test with.

namespace pinion::test {

inline IpAddress any_address(Random& random, bool v6) {
  std::array<std::uint8_t, 16> bytes{};
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  if (!v6) return IpAddress::v4({bytes[0], bytes[1], bytes[2], bytes[3]});
  bytes[0] = 0x20;
  return IpAddress::v6(bytes);
}

inline Endpoint any_endpoint(Random& random, bool v6) {
  return {any_address(random, v6), static_cast<std::uint16_t>(random.next())};
}

inline FourTuple any_tuple(Random& random) {
  const bool v6 = random.chance(0.5);
  return *FourTuple::between(any_endpoint(random, v6), any_endpoint(random, v6));
}

inline IpAddress address_v4(std::uint32_t bits) {
  const auto octet = [&](unsigned shift) { return static_cast<std::uint8_t>(bits >> shift); };
  return IpAddress::v4({octet(24), octet(16), octet(8), octet(0)});
}

/// Both addresses as numbers.
inline FourTuple tuple_v4(std::uint32_t local, std::uint32_t remote, std::uint16_t local_port,
                          std::uint16_t remote_port) {
  return *FourTuple::between({address_v4(local), local_port}, {address_v4(remote), remote_port});
}

inline SipKey any_key(Random& random) {
  const std::uint64_t first = random.next();
  return {.k0 = first, .k1 = random.next()};
}

}  // namespace pinion::test

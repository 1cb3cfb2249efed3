#pragma once

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

#include "../wire/icmp.h"
#include "../wire/ndp.h"
#include "address_checks.h"
#include "ip_output.h"

/// Neighbor discovery of a host with configured addresses (RFC 4861, RFC 4862): solicitations and
/// advertisements. Router messages and redirects are counted and change nothing.
///
/// Ownership:  packets are read; answers are packets of their own.
/// Threading:  one lcore.
/// Cost:       a few compares; what is for us an answer and a look into the neighbour cache.
/// Errors:     what breaks the rules is counted. Who is believed: neighbours.h.

namespace pinion {

class Ndp {
 public:
  Ndp(IpContext& context, IpOutput& output, AddressChecks& checks) noexcept
      : context_(context), output_(output), checks_(checks) {}

  /// A message has arrived, `bytes` with its ICMPv6 header, checksum verified.
  void receive(Interface& interface, const wire::IcmpMessage& header,
               std::span<const std::byte> bytes, const IpArrival& arrival, Instant now) noexcept;

  /// Asks who has `target`: everybody, or only `to`. Nobody is asked without an address of ours.
  void solicit(Interface& interface, const IpAddress& target, const MacAddress* to) noexcept;

  /// RFC 4862, 5.4.2.
  void probe(Interface& interface, const IpAddress& address) noexcept;

 private:
  void solicited(Interface& interface, const wire::NdpMessage& message, const IpAddress& source,
                 Instant now) noexcept;
  void advertised(Interface& interface, const wire::NdpMessage& message, Instant now) noexcept;
  void advertise(Interface& interface, const IpAddress& target, const IpAddress& to,
                 const MacAddress* mac, Instant now) noexcept;
  [[nodiscard]] PacketPtr build(const wire::NdpMessage& message, const IpAddress& source,
                                const IpAddress& destination) noexcept;

  IpContext& context_;
  IpOutput& output_;
  AddressChecks& checks_;
};

}  // namespace pinion

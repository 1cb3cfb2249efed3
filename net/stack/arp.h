#pragma once

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

#include "../wire/arp.h"
#include "../wire/ethernet.h"
#include "address_checks.h"
#include "ip_output.h"

/// ARP for IPv4 over Ethernet (RFC 826), with RFC 5227's probes and announcements.
///
/// Ownership:  packets are read; answers are packets of their own.
/// Threading:  one lcore.
/// Cost:       a few compares; what is for us an answer and a look into the neighbour cache.
/// Errors:     what breaks the rules is counted. Who is believed: neighbours.h.

namespace pinion {

class Arp {
 public:
  Arp(IpContext& context, IpOutput& output, AddressChecks& checks) noexcept
      : context_(context), output_(output), checks_(checks) {}

  /// An ARP message has arrived, in a frame with this header.
  void receive(Interface& interface, const wire::EthernetHeader& frame, const Packet& packet,
               Instant now) noexcept;

  /// Asks who has `target`: everybody, or only `to`. Nobody is asked without an address of ours.
  void solicit(Interface& interface, const IpAddress& target, const MacAddress* to) noexcept;

  /// RFC 5227, 2.1.1 and 2.3.
  void probe(Interface& interface, const IpAddress& address) noexcept;
  void announce(Interface& interface, const IpAddress& address) noexcept;

 private:
  void answer(Interface& interface, const wire::ArpMessage& request) noexcept;
  void send(Interface& interface, const MacAddress& to, const wire::ArpMessage& message) noexcept;

  IpContext& context_;
  IpOutput& output_;
  AddressChecks& checks_;
};

}  // namespace pinion

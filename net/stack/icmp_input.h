#pragma once

#include <cstdint>

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

#include "../wire/icmp.h"
#include "ip_context.h"
#include "ip_output.h"
#include "mld.h"
#include "ndp.h"

/// ICMP messages that arrive: echo is answered, errors are passed to the transport whose datagram
/// they quote, neighbor discovery and MLD have parts of their own.
///
/// Ownership:  takes over the packets; an echo goes back in the packet that it came in, unless that
///             is shared.
/// Threading:  one lcore.
/// Cost:       a checksum over the message; an echo reply its update.
/// Errors:     what breaks the rules is counted. Redirects and source quench (RFC 6633) are counted
///             and not followed. Whether an error is credible is the transport's to judge.

namespace pinion {

struct IcmpArrival {
  std::uint8_t interface = 0;  ///< kLoopback: from ourselves.
  bool router_alert = false;
  bool fragmented = false;  ///< There was a fragment header (RFC 6980).
  bool to_many = false;
};

class IcmpInput {
 public:
  IcmpInput(IpContext& context, IpOutput& output, Ndp& ndp, Mld& mld) noexcept
      : context_(context), output_(output), ndp_(ndp), mld_(mld) {}

  /// `packet` begins with the ICMP header.
  void receive_v4(PacketPtr packet, const IpArrival& arrival, const IcmpArrival& how,
                  Instant now) noexcept;
  void receive_v6(PacketPtr packet, const IpArrival& arrival, const IcmpArrival& how,
                  Instant now) noexcept;

 private:
  void answer_echo(PacketPtr packet, const IpArrival& arrival, std::uint8_t reply_type,
                   const IcmpArrival& how, Instant now) noexcept;
  void complain(const wire::Parsed<wire::QuotedDatagram>& quoted, IpTrouble trouble,
                std::size_t mtu, const IpAddress& arrived_at, Instant now) noexcept;
  void error_v4(const Packet& packet, const wire::IcmpMessage& message, const IpArrival& arrival,
                Instant now) noexcept;
  void error_v6(const Packet& packet, const wire::IcmpMessage& message, const IpArrival& arrival,
                Instant now) noexcept;
  void link_message(const Packet& packet, const wire::IcmpMessage& message,
                    const IpArrival& arrival, const IcmpArrival& how, Instant now) noexcept;

  IpContext& context_;
  IpOutput& output_;
  Ndp& ndp_;
  Mld& mld_;
};

}  // namespace pinion

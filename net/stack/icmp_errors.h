#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>

#include "../wire/icmp.h"
#include "../wire/ipv6_extensions.h"
#include "ip_context.h"
#include "ip_output.h"
#include "rate_limiter.h"

/// ICMP errors about datagrams that arrived, of both families.
///
/// Ownership:  a datagram stays its holder's; what is quoted is copied.
/// Threading:  one lcore.
/// Cost:       a packet and a copy of at most 1,280 bytes for each error sent.
/// Full:       a token bucket for all of them; above it nothing is sent.
/// Rules:      none about an ICMP error, a datagram or frame that was for many, a fragment that is
///             not the first (nobody complains of one here), a redirect, or a source that is no
///             single host (RFC 1122, 3.2.2; RFC 4443, 2.4 (e)), but those exceptions that RFC 4443
///             makes for multicast. As much is quoted as fits in 576 bytes (RFC 1812, 4.3.2.3) or
///             1,280.

namespace pinion {

/// A datagram that draws an error: whole, or its first fragment.
struct Offender {
  std::span<const std::byte> header{};  ///< The IP header and what else stands before the payload.
  const Packet* packet = nullptr;
  std::size_t payload_offset = 0;    ///< Where in the packet what follows `header` begins.
  std::size_t transport_offset = 0;  ///< And where the transport's header does.
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 0;
  std::uint8_t traffic_class = 0;
  bool to_many = false;  ///< A group's address, in the frame or in the IP header.
};

class IcmpErrors {
 public:
  struct Options {
    std::uint32_t per_second = 1000;
    std::uint32_t burst = 50;
  };

  IcmpErrors(IpContext& context, IpOutput& output, const Options& options) noexcept;

  void protocol_unreachable(const Offender& offender, Instant now) noexcept;
  void port_unreachable(const Offender& offender, Instant now) noexcept;
  /// The first fragment of a datagram, the rest of which didn't come in time.
  void reassembly_time_exceeded(const Offender& offender, Instant now) noexcept;
  /// What RFC 8200 wants for a header that can't be read.
  void parameter_problem(const Offender& offender, const wire::Ipv6Refusal& refusal,
                         Instant now) noexcept;
  /// A first fragment of IPv6 without all headers (RFC 7112).
  void incomplete_headers(const Offender& offender, Instant now) noexcept;

 private:
  void send(const Offender& offender, const wire::IcmpMessage& message, Instant now) noexcept;
  [[nodiscard]] bool may_answer(const Offender& offender, bool even_to_many) const noexcept;
  [[nodiscard]] bool is_about_error(const Offender& offender) const noexcept;
  [[nodiscard]] PacketPtr build(const Offender& offender, const wire::IcmpMessage& message,
                                std::size_t room) noexcept;

  IpContext& context_;
  IpOutput& output_;
  RateLimiter limiter_;
};

}  // namespace pinion

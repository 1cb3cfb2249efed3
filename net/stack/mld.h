#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "../wire/icmp.h"
#include "ip_context.h"
#include "ip_output.h"

/// Multicast listener discovery (MLDv2, RFC 3810), as much as a host needs whose only groups are
/// those of its addresses' solicitations: without it, switches that snoop keep these from us. A
/// group is reported when it is joined, twice; queries are answered with all groups of the link.
///
/// Ownership:  reports are packets of their own.
/// Threading:  one lcore.
/// Cost:       one wheel entry for all interfaces, armed while a report is due.
/// Full:       a report names all groups of an interface: at most Interface::kMostAddresses.
/// Errors:     queries that don't come from the link are counted as bad. Queriers of MLDv1 get
///             reports of MLDv2, which RFC 3810 routers and switches understand.

namespace pinion {

/// Whether an ICMPv6 message is of MLD, of any version.
[[nodiscard]] constexpr bool is_mld(const wire::IcmpMessage& message) noexcept {
  return (message.type >= 130 && message.type <= 132) || message.type == 143;
}

class Mld {
 public:
  Mld(IpContext& context, IpOutput& output) noexcept;
  Mld(const Mld&) = delete;
  Mld& operator=(const Mld&) = delete;
  ~Mld() = default;

  /// `address` is new on the interface, and its group, unless another address has the same.
  void joined(Interface& interface, const IpAddress& address, Instant now) noexcept;

  /// The interface has a link-local address to speak from: what was reported from ::, which
  /// snooping switches may not heed, is reported again (RFC 3590, 4).
  void speaks(const Interface& interface, Instant now) noexcept;

  /// A message has arrived, `bytes` with its ICMPv6 header, checksum verified.
  void receive(Interface& interface, const wire::IcmpMessage& header,
               std::span<const std::byte> bytes, const IpArrival& arrival, bool router_alert,
               Instant now) noexcept;

 private:
  struct Due {
    Instant answer = kNever;  ///< To a query.
    Instant repeat = kNever;  ///< Of the report of what was joined.
  };
  struct Timer : TimerEntry {
    explicit Timer(Mld& its) noexcept;
    Mld& mld;
  };
  enum class Record : std::uint8_t { is_exclude = 2, to_exclude = 4 };

  void report(Interface& interface, Record record) noexcept;
  void on_due(Instant now) noexcept;
  void rearm() noexcept;

  IpContext& context_;
  IpOutput& output_;
  Timer timer_{*this};
  std::array<Due, IpContext::kMostInterfaces> due_;
};

}  // namespace pinion

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/lib/result.h>

#include "ip_kinds.h"

/// Where packets go: the routes of a host, and which of its addresses it speaks from.
///
/// Ownership:  a value; routes are copied in.
/// Threading:  one lcore.
/// Cost:       find() compares with at most kMostRoutes prefixes, longest first: a host has few.
/// Full:       add() refuses the 65th.
/// Errors:     add() says what is wrong with a route.

namespace pinion {

struct Route {
  IpPrefix destination;
  std::optional<IpAddress> gateway{};  ///< None: the destination is on the link.
  std::uint8_t interface = 0;

  /// Whom to hand a packet for `to`.
  [[nodiscard]] const IpAddress& next_hop(const IpAddress& to) const noexcept {
    return gateway ? *gateway : to;
  }
};

class RouteTable {
 public:
  static constexpr std::size_t kMostRoutes = 64;

  /// Adds a route. Of two with one prefix the second is refused.
  [[nodiscard]] Result<> add(const Route& route);

  /// Takes the route to exactly this prefix out; false when there is none.
  bool remove(const IpPrefix& destination) noexcept;

  /// The route with the longest prefix that contains `destination`; nullptr when none does.
  [[nodiscard]] const Route* find(const IpAddress& destination) const noexcept;

  /// The same among the routes of one interface.
  [[nodiscard]] const Route* find(const IpAddress& destination,
                                  std::uint8_t interface) const noexcept;

  /// Whether a route says that `address` is on the link of an interface.
  [[nodiscard]] bool on_link(std::uint8_t interface, const IpAddress& address) const noexcept;

  /// Has changes counted in `changes`, which outlives the table.
  void count_changes_in(std::uint32_t& changes) noexcept { changes_ = &changes; }

  [[nodiscard]] std::span<const Route> all() const noexcept { return {routes_.data(), count_}; }

 private:
  std::array<Route, kMostRoutes> routes_;  ///< The longest prefix first.
  std::size_t count_ = 0;
  std::uint32_t own_changes_ = 0;
  std::uint32_t* changes_ = &own_changes_;
};

/// Which of `candidates`, the usable addresses of the interface that a packet leaves by, to speak
/// to `destination` from; nullptr when none is of its family. By these rules of RFC 6724, section
/// 5, in their order, and by the order of the candidates at last:
///   1  the destination itself, when it is ours;
///   2  the smallest scope that reaches the destination, otherwise the largest;
///   6  the same label of the policy table (loopback, 6to4, Teredo, unique local, other);
///   8  the longest prefix in common, no longer than the candidate's own.
/// Rules 3, 4 and 7 are about deprecated, home and temporary addresses, which there are none of;
/// rule 5 is met since all candidates are of the outgoing interface.
[[nodiscard]] const IpPrefix* choose_source(std::span<const IpPrefix> candidates,
                                            const IpAddress& destination) noexcept;

}  // namespace pinion

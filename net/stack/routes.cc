#include "routes.h"

#include <algorithm>

#include <fmt/format.h>

namespace pinion {
namespace {

std::string text_of(const IpPrefix& prefix) {
  return fmt::format("{}/{}", to_string(prefix.address), prefix.length);
}

/// The labels of RFC 6724, 2.1, without the deprecated prefixes.
unsigned label_of(const IpAddress& address) noexcept {
  const auto& bytes = address.bytes();
  if (address.is_v4()) return 4;
  if (is_loopback(address)) return 0;
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return 2;
  if (bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0 && bytes[3] == 0) return 5;
  if ((bytes[0] & 0xfeU) == 0xfc) return 13;
  return 1;
}

/// Whether `a` is the better source for `destination`; false too when nothing tells them apart.
bool better_source(const IpPrefix& a, const IpPrefix& b, const IpAddress& destination) noexcept {
  const bool a_is_it = a.address == destination;
  const bool b_is_it = b.address == destination;
  if (a_is_it != b_is_it) return a_is_it;

  const IpScope a_scope = scope_of(a.address);
  const IpScope b_scope = scope_of(b.address);
  if (a_scope != b_scope) {
    const IpScope wanted = scope_of(destination);
    return a_scope < b_scope ? a_scope >= wanted : b_scope < wanted;
  }

  const unsigned wanted = label_of(destination);
  const bool a_matches = label_of(a.address) == wanted;
  const bool b_matches = label_of(b.address) == wanted;
  if (a_matches != b_matches) return a_matches;

  const auto shared = [&destination](const IpPrefix& source) {
    return std::min<unsigned>(common_prefix(source.address, destination), source.length);
  };
  return shared(a) > shared(b);
}

}  // namespace

Result<> RouteTable::add(const Route& route) {
  const IpPrefix& to = route.destination;
  if (to.length > to.longest()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is no prefix: {} bits at most", text_of(to), to.longest()));
  }
  if (route.gateway && route.gateway->is_v4() != to.address.is_v4()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the gateway {} of {} is of the other family",
                            to_string(*route.gateway), text_of(to)));
  }
  const auto same = [&to](const Route& other) { return other.destination.same_as(to); };
  if (std::ranges::any_of(all(), same)) {
    return fail(ErrorCode::already_exists, fmt::format("there is a route to {}", text_of(to)));
  }
  if (count_ == kMostRoutes) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("no room for a route to {}: {} are the most", text_of(to), kMostRoutes),
                "use shorter prefixes, each of which stands for several routes");
  }
  std::size_t place = count_;
  while (place > 0 && routes_[place - 1].destination.length < to.length) {
    routes_[place] = routes_[place - 1];
    --place;
  }
  routes_[place] = route;
  ++count_;
  ++*changes_;
  return {};
}

bool RouteTable::remove(const IpPrefix& destination) noexcept {
  const auto begin = routes_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(count_);
  const auto at = std::find_if(begin, end, [&destination](const Route& route) {
    return route.destination.same_as(destination);
  });
  if (at == end) return false;
  std::copy(at + 1, end, at);
  --count_;
  ++*changes_;
  return true;
}

const Route* RouteTable::find(const IpAddress& destination) const noexcept {
  for (const Route& route : all()) {
    if (route.destination.contains(destination)) return &route;
  }
  return nullptr;
}

const Route* RouteTable::find(const IpAddress& destination, std::uint8_t interface) const noexcept {
  for (const Route& route : all()) {
    if (route.interface == interface && route.destination.contains(destination)) return &route;
  }
  return nullptr;
}

bool RouteTable::on_link(std::uint8_t interface, const IpAddress& address) const noexcept {
  const Route* const route = find(address);
  return route != nullptr && !route->gateway && route->interface == interface;
}

const IpPrefix* choose_source(std::span<const IpPrefix> candidates,
                              const IpAddress& destination) noexcept {
  const IpPrefix* best = nullptr;
  for (const IpPrefix& candidate : candidates) {
    if (candidate.address.is_v4() != destination.is_v4()) continue;
    if (best == nullptr || better_source(candidate, *best, destination)) best = &candidate;
  }
  return best;
}

}  // namespace pinion

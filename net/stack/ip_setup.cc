#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "ip_stack.h"

namespace pinion {
namespace {

constexpr std::size_t kLeastMtu = 576;
constexpr std::size_t kMostMtu = 65'535;
/// What our own messages, headers in front, take of one packet at most.
constexpr std::size_t kLeastRoom = 512;

std::string text_of(const IpPrefix& prefix) {
  return fmt::format("{}/{}", to_string(prefix.address), prefix.length);
}

bool is_v6(const IpPrefix& prefix) noexcept {
  return prefix.address.is_v6();
}

bool is_v6_link_local(const IpPrefix& prefix) noexcept {
  return is_v6(prefix) && is_link_local(prefix.address);
}

Result<> check_address(const IpPrefix& prefix) {
  const IpAddress& address = prefix.address;
  if (prefix.length > prefix.longest()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is no prefix", text_of(prefix)),
                fmt::format("a length from 1 to {}", prefix.longest()));
  }
  if (is_never_a_host(address) || is_loopback(address) || prefix.length == 0 ||
      prefix.is_broadcast(address)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} can't be a host's address", text_of(prefix)),
                "an address and its link's prefix, such as 192.0.2.1/24");
  }
  return {};
}

}  // namespace

Result<> IpStack::check(const IpOptions& options) {
  const auto at_least = [](std::string_view what, std::size_t given, std::size_t least) {
    if (given >= least) return Result<>{};
    return Result<>(fail(ErrorCode::invalid_argument, fmt::format("{} = {}", what, given),
                         fmt::format("{} and up", least)));
  };
  const std::array checks = {
      at_least("neighbours.capacity", options.neighbours.capacity, 2),
      at_least("reassembly.datagrams", options.reassembly.datagrams, 1),
      at_least("reassembly.fragments", options.reassembly.fragments, Reassembly::kMostFragments),
      at_least("path_mtus", options.path_mtus, 1),
      at_least("icmp_errors.burst", options.icmp_errors.burst, 1),
  };
  for (const Result<>& good : checks) {
    if (!good) return good;
  }
  const std::uint32_t rate = options.icmp_errors.per_second;
  if (rate < 1 || rate > RateLimiter::kMostPerSecond) {
    return fail(ErrorCode::invalid_argument, fmt::format("icmp_errors.per_second = {}", rate),
                fmt::format("1 to {}", RateLimiter::kMostPerSecond));
  }
  return {};
}

Result<> IpStack::check(const InterfaceOptions& options) const {
  const std::span<const IpPrefix> addresses = options.addresses;
  const bool v6 = std::ranges::any_of(addresses, is_v6);
  const std::size_t least = v6 ? kSmallestMtuV6 : kLeastMtu;
  if (options.mtu < least || options.mtu > kMostMtu) {
    return fail(ErrorCode::invalid_argument, fmt::format("an MTU of {} bytes", options.mtu),
                fmt::format("mtu from {} to {}", least, kMostMtu));
  }
  if (options.tx_queue == 0 || options.max_segments == 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("a tx queue of {} packets of {} segments", options.tx_queue,
                            options.max_segments),
                "1 and up for both");
  }
  const std::size_t buffer = context_.pool.buffer_size();
  const std::size_t frame = options.mtu + wire::EthernetHeader::kMinSize;
  if (buffer < kPacketHeadroom + kLeastRoom) {
    return fail(ErrorCode::invalid_argument, fmt::format("packet buffers of {} bytes", buffer),
                fmt::format("buffer_size = {} or more", kPacketHeadroom + kLeastRoom));
  }
  if (options.max_segments * (buffer - kPacketHeadroom) < frame) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("frames of {} bytes in {} segments of {}", frame, options.max_segments,
                            buffer - kPacketHeadroom),
                "max_segments as the device has them, larger packet buffers, or a smaller mtu");
  }
  if (context_.interface_count == IpContext::kMostInterfaces) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("{} interfaces are the most", IpContext::kMostInterfaces));
  }
  // With the link-local one that may be added.
  if (addresses.size() + (v6 ? 1 : 0) > Interface::kMostAddresses) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("{} addresses of one interface", addresses.size()),
                fmt::format("{} at most, with the link-local one", Interface::kMostAddresses));
  }
  if (options.link == LinkKind::ethernet &&
      (wire::is_multicast(options.mac) || options.mac == MacAddress{})) {
    return fail(ErrorCode::invalid_argument, "an interface needs a unicast Ethernet address");
  }
  for (const IpPrefix& prefix : addresses) {
    if (const Result<> good = check_address(prefix); !good) return good;
    const auto same = [&prefix](const IpPrefix& other) { return other.address == prefix.address; };
    bool taken = std::ranges::count_if(addresses, same) > 1;
    for (std::size_t i = 0; i < context_.interface_count; ++i) {
      taken |= context_.interfaces[i].find(prefix.address) != nullptr;
    }
    if (taken) {
      return fail(ErrorCode::already_exists,
                  fmt::format("{} is given twice", to_string(prefix.address)));
    }
  }
  return check_routes(addresses);
}

/// Whether there is a route to make for each prefix, or none to be made: those of the interface
/// itself it shares, and link-local ones are every link's, which the source tells.
Result<> IpStack::check_routes(std::span<const IpPrefix> addresses) const {
  const std::span<const Route> routes = output_.routes().all();
  // With that to the link-local prefix, which may be added.
  std::size_t more = 1;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const IpPrefix& prefix = addresses[i];
    const auto same = [&prefix](const IpPrefix& other) { return other.same_as(prefix); };
    if (std::ranges::any_of(addresses.first(i), same)) continue;
    const auto found = std::ranges::find_if(routes, same, &Route::destination);
    if (found == routes.end()) {
      ++more;
    } else if (!is_v6_link_local(prefix)) {
      return fail(ErrorCode::already_exists,
                  fmt::format("{} is a prefix that interface {} has a route to", text_of(prefix),
                              found->interface),
                  "a prefix of its own for each link");
    }
  }
  if (routes.size() + more > RouteTable::kMostRoutes) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("{} routes, and {} more for the interface: {} are the most",
                            routes.size(), more, RouteTable::kMostRoutes),
                "fewer routes, or fewer prefixes");
  }
  return {};
}

Result<std::uint8_t> IpStack::add_interface(const InterfaceOptions& options, Instant now) {
  if (const Result<> good = check(options); !good) return tl::unexpected(good.error());
  const auto index = static_cast<std::uint8_t>(context_.interface_count);
  Interface& interface = context_.interfaces[index];
  interface.index = index;
  interface.link = options.link;
  interface.mac = options.mac;
  interface.mtu = options.mtu;
  interface.tx_limit = options.tx_queue;
  interface.max_segments = options.max_segments;
  ++context_.interface_count;

  const bool ethernet = options.link == LinkKind::ethernet;
  const bool checked = ethernet && options.check_duplicates;
  const std::span<const IpPrefix> addresses = options.addresses;
  if (ethernet && std::ranges::any_of(addresses, is_v6) &&
      std::ranges::none_of(addresses, is_v6_link_local)) {
    const IpPrefix link_local{.address = link_local_of(options.mac), .length = 64};
    if (Result<> added = add_address(interface, link_local, checked, now); !added) {
      return tl::unexpected(added.error());
    }
  }
  for (const IpPrefix& prefix : addresses) {
    if (Result<> added = add_address(interface, prefix, checked, now); !added) {
      return tl::unexpected(added.error());
    }
  }
  return index;
}

Result<> IpStack::add_address(Interface& interface, const IpPrefix& prefix, bool checked,
                              Instant now) {
  Result<> routed = output_.routes().add({.destination = prefix, .interface = interface.index});
  // What may share a route check_routes() has seen.
  if (!routed && routed.error().code != ErrorCode::already_exists) return routed;
  const bool added = interface.add(
      {.prefix = prefix, .state = checked ? AddressState::checking : AddressState::usable});
  PINION_ASSERT(added);
  if (interface.link == LinkKind::ip) return {};
  if (prefix.address.is_v6()) mld_.joined(interface, prefix.address, now);
  if (checked) {
    checks_.start(interface, prefix.address, now);
  } else {
    checks_.watch(interface, prefix.address);
  }
  return {};
}

Result<> IpStack::add_route(const Route& route) {
  if (route.interface >= context_.interface_count) {
    return fail(ErrorCode::not_found, fmt::format("there is no interface {}", route.interface),
                "add the interface before its routes");
  }
  const Interface& interface = context_.interfaces[route.interface];
  const auto holds = [&route](const InterfaceAddress& own) {
    return own.prefix.contains(*route.gateway);
  };
  if (route.gateway && interface.link == LinkKind::ethernet &&
      std::ranges::none_of(interface.addresses(), holds)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the gateway {} of {} is not on the link of interface {}",
                            to_string(*route.gateway), text_of(route.destination), route.interface),
                "a gateway within a prefix of the interface");
  }
  return output_.routes().add(route);
}

}  // namespace pinion

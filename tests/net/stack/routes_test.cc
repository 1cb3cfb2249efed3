#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stack/routes.h"
#include "table_world.h"

namespace pinion::test {
namespace {

IpPrefix prefix(std::string_view address, int length) {
  return {.address = ip(address), .length = static_cast<std::uint8_t>(length)};
}

TEST(Routes, TheLongestPrefixWins) {
  RouteTable routes;
  ASSERT_TRUE(routes.add({.destination = prefix("0.0.0.0", 0), .gateway = ip("10.0.0.1")}));
  ASSERT_TRUE(routes.add({.destination = prefix("10.1.2.3", 32), .interface = 3}));
  ASSERT_TRUE(routes.add({.destination = prefix("10.0.0.0", 8), .interface = 1}));
  ASSERT_TRUE(routes.add({.destination = prefix("10.1.0.0", 16), .interface = 2}));
  EXPECT_EQ(routes.find(ip("10.1.2.3"))->interface, 3);
  EXPECT_EQ(routes.find(ip("10.1.2.4"))->interface, 2);
  EXPECT_EQ(routes.find(ip("10.2.0.0"))->interface, 1);
  EXPECT_EQ(routes.find(ip("11.0.0.0"))->next_hop(ip("11.0.0.0")), ip("10.0.0.1"));
  EXPECT_EQ(routes.find(ip("10.2.0.0"))->next_hop(ip("10.2.0.0")), ip("10.2.0.0"));
}

TEST(Routes, FamiliesDoNotMix) {
  RouteTable routes;
  ASSERT_TRUE(routes.add({.destination = prefix("0.0.0.0", 0), .interface = 4}));
  EXPECT_EQ(routes.find(ip("2001:db8::1")), nullptr);
  ASSERT_TRUE(routes.add({.destination = prefix("::", 0), .interface = 6}));
  EXPECT_EQ(routes.find(ip("2001:db8::1"))->interface, 6);
  EXPECT_EQ(routes.find(ip("1.2.3.4"))->interface, 4);
  const auto mixed = routes.add({.destination = prefix("::", 1), .gateway = ip("1.2.3.4")});
  ASSERT_FALSE(mixed.has_value());
  EXPECT_EQ(mixed.error().code, ErrorCode::invalid_argument);
}

TEST(Routes, RefusesASecondRouteToOnePrefixAndTooLongOnes) {
  RouteTable routes;
  ASSERT_TRUE(routes.add({.destination = prefix("10.1.0.0", 16)}));
  EXPECT_EQ(routes.add({.destination = prefix("10.1.2.3", 16)}).error().code,
            ErrorCode::already_exists);
  EXPECT_EQ(routes.add({.destination = prefix("10.1.0.0", 33)}).error().code,
            ErrorCode::invalid_argument);
  EXPECT_TRUE(routes.add({.destination = prefix("2001:db8::", 33)}));
}

TEST(Routes, AreBounded) {
  RouteTable routes;
  for (std::size_t i = 0; i < RouteTable::kMostRoutes; ++i) {
    ASSERT_TRUE(routes.add(
        {.destination = {.address = IpAddress::v4({10, static_cast<std::uint8_t>(i), 0, 0}),
                         .length = 16}}));
  }
  const auto full = routes.add({.destination = prefix("11.0.0.0", 8)});
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::resource_exhausted);
  EXPECT_TRUE(routes.remove(prefix("10.7.0.0", 16)));
  EXPECT_FALSE(routes.remove(prefix("10.7.0.0", 16)));
  EXPECT_EQ(routes.find(ip("10.7.0.1")), nullptr);
  EXPECT_TRUE(routes.add({.destination = prefix("11.0.0.0", 8)}));
}

/// Few different bits, so that prefixes nest and meet.
IpAddress narrow_address(Random& random) {
  std::array<std::uint8_t, 16> bytes{};
  const bool v6 = random.chance(0.5);
  for (std::size_t i = 0; i < (v6 ? 16 : 4); ++i) {
    bytes[i] = static_cast<std::uint8_t>(random.below(2) << random.below(8));
  }
  return v6 ? IpAddress::v6(bytes) : IpAddress::v4({bytes[0], bytes[1], bytes[2], bytes[3]});
}

/// Bit by bit, over all routes.
const Route* slow_find(const std::vector<Route>& routes, const IpAddress& to) {
  const Route* best = nullptr;
  for (const Route& route : routes) {
    const IpPrefix& prefix = route.destination;
    if (prefix.address.is_v4() != to.is_v4()) continue;
    bool matches = true;
    for (unsigned bit = 0; bit < prefix.length; ++bit) {
      const unsigned mask = 0x80U >> bit % 8;
      const unsigned differ = prefix.address.bytes()[bit / 8] ^ to.bytes()[bit / 8];
      matches &= (differ & mask) == 0;
    }
    if (matches && (best == nullptr || prefix.length > best->destination.length)) best = &route;
  }
  return best;
}

TEST(Routes, FindWhatASlowSearchFinds) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(200); ++round) {
    RouteTable routes;
    std::vector<Route> added;
    for (int i = 0; i < 40; ++i) {
      const IpAddress address = narrow_address(random);
      const auto length = static_cast<std::uint8_t>(random.below(address.is_v4() ? 33 : 129));
      const Route route{.destination = {.address = address, .length = length},
                        .interface = static_cast<std::uint8_t>(i)};
      if (routes.add(route)) added.push_back(route);
      if (!added.empty() && random.chance(0.2)) {
        const std::size_t gone = random.below(added.size());
        ASSERT_TRUE(routes.remove(added[gone].destination));
        added.erase(added.begin() + static_cast<std::ptrdiff_t>(gone));
      }
    }
    for (int i = 0; i < 200; ++i) {
      const IpAddress to = narrow_address(random);
      const Route* const fast = routes.find(to);
      const Route* const slow = slow_find(added, to);
      ASSERT_EQ(fast == nullptr, slow == nullptr) << to_string(to);
      if (fast == nullptr) continue;
      ASSERT_EQ(fast->interface, slow->interface) << to_string(to);
    }
  }
}

IpAddress source(std::initializer_list<IpPrefix> candidates, std::string_view destination) {
  const IpPrefix* const chosen =
      choose_source({candidates.begin(), candidates.size()}, ip(destination));
  return chosen == nullptr ? IpAddress() : chosen->address;
}

TEST(SourceSelection, FollowsRfc6724InItsOrder) {
  const IpPrefix link = prefix("fe80::1", 64);
  const IpPrefix global = prefix("2001:db8:1::1", 64);
  const IpPrefix near_one = prefix("2001:db8:2::1", 64);
  const IpPrefix local = prefix("fd00::1", 64);
  // Rule 1.
  EXPECT_EQ(source({link, global, near_one}, "2001:db8:2::1"), near_one.address);
  // Rule 2: far enough, and no further than needed; if none is, the farthest.
  EXPECT_EQ(source({link, global}, "2001:db8:9::9"), global.address);
  EXPECT_EQ(source({global, link}, "fe80::9"), link.address);
  EXPECT_EQ(source({global, link}, "ff02::1"), link.address);
  EXPECT_EQ(source({link, global}, "ff0e::1"), global.address);
  EXPECT_EQ(source({link}, "2001:db8::1"), link.address);
  // Rule 6 before rule 8.
  EXPECT_EQ(source({local, global}, "3000::1"), global.address);
  EXPECT_EQ(source({global, local}, "fd77::1"), local.address);
  // Rule 8, and no bits beyond the prefix.
  EXPECT_EQ(source({global, near_one}, "2001:db8:2::77"), near_one.address);
  EXPECT_EQ(source({prefix("2001:db8:1::1", 64), prefix("2001:db8:1::77", 64)}, "2001:db8:1::76"),
            ip("2001:db8:1::1"));
  // At last their order.
  EXPECT_EQ(source({prefix("10.0.0.1", 24), prefix("10.0.0.2", 24)}, "10.0.0.9"), ip("10.0.0.1"));
}

TEST(SourceSelection, StaysInTheFamily) {
  EXPECT_EQ(source({prefix("10.0.0.1", 24)}, "2001:db8::1"), IpAddress());
  EXPECT_EQ(source({prefix("2001:db8::1", 64), prefix("10.0.0.1", 24), prefix("10.1.0.1", 24)},
                   "10.1.0.7"),
            ip("10.1.0.1"));
}

TEST(IpKinds, KnowBroadcastAddresses) {
  EXPECT_TRUE(prefix("10.1.2.3", 24).is_broadcast(ip("10.1.2.255")));
  EXPECT_FALSE(prefix("10.1.2.3", 24).is_broadcast(ip("10.1.3.255")));
  EXPECT_FALSE(prefix("10.1.2.3", 24).is_broadcast(ip("10.1.2.127")));
  EXPECT_TRUE(prefix("10.1.2.3", 25).is_broadcast(ip("10.1.2.127")));
  // RFC 3021: a /31 has two hosts and no broadcast address.
  EXPECT_FALSE(prefix("10.1.2.2", 31).is_broadcast(ip("10.1.2.3")));
  EXPECT_FALSE(prefix("10.1.2.3", 32).is_broadcast(ip("10.1.2.3")));
  EXPECT_FALSE(prefix("ff02::1", 16).is_broadcast(ip("ff02:ffff:ffff:ffff:ffff:ffff:ffff:ffff")));
}

TEST(IpKinds, KnowWhatCanNotBeAHost) {
  for (const char* text : {"0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.2.3", "240.0.0.1",
                           "255.255.255.255", "::", "ff02::1", "::ffff:1.2.3.4"}) {
    EXPECT_TRUE(is_never_a_host(ip(text))) << text;
  }
  for (const char* text :
       {"127.0.0.1", "10.0.0.1", "223.255.255.255", "::1", "fe80::1", "2001::1"}) {
    EXPECT_FALSE(is_never_a_host(ip(text))) << text;
  }
}

TEST(IpKinds, MapGroupsToEthernet) {
  EXPECT_EQ(solicited_node(ip("2001:db8::12:3456")), ip("ff02::1:ff12:3456"));
  EXPECT_EQ(multicast_mac(ip("ff02::1:ff12:3456")),
            (MacAddress{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}));
  EXPECT_EQ(multicast_mac(ip("224.129.2.3")), (MacAddress{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}));
  EXPECT_EQ(link_local_of({0x02, 0x11, 0x22, 0x33, 0x44, 0x55}), ip("fe80::11:22ff:fe33:4455"));
}

}  // namespace
}  // namespace pinion::test

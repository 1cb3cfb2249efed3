#include "tcp/four_tuple.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/net/address.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

TEST(FourTuple, GivesBackTheEndpointsOfEitherFamily) {
  Random random(test::seed());
  for (int i = 0; i < 1'000; ++i) {
    for (const bool v6 : {false, true}) {
      const Endpoint local = test::any_endpoint(random, v6);
      const Endpoint remote = test::any_endpoint(random, v6);
      const auto tuple = FourTuple::between(local, remote);
      ASSERT_TRUE(tuple);
      EXPECT_EQ(tuple->is_v4(), !v6);
      EXPECT_EQ(tuple->local_endpoint(), local);
      EXPECT_EQ(tuple->remote_endpoint(), remote);
    }
  }
}

TEST(FourTuple, RefusesTwoFamiliesAndAddressesInDisguise) {
  const Endpoint v4{IpAddress::v4({192, 0, 2, 1}), 80};
  const Endpoint v6{*IpAddress::parse("2001:db8::1"), 80};
  const Endpoint mapped{*IpAddress::parse("::ffff:192.0.2.1"), 80};
  ASSERT_TRUE(mapped.address.is_v6());
  EXPECT_FALSE(FourTuple::between(v4, v6));
  EXPECT_FALSE(FourTuple::between(v6, v4));
  EXPECT_FALSE(FourTuple::between(v6, mapped));
  EXPECT_FALSE(FourTuple::between(mapped, mapped));
  EXPECT_FALSE(FourTuple::between(v4, mapped));
  EXPECT_TRUE(FourTuple::between(v6, {*IpAddress::parse("::fffe:192.0.2.1"), 80}));
}

TEST(FourTuple, DiffersByEachOfItsParts) {
  const FourTuple tuple = test::tuple_v4(1, 2, 3, 4);
  for (const FourTuple& other : {test::tuple_v4(9, 2, 3, 4), test::tuple_v4(1, 9, 3, 4),
                                 test::tuple_v4(1, 2, 9, 4), test::tuple_v4(1, 2, 3, 9)}) {
    EXPECT_NE(tuple, other);
    EXPECT_NE(table_hash(SipKey{}, tuple), table_hash(SipKey{}, other));
  }
  EXPECT_NE(table_hash(SipKey{}, tuple), table_hash(SipKey{.k0 = 1}, tuple));
}

TEST(TableHash, TellsEveryByteOfAnIpv6TupleApart) {
  std::set<std::uint64_t> hashes;
  std::array<std::uint8_t, 16> zero{};
  for (std::size_t at = 0; at < 16; ++at) {
    auto bytes = zero;
    bytes[at] = 1;
    const IpAddress one = IpAddress::v6(bytes);
    hashes.insert(table_hash(SipKey{}, *FourTuple::between({one, 1}, {IpAddress::v6(zero), 2})));
    hashes.insert(table_hash(SipKey{}, *FourTuple::between({IpAddress::v6(zero), 1}, {one, 2})));
  }
  EXPECT_EQ(hashes.size(), 32U);
}

TEST(TableHash, IsNotLinear) {
  // A linear hash of a XOR b is the XOR of their hashes and that of zero, under every key: whoever
  // finds one collision has them all.
  Random random(test::seed());
  for (int i = 0; i < 100; ++i) {
    const SipKey key{.k0 = random.next(), .k1 = random.next()};
    const auto hash = [&](std::uint16_t ours, std::uint16_t theirs) {
      return table_hash(key, test::tuple_v4(1, 2, ours, theirs));
    };
    EXPECT_NE(hash(0, 0) ^ hash(0, 1) ^ hash(1, 0), hash(1, 1));
  }
}

}  // namespace
}  // namespace pinion

#include "tcp/ephemeral_ports.h"

#include <cstdint>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

constexpr PortRange kRange{.first = 49'152, .last = 65'535};
constexpr std::uint32_t kAll = ~0U;

bool any_port(const FourTuple& /*tuple*/) {
  return true;
}

TEST(EphemeralPorts, GivesEveryPortOnceBeforeAnyTwice) {
  Random random(test::seed());
  for (const PortRange range : {kRange, PortRange{1'024, 65'535}, PortRange{7, 7}}) {
    EphemeralPorts ports(range, test::any_key(random), random);
    const FourTuple to = test::any_tuple(random);
    std::set<std::uint16_t> used;
    for (std::uint32_t i = 0; i < range.size(); ++i) {
      const auto port = ports.choose(to, kAll, any_port);
      ASSERT_TRUE(port);
      ASSERT_GE(*port, range.first);
      ASSERT_LE(*port, range.last);
      ASSERT_TRUE(used.insert(*port).second);
    }
    EXPECT_TRUE(ports.choose(to, kAll, any_port));
  }
}

TEST(EphemeralPorts, FindsTheOnlyPortThatIsFree) {
  Random random(test::seed());
  EphemeralPorts ports(kRange, test::any_key(random), random);
  for (int i = 0; i < 20; ++i) {
    const auto wanted = random.between<std::uint16_t>(kRange.first, kRange.last);
    const FourTuple to = test::any_tuple(random);
    const auto port = ports.choose(to, kAll, [&](const FourTuple& tuple) {
      EXPECT_EQ(tuple.remote_endpoint(), to.remote_endpoint());
      EXPECT_EQ(tuple.local, to.local);
      return tuple.local_port == wanted;
    });
    EXPECT_EQ(port, wanted);
  }
}

TEST(EphemeralPorts, TriesNoMoreThanItMay) {
  Random random(test::seed());
  EphemeralPorts ports(kRange, test::any_key(random), random);
  const FourTuple to = test::any_tuple(random);
  std::uint32_t tried = 0;
  const auto none = [&](const FourTuple& /*tuple*/) {
    ++tried;
    return false;
  };
  EXPECT_FALSE(ports.choose(to, 10, none));
  EXPECT_EQ(tried, 10U);
  tried = 0;
  EXPECT_FALSE(ports.choose(to, kAll, none));
  EXPECT_EQ(tried, kRange.size());
}

// O1: of eight lcores, this one is where an eighth of the ports steer.
TEST(EphemeralPorts, FindsPortsThatSteerHome) {
  Random random(test::seed());
  EphemeralPorts ports(kRange, test::any_key(random), random);
  const FourTuple to = test::tuple_v4(1, 2, 0, 80);
  std::set<std::uint16_t> used;
  for (int i = 0; i < 1'000; ++i) {
    const auto port = ports.choose(to, kAll, [&](const FourTuple& tuple) {
      return tuple.local_port % 8 == 3 && !used.contains(tuple.local_port);
    });
    ASSERT_TRUE(port);
    used.insert(*port);
  }
  EXPECT_EQ(used.size(), 1'000U);
}

TEST(EphemeralPorts, BeginsElsewhereForEachPeerAndSecret) {
  Random random(test::seed());
  std::set<std::uint16_t> firsts;
  for (int i = 0; i < 200; ++i) {
    EphemeralPorts ports(kRange, test::any_key(random), random);
    for (const std::uint32_t peer : {1U, 2U}) {
      firsts.insert(*ports.choose(test::tuple_v4(1, peer, 0, 80), kAll, any_port));
    }
  }
  // 400 draws from 16,384 give 395 different ones; fewer than 370 never.
  EXPECT_GE(firsts.size(), 370U);
}

}  // namespace
}  // namespace pinion

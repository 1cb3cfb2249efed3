#include <map>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stack/path_mtu.h"
#include "stack/rate_limiter.h"
#include "table_world.h"

namespace pinion::test {
namespace {

TEST(PathMtu, ShrinksAndIsForgottenAfterTenMinutes) {
  PathMtuCache cache(16, seed());
  Instant now{100s};
  const IpAddress to = ip("192.0.2.1");
  EXPECT_FALSE(cache.find(to, now));
  EXPECT_TRUE(cache.learn(to, 1400, now));
  EXPECT_EQ(cache.find(to, now)->mtu, 1400U);
  EXPECT_FALSE(cache.learn(to, 1450, now));
  EXPECT_EQ(cache.find(to, now)->mtu, 1400U);
  EXPECT_TRUE(cache.learn(to, 1300, now + 5min));
  EXPECT_EQ(cache.find(to, now + 14min)->mtu, 1300U);
  EXPECT_FALSE(cache.find(to, now + 15min));
  // After that a larger one counts again.
  EXPECT_TRUE(cache.learn(to, 1450, now + 15min));
  EXPECT_EQ(cache.find(to, now + 15min)->mtu, 1450U);
}

TEST(PathMtu, SaidAgainLastsLonger) {
  PathMtuCache cache(16, seed());
  const Instant now{100s};
  const IpAddress to = ip("192.0.2.1");
  EXPECT_TRUE(cache.learn(to, 1400, now));
  EXPECT_FALSE(cache.learn(to, 1400, now + 9min));
  EXPECT_TRUE(cache.find(to, now + 18min));
  EXPECT_FALSE(cache.find(to, now + 19min));
}

TEST(PathMtu, Ipv6NeverGoesBelow1280) {
  PathMtuCache cache(16, seed());
  const Instant now{100s};
  EXPECT_FALSE(cache.learn(ip("2001:db8::1"), 1279, now));
  EXPECT_FALSE(cache.learn(ip("2001:db8::1"), 0, now));
  EXPECT_FALSE(cache.find(ip("2001:db8::1"), now));
  EXPECT_TRUE(cache.learn(ip("2001:db8::1"), 1280, now));
  EXPECT_FALSE(cache.find(ip("2001:db8::1"), now)->fragment);
}

TEST(PathMtu, Ipv4IsNotBelievedToGoBelow552) {
  PathMtuCache cache(16, seed());
  const Instant now{100s};
  const IpAddress to = ip("192.0.2.1");
  EXPECT_FALSE(cache.learn(to, 67, now));
  EXPECT_TRUE(cache.learn(to, 552, now));
  EXPECT_FALSE(cache.find(to, now)->fragment);
  EXPECT_TRUE(cache.learn(to, 68, now));
  EXPECT_EQ(cache.find(to, now)->mtu, 552U);
  EXPECT_TRUE(cache.find(to, now)->fragment);
  EXPECT_FALSE(cache.learn(to, 552, now));
  EXPECT_TRUE(cache.find(to, now)->fragment);
}

TEST(PathMtu, KeepsThoseLearntLast) {
  PathMtuCache cache(4, seed());
  const Instant now{100s};
  for (std::uint8_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(cache.learn(IpAddress::v4({192, 0, 2, i}), 1000U + i, now));
    if (i == 3) {
      EXPECT_TRUE(cache.learn(IpAddress::v4({192, 0, 2, 0}), 900, now));
    }
  }
  EXPECT_EQ(cache.size(), 4U);
  EXPECT_TRUE(cache.find(IpAddress::v4({192, 0, 2, 0}), now));
  EXPECT_FALSE(cache.find(IpAddress::v4({192, 0, 2, 1}), now));
  EXPECT_FALSE(cache.find(IpAddress::v4({192, 0, 2, 2}), now));
  EXPECT_TRUE(cache.find(IpAddress::v4({192, 0, 2, 5}), now));
}

TEST(PathMtu, DoesWhatASlowModelDoes) {
  Random random(seed());
  PathMtuCache cache(64, seed());
  struct Known {
    std::size_t mtu;
    Instant until;
  };
  std::map<IpAddress, Known> model;
  Instant now{100s};
  for (std::uint64_t i = 0; i < scaled(5'000); ++i) {
    now += std::chrono::seconds{random.below(60)};
    const IpAddress to = IpAddress::v4({192, 0, 2, static_cast<std::uint8_t>(random.below(40))});
    const std::size_t mtu = 552 + random.below(950);
    const auto known = model.find(to);
    const bool lives = known != model.end() && now < known->second.until;
    const bool news = !lives || mtu < known->second.mtu;
    ASSERT_EQ(cache.learn(to, mtu, now), news);
    if (news || mtu == known->second.mtu) model[to] = {mtu, now + 10min};
    for (std::uint8_t n = 0; n < 40; ++n) {
      const IpAddress address = IpAddress::v4({192, 0, 2, n});
      const auto is = cache.find(address, now);
      const auto should = model.find(address);
      const bool known_now = should != model.end() && now < should->second.until;
      ASSERT_EQ(is.has_value(), known_now);
      if (!is) continue;
      ASSERT_EQ(is->mtu, should->second.mtu);
    }
  }
}

TEST(PathMtu, GuessesByPlateaus) {
  EXPECT_EQ(plateau_below(1500), 1492U);
  EXPECT_EQ(plateau_below(1492), 1006U);
  EXPECT_EQ(plateau_below(9000), 8166U);
  EXPECT_EQ(plateau_below(65535), 32000U);
  EXPECT_EQ(plateau_below(552), 68U);
}

TEST(RateLimiter, KeepsToItsRateAndBurst) {
  RateLimiter limiter(100, 10, seed());
  Instant now{50s};
  int at_once = 0;
  while (limiter.allow(now)) ++at_once;
  EXPECT_LE(at_once, 10);
  EXPECT_GE(at_once, 5);
  int in_ten_seconds = 0;
  for (int i = 0; i < 10'000; ++i) {
    now += 1ms;
    in_ten_seconds += limiter.allow(now) ? 1 : 0;
  }
  EXPECT_LE(in_ten_seconds, 1'000);
  EXPECT_GE(in_ten_seconds, 700);
}

TEST(RateLimiter, SavesNoMoreThanABurst) {
  RateLimiter limiter(1, 5, seed());
  int allowed = 0;
  while (limiter.allow(Instant{1h})) ++allowed;
  EXPECT_LE(allowed, 5);
  EXPECT_GE(allowed, 2);
}

/// A forger who counts can't tell how many of the tokens that are gone were for others.
TEST(RateLimiter, DoesNotTellHowManyOthersTook) {
  std::map<int, int> counts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    RateLimiter limiter(100, 50, seed() + i);
    int allowed = 0;
    while (limiter.allow(Instant{50s})) ++allowed;
    ++counts[allowed];
  }
  EXPECT_GE(counts.size(), 3U);
}

}  // namespace
}  // namespace pinion::test

#include "tcp/challenge_limit.h"

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours{5}};

// S1: challenges are limited.
TEST(ChallengeLimit, AllowsAConnectionTenInFiveSeconds) {
  Random random(test::seed());
  ChallengeBudget budget(kChallengesPerSecond);
  ChallengeLimit limit;
  ChallengeLimit other;
  for (int window = 0; window < 5; ++window) {
    int allowed = 0;
    for (int i = 0; i < 5'000; ++i) {
      const Instant now = kStart + seconds{5 * window} + milliseconds{i};
      allowed += limit.allow(budget, now, random) ? 1 : 0;
    }
    EXPECT_EQ(allowed, 10);
    EXPECT_TRUE(other.allow(budget, kStart + seconds{5 * window + 4}, random))
        << "another connection's limit is its own";
  }
}

TEST(ChallengeLimit, BoundsAllConnectionsByANumberThatNobodyKnows) {
  Random random(test::seed());
  ChallengeBudget budget(kChallengesPerSecond);
  std::set<int> bounds;
  for (int second = 0; second < 50; ++second) {
    std::vector<ChallengeLimit> limits(5'000);
    int allowed = 0;
    for (ChallengeLimit& limit : limits) {
      allowed += limit.allow(budget, kStart + seconds{second}, random) ? 1 : 0;
    }
    EXPECT_GE(allowed, 500);
    EXPECT_LT(allowed, 1'500);
    bounds.insert(allowed);
  }
  EXPECT_GE(bounds.size(), 30U);
}

TEST(ChallengeLimit, TakesNothingFromAllForWhatAConnectionMayNotSend) {
  Random random(test::seed());
  ChallengeBudget budget(kChallengesPerSecond);
  ChallengeLimit loud;
  for (int i = 0; i < 100'000; ++i) static_cast<void>(loud.allow(budget, kStart, random));
  ChallengeLimit quiet;
  EXPECT_TRUE(quiet.allow(budget, kStart, random));
}

}  // namespace
}  // namespace pinion

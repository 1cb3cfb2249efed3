#include "tcp/syn_cookies.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::SequenceNumber;

constexpr Instant kStart{seconds{64 * 1'000}};

SequenceNumber any_number(Random& random) {
  return SequenceNumber(static_cast<std::uint32_t>(random.next()));
}

TEST(SynCookies, GivesBackTheMssRoundedDown) {
  Random random(test::seed());
  const SynCookies cookies(test::any_key(random));
  const FourTuple tuple = test::any_tuple(random);
  const SequenceNumber peer = any_number(random);
  std::uint16_t last = 0;
  for (std::uint32_t mss = 64; mss <= 65'535; ++mss) {
    const auto wanted = static_cast<std::uint16_t>(mss);
    const auto got = cookies.check(tuple, peer, cookies.make(tuple, peer, wanted, kStart), kStart);
    ASSERT_TRUE(got);
    ASSERT_LE(*got, mss);
    ASSERT_GE(*got, last);
    last = *got;
    const bool usual = mss == 536 || mss == 1'220 || mss == 1'440 || mss == 1'460;
    ASSERT_TRUE(!usual || *got == mss);
  }
  EXPECT_EQ(cookies.check(tuple, peer, cookies.make(tuple, peer, 0, kStart), kStart), 64);
}

TEST(SynCookies, AreGoodForOneToTwoPeriods) {
  Random random(test::seed());
  for (int i = 0; i < 200; ++i) {
    const SynCookies cookies(test::any_key(random));
    const FourTuple tuple = test::any_tuple(random);
    const SequenceNumber peer = any_number(random);
    const Instant made = kStart + milliseconds{random.below(10'000'000)};
    const SequenceNumber cookie = cookies.make(tuple, peer, 1'460, made);
    EXPECT_EQ(cookies.check(tuple, peer, cookie, made), 1'460);
    EXPECT_EQ(cookies.check(tuple, peer, cookie, made + seconds{64}), 1'460);
    for (const int later : {128, 192, 256, 640, 64'000}) {
      EXPECT_FALSE(cookies.check(tuple, peer, cookie, made + seconds{later})) << later;
    }
    EXPECT_FALSE(cookies.check(tuple, peer, cookie, made - seconds{64})) << "from the future";
  }
}

TEST(SynCookies, AreGoodForNothingElse) {
  Random random(test::seed());
  const SynCookies cookies(test::any_key(random));
  const SynCookies others(test::any_key(random));
  const FourTuple tuple = test::tuple_v4(1, 2, 3, 4);
  const SequenceNumber peer = any_number(random);
  const SequenceNumber cookie = cookies.make(tuple, peer, 1'460, kStart);
  EXPECT_FALSE(cookies.check(tuple, peer + 1, cookie, kStart));
  EXPECT_FALSE(cookies.check(tuple, peer, cookie + 1, kStart));
  EXPECT_FALSE(others.check(tuple, peer, cookie, kStart));
  for (const FourTuple& other : {test::tuple_v4(9, 2, 3, 4), test::tuple_v4(1, 9, 3, 4),
                                 test::tuple_v4(1, 2, 9, 4), test::tuple_v4(1, 2, 3, 9)}) {
    EXPECT_FALSE(cookies.check(other, peer, cookie, kStart));
  }
  // The MSS in it can't be changed: every other value of those three bits is wrong.
  for (std::uint32_t bits = 1; bits < 8; ++bits) {
    const SequenceNumber changed(cookie.value() ^ bits << 28);
    EXPECT_FALSE(cookies.check(tuple, peer, changed, kStart));
  }
}

TEST(SynCookies, AreHardToGuess) {
  Random random(test::seed());
  const SynCookies cookies(test::any_key(random));
  const FourTuple tuple = test::any_tuple(random);
  int hits = 0;
  for (int i = 0; i < 200'000; ++i) {
    hits += cookies.check(tuple, SequenceNumber(7), any_number(random), kStart) ? 1 : 0;
  }
  EXPECT_LE(hits, 1) << "16 of 2^32 are good";
}

TEST(SynCookies, CarryTheOptionsInTheTimestamp) {
  Random random(test::seed());
  for (int scale = -1; scale <= 14; ++scale) {
    for (const unsigned bits : {0U, 1U, 2U, 3U}) {
      CookieOptions options{.sack = (bits & 1U) != 0, .ecn = (bits & 2U) != 0};
      if (scale >= 0) options.window_scale = static_cast<std::uint8_t>(scale);
      for (int i = 0; i < 100; ++i) {
        const auto clock = static_cast<std::uint32_t>(random.next());
        const std::uint32_t stamp = SynCookies::stamp(clock, options);
        EXPECT_EQ(SynCookies::options_in(stamp), options);
        EXPECT_LT(clock - stamp, 64U) << "never ahead of the clock";
      }
    }
  }
}

}  // namespace
}  // namespace pinion

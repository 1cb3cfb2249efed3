#include "tcp/round_trip.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr RetransmissionSettings kSettings;
constexpr std::uint32_t kMs = 1'000;
constexpr std::uint32_t kSecond = 1'000'000;

TEST(RoundTrip, BeginsWithOneSecond) {
  const RoundTrip round_trip;
  EXPECT_FALSE(round_trip.has_sample());
  EXPECT_EQ(round_trip.timeout_us(kSettings), kSecond);
}

TEST(RoundTrip, TakesTheFirstSampleWholeAndHalfOfItAsVariation) {
  RoundTrip round_trip;
  round_trip.add_sample(500 * kMs, 0, kSettings);
  EXPECT_EQ(round_trip.srtt_us(), 500 * kMs);
  EXPECT_EQ(round_trip.rttvar_us(), 250 * kMs);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 1'500 * kMs);
}

TEST(RoundTrip, FollowsTheFormulasOfRfc6298) {
  RoundTrip round_trip;
  round_trip.add_sample(400 * kMs, 0, kSettings);
  round_trip.add_sample(800 * kMs, 0, kSettings);
  EXPECT_EQ(round_trip.rttvar_us(), 250 * kMs);  // 3/4 * 200 + 1/4 * 400
  EXPECT_EQ(round_trip.srtt_us(), 450 * kMs);    // 7/8 * 400 + 1/8 * 800
  EXPECT_EQ(round_trip.timeout_us(kSettings), 1'450 * kMs);
  round_trip.add_sample(450 * kMs, 0, kSettings);
  EXPECT_EQ(round_trip.rttvar_us(), 187'500U);
  EXPECT_EQ(round_trip.srtt_us(), 450 * kMs);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 1'200 * kMs);
}

TEST(RoundTrip, StaysWithinTwoMicrosecondsOfFloatingPoint) {
  Random random(test::seed());
  for (int run = 0; run < 100; ++run) {
    RoundTrip round_trip;
    double srtt = 0;
    double rttvar = 0;
    const std::uint32_t scale = 1U << random.below(26);
    for (int i = 0; i < 500; ++i) {
      const auto rtt = static_cast<std::uint32_t>(random.between<std::uint64_t>(1, scale));
      round_trip.add_sample(rtt, 0, kSettings);
      const double exact = std::min(rtt, kSettings.max_us);
      if (i == 0) {
        srtt = exact;
        rttvar = exact / 2;
      } else {
        rttvar = 0.75 * rttvar + 0.25 * std::abs(srtt - exact);
        srtt = 0.875 * srtt + 0.125 * exact;
      }
      ASSERT_NEAR(round_trip.srtt_us(), srtt, 2.5) << i;
      ASSERT_NEAR(round_trip.rttvar_us(), rttvar, 5.0) << i;
    }
  }
}

TEST(RoundTrip, KeepsTheTimeoutWithinItsBounds) {
  RoundTrip round_trip;
  round_trip.add_sample(10, 0, kSettings);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 200 * kMs);
  RetransmissionSettings no_minimum;
  no_minimum.min_us = 1;
  for (int i = 0; i < 100; ++i) round_trip.add_sample(10 * kMs, 0, no_minimum);
  EXPECT_EQ(round_trip.rttvar_us(), 0U);
  EXPECT_EQ(round_trip.timeout_us(no_minimum), round_trip.srtt_us() + kMs) << "G for the variation";
  round_trip.add_sample(~0U, 0, kSettings);
  EXPECT_LE(round_trip.timeout_us(kSettings), 60 * kSecond);
}

TEST(RoundTrip, SurvivesTheLargestSamplesThatItsSettingsAllow) {
  RetransmissionSettings settings;
  settings.max_us = 400 * kSecond;
  RoundTrip round_trip;
  for (int i = 0; i < 50; ++i) {
    round_trip.add_sample(i % 2 == 0 ? ~0U : 0U, 0, settings);
    EXPECT_LE(round_trip.srtt_us(), settings.max_us);
    EXPECT_LE(round_trip.rttvar_us(), settings.max_us);
    EXPECT_LE(round_trip.timeout_us(settings), settings.max_us);
    EXPECT_GE(round_trip.timeout_us(settings), settings.min_us);
  }
}

TEST(RoundTrip, CountsASampleOfNothingAsOneMicrosecond) {
  RoundTrip round_trip;
  for (int i = 0; i < 100; ++i) round_trip.add_sample(0, 0, kSettings);
  EXPECT_TRUE(round_trip.has_sample());
  EXPECT_EQ(round_trip.srtt_us(), 1U);
}

TEST(RoundTrip, DoublesTheTimeoutUpToItsMaximum) {
  RoundTrip round_trip;
  round_trip.add_sample(100 * kMs, 0, kSettings);
  for (const std::uint32_t expected :
       {300U, 600U, 1'200U, 2'400U, 4'800U, 9'600U, 19'200U, 38'400U}) {
    EXPECT_EQ(round_trip.timeout_us(kSettings), expected * kMs);
    round_trip.back_off();
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(round_trip.timeout_us(kSettings), 60 * kSecond);
    round_trip.back_off();
  }
}

TEST(RoundTrip, StaysBackedOffUntilThereIsASample) {
  RoundTrip round_trip;
  round_trip.add_sample(100 * kMs, 0, kSettings);
  round_trip.back_off();
  round_trip.back_off();
  EXPECT_EQ(round_trip.backoff(), 2U);
  EXPECT_TRUE(round_trip.wants_sample(1)) << "to end the backoff";
  round_trip.add_sample(100 * kMs, 0, kSettings);
  EXPECT_EQ(round_trip.backoff(), 0U);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 250 * kMs);
}

TEST(RoundTrip, WantsOneSampleForEachRoundTrip) {
  RoundTrip round_trip;
  const std::uint32_t just_before_wrapping = 0U - 10 * kMs;
  EXPECT_TRUE(round_trip.wants_sample(just_before_wrapping));
  round_trip.add_sample(50 * kMs, just_before_wrapping, kSettings);
  EXPECT_FALSE(round_trip.wants_sample(just_before_wrapping + 50 * kMs - 1));
  EXPECT_TRUE(round_trip.wants_sample(just_before_wrapping + 50 * kMs));
}

TEST(RoundTrip, BeginsDataWithThreeSecondsWhenTheSynTimedOut) {
  RoundTrip round_trip;
  round_trip.back_off();
  round_trip.back_off();
  EXPECT_EQ(round_trip.timeout_us(kSettings), 4 * kSecond);
  round_trip.handshake_done(true);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 3 * kSecond);
  round_trip.back_off();
  EXPECT_EQ(round_trip.timeout_us(kSettings), 6 * kSecond);
  round_trip.add_sample(100 * kMs, 0, kSettings);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 300 * kMs);
}

TEST(RoundTrip, KeepsASampleOfTheHandshakeThatTimestampsGave) {
  RoundTrip round_trip;
  round_trip.back_off();
  round_trip.add_sample(100 * kMs, 0, kSettings);
  round_trip.handshake_done(true);
  EXPECT_EQ(round_trip.timeout_us(kSettings), 300 * kMs);
}

TEST(TimedSegment, TimesOneSegmentAtATime) {
  TimedSegment timed;
  std::uint32_t rtt = 0;
  const wire::SequenceNumber first(0xffff'fff0U);
  EXPECT_FALSE(timed.acknowledged(first, 5, rtt));
  timed.sent(first + 100, 0xffff'ff00U);
  timed.sent(first + 200, 0xffff'ff80U);
  EXPECT_FALSE(timed.acknowledged(first + 99, 0, rtt));
  EXPECT_TRUE(timed.acknowledged(first + 150, 0x100, rtt));
  EXPECT_EQ(rtt, 0x200U);
  EXPECT_FALSE(timed.acknowledged(first + 200, 0x100, rtt));
}

TEST(TimedSegment, GivesNoSampleOfWhatWasSentTwice) {
  TimedSegment timed;
  std::uint32_t rtt = 0;
  timed.sent(wire::SequenceNumber(100), 0);
  timed.sent_again();
  EXPECT_FALSE(timed.acknowledged(wire::SequenceNumber(100), 50, rtt));
  timed.sent(wire::SequenceNumber(200), 60);
  EXPECT_TRUE(timed.acknowledged(wire::SequenceNumber(200), 90, rtt));
  EXPECT_EQ(rtt, 30U);
}

TEST(JudgeTimeout, AsksForAnotherRouteFromTheThirdRetransmissionOn) {
  EXPECT_EQ(judge_timeout(0, seconds{1}, kLeastR2Data), TimeoutVerdict::send_again);
  EXPECT_EQ(judge_timeout(2, seconds{7}, kLeastR2Data), TimeoutVerdict::send_again);
  EXPECT_EQ(judge_timeout(3, seconds{15}, kLeastR2Data), TimeoutVerdict::send_again_and_advise);
  EXPECT_EQ(judge_timeout(9, seconds{99}, kLeastR2Data), TimeoutVerdict::send_again_and_advise);
}

/// How long a segment is sent again, and how often, before the connection is given up.
struct Patience {
  Delay waited;
  unsigned retransmissions = 0;
};

Patience patience(RoundTrip round_trip, Delay r2) {
  Patience result;
  std::chrono::nanoseconds waited{0};
  for (;;) {
    waited += std::chrono::microseconds{round_trip.timeout_us(kSettings)};
    result.waited = waited;
    if (judge_timeout(result.retransmissions, waited, r2) == TimeoutVerdict::give_up) return result;
    ++result.retransmissions;
    round_trip.back_off();
  }
}

TEST(JudgeTimeout, GivesUpAtR2AndNotBefore) {
  const Patience syn = patience(RoundTrip(), kLeastR2Syn);
  EXPECT_EQ(syn.retransmissions, 7U);
  EXPECT_EQ(syn.waited, Delay(seconds{1 + 2 + 4 + 8 + 16 + 32 + 60 + 60}));
  RoundTrip fast;
  fast.add_sample(100, 0, kSettings);
  const Patience data = patience(fast, kLeastR2Data);
  EXPECT_EQ(data.retransmissions, 8U);  // 0.2 s doubled up to 51.2 s.
  EXPECT_EQ(data.waited, Delay(std::chrono::milliseconds{102'200}));
  EXPECT_EQ(judge_timeout(1'000, minutes{1'000}, kNoTimeout),
            TimeoutVerdict::send_again_and_advise);
}

}  // namespace
}  // namespace pinion

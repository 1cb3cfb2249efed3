#include "tcp/congestion.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

using wire::SequenceNumber;

constexpr std::uint16_t kMss = 1'000;
constexpr std::uint32_t kWide = 1U << 30;

/// A sender whose segments and acknowledgements are counted by hand.
struct Sender {
  explicit Sender(std::uint16_t mss = kMss, bool syn_lost = false, std::uint32_t iss = 0) {
    una = nxt = SequenceNumber(iss) + 1;
    congestion.start(CongestionAlgorithm::new_reno, mss, syn_lost, SequenceNumber(iss));
  }

  [[nodiscard]] std::uint32_t flight() const { return nxt.value() - una.value(); }
  [[nodiscard]] std::uint32_t sendable() const { return congestion.sendable(flight(), kWide); }

  /// Sends whole segments as far as the windows allow; how many bytes.
  std::uint32_t fill(std::uint32_t snd_wnd = kWide) {
    const std::uint32_t bytes = congestion.sendable(flight(), snd_wnd) / kMss * kMss;
    nxt += bytes;
    return bytes;
  }
  AckResponse ack(std::uint32_t bytes) {
    const std::uint32_t before = flight();
    una += bytes;
    return congestion.on_ack(una, bytes, before);
  }
  bool duplicate() { return congestion.on_duplicate(una, nxt, flight()); }
  void timeout(bool again = false) { congestion.on_timeout(nxt, flight(), again); }

  /// Grows the window to so many bytes by acknowledging all that it lets out.
  void grow_to(std::uint32_t bytes) {
    while (congestion.window() < bytes) {
      fill();
      ack(std::min(flight(), 2U * kMss));
    }
  }

  Congestion congestion;
  SequenceNumber una;
  SequenceNumber nxt;
};

TEST(Congestion, BeginsWithTheInitialWindowOfRfc6928) {
  const auto initial = [](std::uint16_t mss) { return Sender(mss).congestion.window(); };
  EXPECT_EQ(initial(536), 5'360U);
  EXPECT_EQ(initial(1'460), 14'600U);
  EXPECT_EQ(initial(2'000), 14'600U);
  EXPECT_EQ(initial(8'940), 17'880U);
  EXPECT_EQ(Sender(1'460, true).congestion.window(), 1'460U) << "the SYN was lost";
}

TEST(Congestion, LetsNothingOutBeforeItStarts) {
  EXPECT_EQ(Congestion().sendable(0, kWide), 0U);
}

// W1: what is in flight never exceeds the congestion window or the peer's.
TEST(Congestion, KeepsWhatIsInFlightWithinBothWindows) {
  Sender sender;
  EXPECT_EQ(sender.fill(), 10'000U);
  EXPECT_EQ(sender.sendable(), 0U);
  EXPECT_EQ(Sender().congestion.sendable(0, 4'500), 4'500U);
  EXPECT_EQ(Sender().congestion.sendable(4'000, 4'500), 500U);
  EXPECT_EQ(Sender().congestion.sendable(6'000, 4'500), 0U) << "the peer took window back";
}

TEST(Congestion, GrowsByTwoSegmentsAnAcknowledgementInSlowStart) {
  Sender sender;
  sender.fill();
  sender.ack(500);
  EXPECT_EQ(sender.congestion.window(), 10'500U);
  sender.ack(2'000);
  EXPECT_EQ(sender.congestion.window(), 12'500U);
  sender.ack(5'000);
  EXPECT_EQ(sender.congestion.window(), 14'500U) << "L = 2 of RFC 3465";
}

TEST(Congestion, GrowsByASegmentForEachWindowInCongestionAvoidance) {
  Sender sender;
  sender.grow_to(20'000);
  sender.fill();
  for (int i = 0; i < 3; ++i) sender.duplicate();
  sender.ack(sender.flight());
  while (sender.congestion.in_slow_start()) {  // Up to the threshold.
    sender.fill();
    sender.ack(kMss);
  }
  for (int i = 0; i < 5; ++i) {
    const std::uint32_t window = sender.congestion.window();
    std::uint32_t acked = 0;
    while (sender.congestion.window() == window) {
      sender.fill();
      sender.ack(100);
      acked += 100;
    }
    EXPECT_EQ(sender.congestion.window(), window + kMss);
    EXPECT_NEAR(acked, window, 100);
  }
}

TEST(Congestion, DoesNotGrowWhileLessThanHalfOfTheWindowIsInUse) {
  Sender sender;
  for (int i = 0; i < 1'000; ++i) {
    sender.nxt += 4'999;
    sender.ack(4'999);
  }
  EXPECT_EQ(sender.congestion.window(), 10'000U);
  sender.nxt += 5'000;
  sender.ack(5'000);
  EXPECT_EQ(sender.congestion.window(), 12'000U);
}

TEST(Congestion, LetsOneNewSegmentOutForEachOfTheFirstTwoDuplicates) {
  Sender sender;
  sender.fill();
  EXPECT_FALSE(sender.duplicate());
  EXPECT_EQ(sender.fill(), kMss);
  EXPECT_FALSE(sender.duplicate());
  EXPECT_EQ(sender.fill(), kMss);
  EXPECT_EQ(sender.congestion.window(), 10'000U) << "the window stays (RFC 3042)";
  EXPECT_EQ(sender.congestion.sendable(12'000, 12'500), 0U);
}

TEST(Congestion, TakesTheThirdDuplicateForALoss) {
  Sender sender;
  sender.fill();
  sender.duplicate();
  sender.fill();
  sender.duplicate();
  sender.fill();
  EXPECT_TRUE(sender.duplicate());
  EXPECT_TRUE(sender.congestion.in_recovery());
  EXPECT_EQ(sender.congestion.threshold(), 5'000U) << "without the two of limited transmit";
  EXPECT_EQ(sender.congestion.window(), 8'000U);
  EXPECT_FALSE(sender.duplicate());
  EXPECT_EQ(sender.congestion.window(), 9'000U);
}

TEST(Congestion, ForgetsDuplicatesWhenDataIsAcknowledged) {
  Sender sender;
  sender.fill();
  sender.duplicate();
  sender.duplicate();
  sender.ack(kMss);
  EXPECT_FALSE(sender.duplicate());
  EXPECT_FALSE(sender.duplicate());
  EXPECT_TRUE(sender.duplicate());
}

TEST(Congestion, EndsRecoveryWhenAllThatWasInFlightHasArrived) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 9; ++i) sender.duplicate();
  EXPECT_EQ(sender.congestion.window(), 5'000U + 9 * kMss);
  EXPECT_EQ(sender.fill(), 4'000U);
  const AckResponse response = sender.ack(10'000);
  EXPECT_FALSE(response.retransmit_first);
  EXPECT_TRUE(response.restart_timer);
  EXPECT_FALSE(sender.congestion.in_recovery());
  EXPECT_EQ(sender.congestion.window(), 5'000U) << "what is in flight and one, up to ssthresh";
}

TEST(Congestion, LeavesRecoveryWithoutABurst) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 9; ++i) sender.duplicate();
  sender.ack(10'000);  // Nothing new was sent.
  EXPECT_EQ(sender.congestion.window(), 2U * kMss);
  EXPECT_TRUE(sender.congestion.in_slow_start());
}

TEST(Congestion, RetransmitsForEachPartialAcknowledgement) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 3; ++i) sender.duplicate();
  ASSERT_EQ(sender.congestion.window(), 8'000U);
  AckResponse response = sender.ack(3'000);
  EXPECT_TRUE(response.retransmit_first);
  EXPECT_TRUE(response.restart_timer);
  EXPECT_EQ(sender.congestion.window(), 6'000U) << "deflated by three segments, one given back";
  response = sender.ack(400);
  EXPECT_TRUE(response.retransmit_first);
  EXPECT_FALSE(response.restart_timer) << "only the first one does";
  EXPECT_EQ(sender.congestion.window(), 5'600U);
  response = sender.ack(6'600);
  EXPECT_FALSE(response.retransmit_first);
  EXPECT_FALSE(sender.congestion.in_recovery());
}

TEST(Congestion, IsNotInflatedByMoreDuplicatesThanThereAreSegments) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 1'000; ++i) sender.duplicate();
  EXPECT_EQ(sender.congestion.window(), 15'000U);
}

TEST(Congestion, TakesNoSecondLossFromDuplicatesOfTheSameFlight) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 3; ++i) sender.duplicate();
  sender.ack(sender.flight());
  sender.fill();
  // All that was in flight is acknowledged and no more: RFC 6582, 3.2, step 2.
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(sender.duplicate());
  sender.ack(kMss);
  sender.nxt += 5'000;
  EXPECT_FALSE(sender.duplicate());
  EXPECT_FALSE(sender.duplicate());
  EXPECT_TRUE(sender.duplicate());
}

TEST(Congestion, BeginsAgainWithOneSegmentAfterATimeout) {
  Sender sender;
  sender.grow_to(40'000);
  sender.fill();
  const std::uint32_t flight = sender.flight();
  sender.timeout();
  EXPECT_EQ(sender.congestion.window(), kMss);
  EXPECT_EQ(sender.congestion.threshold(), flight / 2);
  // What was in flight counts for lost: resent from the first unacknowledged byte.
  EXPECT_EQ(sender.congestion.sendable(0, kWide), kMss);
  const AckResponse response = sender.congestion.on_ack(sender.una + 2'000, 2'000, 1'000);
  EXPECT_FALSE(response.retransmit_first);
  EXPECT_EQ(sender.congestion.window(), 2U * kMss) << "L = 1 after a timeout (RFC 3465, 2.3)";
}

TEST(Congestion, HoldsTheThresholdWhenTheSameSegmentTimesOutAgain) {
  Sender sender;
  sender.fill();
  sender.timeout();
  EXPECT_EQ(sender.congestion.threshold(), 5'000U);
  sender.congestion.on_timeout(sender.nxt, kMss, true);
  EXPECT_EQ(sender.congestion.threshold(), 5'000U);
  sender.congestion.on_timeout(sender.nxt, kMss, false);
  EXPECT_EQ(sender.congestion.threshold(), 2U * kMss) << "never below two segments";
}

TEST(Congestion, GivesUpRecoveryAtATimeout) {
  Sender sender;
  sender.fill();
  for (int i = 0; i < 3; ++i) sender.duplicate();
  sender.timeout();
  EXPECT_FALSE(sender.congestion.in_recovery());
  // Duplicates of what was in flight then bring no fast retransmit.
  sender.ack(kMss);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(sender.duplicate());
}

TEST(Congestion, GoesBackToTheInitialWindowWhenItWasIdle) {
  Sender sender;
  sender.grow_to(40'000);
  sender.congestion.restart_after_idle();
  EXPECT_EQ(sender.congestion.window(), 10'000U);
  EXPECT_TRUE(sender.congestion.in_slow_start());
  Sender small;
  small.fill();
  small.timeout();
  small.congestion.restart_after_idle();
  EXPECT_EQ(small.congestion.window(), kMss) << "never up";
}

TEST(Congestion, KeepsItsWindowWhenSegmentsShrink) {
  Sender sender;
  sender.congestion.set_segment(500);
  EXPECT_EQ(sender.congestion.window(), 10'000U);
  sender.timeout();
  EXPECT_EQ(sender.congestion.window(), 500U);
  sender.congestion.set_segment(1'400);
  EXPECT_EQ(sender.congestion.window(), 1'400U);
}

TEST(Congestion, SeesALossAfterGigabytesWithoutOne) {
  Sender sender;
  // More than half of the numbers' circle, less than all of it.
  for (std::uint64_t sent = 0; sent < 3'000'000'000U; sent += 20'000'000) {
    sender.nxt += 20'000'000;
    sender.ack(20'000'000);
  }
  sender.fill();
  sender.duplicate();
  sender.duplicate();
  EXPECT_TRUE(sender.duplicate());
}

TEST(Congestion, NeverExceedsAGigabyteNorFallsBelowASegment) {
  Random random(test::seed());
  Sender sender(kMss, false, 0xffff'0000U);
  for (std::uint64_t i = 0; i < test::scaled(200'000); ++i) {
    const std::uint32_t flight = sender.flight();
    switch (random.below(40)) {
      case 0:
        sender.timeout(random.chance(0.5));
        sender.nxt = sender.una;
        break;
      case 1:
        if (flight == 0) sender.congestion.restart_after_idle();
        break;
      case 2:
      case 3:
      case 4:
        if (flight != 0) sender.duplicate();
        break;
      default:
        sender.fill();
        sender.ack(static_cast<std::uint32_t>(random.below(sender.flight() + 1U)));
    }
    ASSERT_GE(sender.congestion.window(), kMss);
    ASSERT_LE(sender.congestion.window(), 1U << 30);
    ASSERT_GE(sender.congestion.threshold(), 2U * kMss);
    const auto snd_wnd = static_cast<std::uint32_t>(random.below(1U << 20));
    const std::uint32_t sendable = sender.congestion.sendable(sender.flight(), snd_wnd);
    if (sendable != 0) {
      ASSERT_LE(sender.flight() + sendable, snd_wnd);
      ASSERT_LE(sender.flight() + sendable, sender.congestion.window() + 2U * kMss);
    }
  }
}

TEST(IsDuplicate, AsksForEachSignOfRfc5681) {
  const AckSigns duplicate{.data_outstanding = true, .at_snd_una = true, .window_unchanged = true};
  EXPECT_TRUE(is_duplicate(duplicate));
  AckSigns other = duplicate;
  other.data_outstanding = false;
  EXPECT_FALSE(is_duplicate(other));
  other = duplicate;
  other.carries_data = true;
  EXPECT_FALSE(is_duplicate(other));
  other = duplicate;
  other.syn_or_fin = true;
  EXPECT_FALSE(is_duplicate(other));
  other = duplicate;
  other.at_snd_una = false;
  EXPECT_FALSE(is_duplicate(other));
  other = duplicate;
  other.window_unchanged = false;
  EXPECT_FALSE(is_duplicate(other));
}

}  // namespace
}  // namespace pinion

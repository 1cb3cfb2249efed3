#include <gtest/gtest.h>

#include <pinion/eventloop/idle.h>

namespace pinion {
namespace {

using namespace std::chrono_literals;
using Step = IdleController::Step;

TEST(IdlePolicy, NamesAreReadBack) {
  for (const IdlePolicy policy : {IdlePolicy::spin, IdlePolicy::adaptive, IdlePolicy::park}) {
    EXPECT_EQ(parse_idle_policy(to_string(policy)), policy);
  }
  EXPECT_EQ(parse_idle_policy("sleep"), std::nullopt);
}

TEST(IdleController, SpinNeverSleepsAndParkSleepsAtOnce) {
  const IdleController spin(IdlePolicy::spin, 100us);
  EXPECT_EQ(spin.next_step(0s), Step::spin);
  EXPECT_EQ(spin.next_step(1h), Step::spin);
  const IdleController park(IdlePolicy::park, 100us);
  EXPECT_EQ(park.next_step(0s), Step::park);
}

TEST(IdleController, AdaptiveSpinsThenPausesThenParks) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(20us);
  const Delay budget = adaptive.spin_budget();
  EXPECT_GE(budget, Delay{38us});
  EXPECT_LE(budget, Delay{42us});
  EXPECT_EQ(adaptive.next_step(0s), Step::spin);
  EXPECT_EQ(adaptive.next_step(30us), Step::pause);
  EXPECT_EQ(adaptive.next_step(50us), Step::park);
}

TEST(IdleController, ParksAtOnceWhereArrivalsAreRareAndSpinsAgainOnlyWhenTheyAreFrequent) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(10ms);
  EXPECT_EQ(adaptive.next_step(0s), Step::park);
  // Between half of the longest spin and all of it, what it did before stays.
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(70us);
  EXPECT_EQ(adaptive.next_step(0s), Step::park);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(10us);
  EXPECT_EQ(adaptive.next_step(0s), Step::spin);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(70us);
  EXPECT_EQ(adaptive.next_step(0s), Step::spin);
}

TEST(IdleController, ASpinWithoutEndIsCutOffAndDoesNotOverflow) {
  IdleController adaptive(IdlePolicy::adaptive, kNoTimeout);
  EXPECT_EQ(adaptive.spin_budget(), Delay{IdleController::kSpinLimit});
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(1h);
  EXPECT_EQ(adaptive.next_step(0s), Step::park);
  EXPECT_EQ(IdleController(IdlePolicy::adaptive, -1s).next_step(0s), Step::park);
}

TEST(IdleController, NeverSpinsLongerThanTheLongestSpin) {
  IdleController controller(IdlePolicy::adaptive, 50us);
  for (int i = 0; i < 100; ++i) controller.on_arrival(45us);
  EXPECT_EQ(controller.spin_budget(), Delay{50us});
}

TEST(IdleController, OneLongGapDoesNotOutweighManyShortOnes) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(5us);
  adaptive.on_arrival(24h);
  for (int i = 0; i < 20; ++i) adaptive.on_arrival(5us);
  EXPECT_EQ(adaptive.next_step(0s), Step::spin);
}

}  // namespace
}  // namespace pinion

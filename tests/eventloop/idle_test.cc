#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <pinion/eventloop/idle.h>

namespace pinion {
namespace {

using namespace std::chrono_literals;
using Step = IdleController::Step;

constexpr Instant kNow{1h};

TEST(IdlePolicy, NamesAreReadBack) {
  for (const IdlePolicy policy : {IdlePolicy::spin, IdlePolicy::adaptive, IdlePolicy::park}) {
    EXPECT_EQ(parse_idle_policy(to_string(policy)), policy);
  }
  EXPECT_EQ(parse_idle_policy("sleep"), std::nullopt);
}

TEST(IdleController, SpinNeverSleepsAndParkSleepsAtOnce) {
  const IdleController spin(IdlePolicy::spin, 100us);
  EXPECT_EQ(spin.next_step(0s, kNow), Step::spin);
  EXPECT_EQ(spin.next_step(1h, kNow), Step::spin);
  const IdleController park(IdlePolicy::park, 100us);
  EXPECT_EQ(park.next_step(0s, kNow), Step::park);
}

TEST(IdleController, AdaptiveSpinsThenPausesThenParks) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(20us, false);
  const Delay budget = adaptive.spin_budget();
  EXPECT_GE(budget, Delay{76us});
  EXPECT_LE(budget, Delay{84us});
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::spin);
  EXPECT_EQ(adaptive.next_step(60us, kNow), Step::pause);
  EXPECT_EQ(adaptive.next_step(90us, kNow), Step::park);
}

TEST(IdleController, ParksAtOnceWhereArrivalsAreRareAndSpinsAgainOnlyWhenTheyAreFrequent) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(10ms, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::park);
  // Between half of the longest spin and all of it, what it did before stays.
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(70us, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::park);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(10us, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::spin);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(70us, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::spin);
}

TEST(IdleController, TheTimeThatWakingTookIsNotTakenForAGap) {
  for (const bool woken : {false, true}) {
    IdleController adaptive(IdlePolicy::adaptive, 300us);
    for (int i = 0; i < 100; ++i) adaptive.on_arrival(10ms, true);
    EXPECT_EQ(adaptive.next_step(0s, kNow), Step::park);
    for (int i = 0; i < 100 && adaptive.next_step(0s, kNow) == Step::park; ++i) {
      adaptive.on_arrival(200us, woken);
    }
    EXPECT_EQ(adaptive.next_step(0s, kNow), woken ? Step::spin : Step::park);
  }
}

TEST(IdleController, ASpinWithoutEndIsCutOffAndDoesNotOverflow) {
  IdleController adaptive(IdlePolicy::adaptive, kNoTimeout);
  EXPECT_EQ(adaptive.spin_budget(), Delay{IdleController::kSpinLimit});
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(1h, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::park);
  EXPECT_EQ(IdleController(IdlePolicy::adaptive, -1s).next_step(0s, kNow), Step::park);
}

TEST(IdleController, NeverSpinsLongerThanTheLongestSpin) {
  IdleController controller(IdlePolicy::adaptive, 50us);
  for (int i = 0; i < 100; ++i) controller.on_arrival(45us, false);
  EXPECT_EQ(controller.spin_budget(), Delay{50us});
}

TEST(IdleController, OneLongGapDoesNotOutweighManyShortOnes) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 0; i < 100; ++i) adaptive.on_arrival(5us, false);
  adaptive.on_arrival(24h, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::spin);
  for (int i = 0; i < 20; ++i) adaptive.on_arrival(5us, false);
  EXPECT_EQ(adaptive.next_step(0s, kNow), Step::spin);
}

/// So many times in a row, 1 ms apart, of which others had 300 us; returns how
/// often spinning was given up, and the last time.
int preempt(IdleController& controller, Instant& now, int times) {
  int given_up = 0;
  for (int i = 0; i < times; ++i) {
    now = saturating_add(now, 1ms);
    if (controller.on_preemption(now, 300us)) ++given_up;
  }
  return given_up;
}

TEST(IdleController, TakesAQuickWakingForNoMoreThanHalfTheWait) {
  IdleController adaptive(IdlePolicy::adaptive, 300us);
  for (int i = 0; i < 100; ++i) {
    adaptive.on_arrival(30us, true);
    adaptive.on_arrival(1us, false);
  }
  EXPECT_GE(adaptive.spin_budget(), Delay{20us});
}

TEST(IdleController, GivesUpSpinsThatAlwaysEndInASleepAndTriesAgain) {
  IdleController adaptive(IdlePolicy::adaptive, 200us);
  const auto arrivals_without_spin = [&adaptive](int vain_spins) {
    for (int i = 1; i <= vain_spins; ++i) {
      EXPECT_NE(adaptive.next_step(0s, kNow), Step::park);
      EXPECT_EQ(adaptive.on_arrival(50us, true), i == vain_spins) << i;
    }
    int arrivals = 0;
    for (; adaptive.next_step(0s, kNow) == Step::park; ++arrivals) {
      EXPECT_FALSE(adaptive.on_arrival(50us, true));
    }
    return arrivals;
  };
  EXPECT_EQ(arrivals_without_spin(8), 64);
  for (const int expected : {128, 256, 512, 1024, 2048, 4096, 4096}) {
    EXPECT_EQ(arrivals_without_spin(1), expected);
  }
  EXPECT_FALSE(adaptive.on_arrival(50us, false));
  EXPECT_EQ(arrivals_without_spin(8), 64);
}

TEST(IdleController, WhatTheKernelsThreadsTakeIsNoReasonToGiveUp) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_FALSE(adaptive.on_preemption(saturating_add(kNow, i * 1ms), 100us)) << i;
  }
}

TEST(IdleController, GivesUpSpinningOnASharedCpuForATime) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  Instant now = kNow;
  EXPECT_EQ(preempt(adaptive, now, 3), 0);
  EXPECT_EQ(adaptive.next_step(0s, now), Step::spin);
  EXPECT_EQ(preempt(adaptive, now, 1), 1);
  EXPECT_EQ(adaptive.next_step(0s, now), Step::park);
  EXPECT_EQ(preempt(adaptive, now, 20), 0);  // Known already.
  EXPECT_EQ(adaptive.next_step(0s, saturating_add(kNow, 103ms)), Step::park);
  EXPECT_EQ(adaptive.next_step(0s, saturating_add(kNow, 104ms)), Step::spin);
}

TEST(IdleController, GivesUpForTwiceAsLongWhenTheCpuIsStillShared) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  Instant now = kNow;
  const auto next_break = [&](Delay later) {
    now = saturating_add(now, later);
    EXPECT_EQ(preempt(adaptive, now, 4), 1);
    Delay length{};
    while (adaptive.next_step(0s, saturating_add(now, length)) == Step::park) {
      length = Delay{length.to_nanoseconds() + 1ms};
    }
    now = saturating_add(now, length);
    return length;
  };
  for (const auto expected : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 3200ms}) {
    EXPECT_EQ(next_break(0ms), Delay{expected});
  }
  EXPECT_EQ(next_break(2s), Delay{100ms});  // It had the CPU for itself meanwhile.
}

TEST(IdleController, WhatTakesTheCpuNowAndThenIsNoReasonToGiveUp) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  Instant now = kNow;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(preempt(adaptive, now, 3), 0);
    now = saturating_add(now, 100ms);
  }
  IdleController spin(IdlePolicy::spin, 100us);
  EXPECT_EQ(preempt(spin, now, 100), 0);
  EXPECT_EQ(spin.next_step(0s, now), Step::spin);
}

TEST(IdleController, GivesUpHoweverManyOthersWantTheCpu) {
  for (const int others : {1, 8, 30}) {
    IdleController adaptive(IdlePolicy::adaptive, 1s);
    int given_up = 0;
    for (int slice = 1; slice <= 8; ++slice) {
      const Instant now = saturating_add(kNow, slice * (others + 1) * 4ms);
      if (adaptive.on_preemption(now, others * 4ms)) ++given_up;
      EXPECT_EQ(given_up, slice < 4 ? 0 : 1) << others << " others, slice " << slice;
      if (given_up > 0) break;
    }
  }
}

TEST(IdleController, GivesUpAfterFourPreemptionsInARowWhateverCameBeforeThem) {
  IdleController adaptive(IdlePolicy::adaptive, 100us);
  for (const auto at : {0ms, 98ms, 99ms, 101ms}) {
    EXPECT_FALSE(adaptive.on_preemption(saturating_add(kNow, at), 300us)) << at.count();
  }
  EXPECT_TRUE(adaptive.on_preemption(saturating_add(kNow, 102ms), 300us));
}

/// A tree of files as /sys and /proc show them, below a directory of its own.
class Firmware : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "firmware-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void say(const std::string& maker, const std::string& product) {
    write("/sys/class/dmi/id/sys_vendor", maker + "\n");
    write("/sys/class/dmi/id/product_name", product + "\n");
  }
  [[nodiscard]] bool names_hypervisor() const {
    return detail::firmware_names_hypervisor(root_.c_str());
  }

  std::string root_;
};

TEST_F(Firmware, NamesItsHypervisorInTheDmiTables) {
  EXPECT_FALSE(names_hypervisor());
  say("QEMU", "Standard PC");
  EXPECT_TRUE(names_hypervisor());
  say("Amazon EC2", "c7g.large");
  EXPECT_TRUE(names_hypervisor());
  say("Amazon EC2", "c7g.metal");
  EXPECT_FALSE(names_hypervisor());
  say("Red Hat", "KVM");
  EXPECT_TRUE(names_hypervisor());
  say("Microsoft Corporation", "Virtual Machine");
  EXPECT_TRUE(names_hypervisor());
  say("Microsoft Corporation", "Surface Pro");
  EXPECT_FALSE(names_hypervisor());
  say("Ampere", "Altra");
  EXPECT_FALSE(names_hypervisor());
}

TEST_F(Firmware, NamesItsHypervisorInTheDeviceTree) {
  write("/proc/device-tree/hypervisor/compatible", "linux,kvm");
  EXPECT_TRUE(names_hypervisor());
}

TEST(VirtualMachine, IsFoundOutOnceAndDecidesTheLongestSpin) {
  EXPECT_EQ(on_virtual_machine(), on_virtual_machine());
  EXPECT_EQ(default_spin_max(), Delay{on_virtual_machine() ? 200us : 50us});
}

}  // namespace
}  // namespace pinion

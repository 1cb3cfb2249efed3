#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"

/// What is extended, cancelled and destroyed while the early cascade of its slot, or the scan of
/// its overflow list, is half done.

namespace pinion::test {
namespace {

/// What is done to the entry, at which tick after the work ahead of its slot has begun.
struct Change {
  enum class Kind { later, earlier, cancel, destroy } kind;
  Tick after;
};

/// Many entries in one slot of `level` (kLevels: in one overflow list), among them the one that
/// changes.
class Crowd {
 public:
  Crowd(Tick start, unsigned level, Random& random) : wheel_(start) {
    const bool overflow = level == WheelCore::kLevels;
    const Tick slot = Tick{1} << (6 * (overflow ? level - 1 : level));
    boundary_ = (start / slot + (overflow ? 66 : 2)) * slot;
    begin_ = boundary_ - (overflow ? WheelCore::kSpan / 2 : slot / WheelCore::kSlots);
    others_ = make_probes(wheel_, kOthers);
    for (std::size_t index = 0; index < kOthers; ++index) {
      others_[index].wanted = boundary_ + (index % 2 == 0 ? index : random.below(slot));
      wheel_.arm(others_[index], others_[index].wanted);
    }
    probe_.emplace(wheel_);
    probe_->wanted = boundary_ + 1000;
    wheel_.arm(*probe_, probe_->wanted);
    wheel_.advance(begin_ - 1);
    EXPECT_EQ(wheel_.stats().moved, 0U);
  }

  void apply(const Change& change) {
    while (wheel_.now() < begin_ + change.after) tick();
    const std::uint64_t left = kOthers - std::min<std::uint64_t>(kOthers, wheel_.stats().moved);
    half_done_ = half_done_ || (left != 0 && left != kOthers);
    switch (change.kind) {
      case Change::Kind::later:
        probe_->wanted += 7000;
        wheel_.extend(*probe_, probe_->wanted);
        break;
      case Change::Kind::earlier:
        probe_->wanted = std::min(boundary_ + 80, probe_->wanted - 1);  // after the last change
        wheel_.extend(*probe_, probe_->wanted);
        break;
      case Change::Kind::cancel: {
        const bool armed = probe_->armed();
        ASSERT_EQ(wheel_.cancel(*probe_), armed);
        ASSERT_FALSE(probe_->armed());
        break;
      }
      case Change::Kind::destroy:
        const Tick wanted = probe_->wanted;
        probe_.emplace(wheel_);
        probe_->wanted = wanted;
        break;
    }
    compare();
  }

  /// Until nothing is armed: each fires in its tick.
  void finish() {
    const bool armed = probe_->armed();
    while (wheel_.now() < boundary_ - 1 && wheel_.now() < begin_ + 200) tick();
    wheel_.advance(boundary_ - 1);
    compare();
    while (wheel_.armed_count() != 0) wheel_.advance(wheel_.next_expiry());
    ASSERT_EQ(probe_->fired, armed ? 1U : 0U);
    if (armed) {
      ASSERT_EQ(probe_->fired_at, probe_->wanted);
    }
    for (const Probe& other : others_) ASSERT_EQ(other.fired_at, other.wanted) << "a bystander";
    ASSERT_EQ(wheel_.check(), "");
  }

  bool half_done() const { return half_done_; }

 private:
  static constexpr std::size_t kOthers = 3000;

  void tick() {
    wheel_.advance(wheel_.now() + 1);
    if (wheel_.now() < boundary_) {
      ASSERT_EQ(wheel_.next_expiry(), boundary_);
    }
  }

  /// Until the boundary, what changes is later than the first of the others.
  void compare() {
    ASSERT_EQ(wheel_.check(), "");
    if (wheel_.now() < boundary_) {
      ASSERT_EQ(wheel_.next_expiry(), boundary_);
    }
  }

  WheelCore wheel_;
  Tick boundary_ = 0;
  Tick begin_ = 0;
  std::deque<Probe> others_;
  std::optional<Probe> probe_;
  bool half_done_ = false;
};

class TimingWheelTM12 : public testing::TestWithParam<unsigned> {};

// TM12: extend later, earlier and cancel in all orders, around the early cascade.
TEST_P(TimingWheelTM12, LaterEarlierCancelAndDestroyInAllOrdersAroundTheEarlyCascade) {
  using Kind = Change::Kind;
  Random random(seed() + GetParam());
  std::array<Kind, 4> kinds{Kind::later, Kind::earlier, Kind::cancel, Kind::destroy};
  int half_done = 0;
  do {
    for (int round = 0; round < 3; ++round) {
      std::array<Tick, 4> when{};
      for (Tick& ticks : when) ticks = random.below(round == 0 ? 5 : 66);
      std::sort(when.begin(), when.end());
      const Tick start = random.next() >> (4 + random.below(40));
      Crowd crowd(start, GetParam(), random);
      for (std::size_t step = 0; step < kinds.size(); ++step) {
        ASSERT_NO_FATAL_FAILURE(crowd.apply({kinds[step], when[step]})) << "start " << start;
      }
      ASSERT_NO_FATAL_FAILURE(crowd.finish()) << "start " << start;
      if (crowd.half_done()) ++half_done;
    }
  } while (std::next_permutation(kinds.begin(), kinds.end()));
  EXPECT_GT(half_done, 20) << "the changes must come in the middle of the work";
}

INSTANTIATE_TEST_SUITE_P(LevelsAndOverflow, TimingWheelTM12, testing::Values(2U, 3U, 4U, 5U));

}  // namespace
}  // namespace pinion::test

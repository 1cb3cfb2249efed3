#include "wheel_model.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "start_ticks.h"

namespace pinion::test {
namespace {

/// Runs until `operations` are done, each part of it on a wheel of its own that begins at one of
/// the interesting ticks or at a random one: every one of them gets its part.
template <class Port>
void run_model(std::uint64_t operations, std::size_t population, std::uint64_t seed) {
  Random choices(seed);
  const std::vector<Tick> starts = start_ticks();
  const std::uint64_t most = std::min<std::uint64_t>(2000, operations / (starts.size() + 4));
  std::uint64_t done = 0;
  std::uint64_t fired = 0;
  for (std::uint64_t part = 0; done < operations; ++part) {
    const std::size_t at = part % (starts.size() + 4);
    const Tick start = at < starts.size() ? starts[at] : choices.next() >> choices.below(64);
    WheelModel<Port, Random> model(start, population, choices);
    while (model.operations() < most) {
      ASSERT_TRUE(model.step()) << model.failure() << ", start " << start << ", operation "
                                << done + model.operations();
    }
    done += model.operations();
    fired += model.fired();
  }
  EXPECT_GT(fired, operations / 100);
}

// TM1: random operations against an ordered multimap: none early, none lost, none twice.
TEST(TimingWheelTM1, FiresTheSameEntriesInTheSameAdvanceAsAMultimap) {
  run_model<CorePort>(scaled(200'000), 40, seed());
}

// TM1: random operations against an ordered multimap: none early, none lost, none twice.
TEST(TimingWheelTM1, FiresTheSameEntriesWithFewAndWithManyLive) {
  run_model<CorePort>(scaled(20'000), 2, seed() + 1);
  run_model<CorePort>(scaled(20'000), 400, seed() + 2);
}

// TM1: random operations against an ordered multimap: none early, none lost, none twice.
// TM18: tick sizes from 1 us to 1 s, and one that does not divide a second.
TEST(TimingWheelTM1, FiresTheSameEntriesOnEveryTickSize) {
  run_model<InstantPort<1'000>>(scaled(10'000), 40, seed() + 3);
  run_model<InstantPort<100'000>>(scaled(10'000), 40, seed() + 4);
  run_model<InstantPort<1'000'000>>(scaled(10'000), 40, seed() + 5);
  run_model<InstantPort<7'000'003>>(scaled(10'000), 40, seed() + 6);
  run_model<InstantPort<1'000'000'000>>(scaled(10'000), 40, seed() + 7);
}

}  // namespace
}  // namespace pinion::test

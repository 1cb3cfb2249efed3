#pragma once

#include <cstdint>

namespace pinion::test {

/// The seed of this test run: PINION_SEED from the environment (decimal or 0x…), otherwise drawn
/// once per process. A failing test prints it, so that `PINION_SEED=… program --gtest_filter=…`
/// replays the run.
[[nodiscard]] std::uint64_t seed();

/// How many steps a random test takes: `base` times PINION_TEST_SCALE (default 1). Campaigns raise
/// it.
[[nodiscard]] std::uint64_t scaled(std::uint64_t base);

}  // namespace pinion::test

#pragma once

#include <cstdint>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/timers/timer_entry.h>

namespace pinion::test {

/// Where a wheel's time may begin: 0, around every power of 64, around the powers of two where
/// narrower types wrap, near the end of time, and, given a seed, at random.
inline std::vector<Tick> start_ticks(std::uint64_t seed = 0) {
  std::vector<Tick> ticks{0, 1, 2, 64};
  for (unsigned power = 1; power <= 10; ++power) {
    const Tick boundary = Tick{1} << (6 * power);
    if (power != 1) ticks.push_back(boundary);
    ticks.insert(ticks.end(), {boundary - 1, boundary + 1, boundary + 63});
  }
  for (const unsigned bits : {30U, 32U, 36U, 63U}) ticks.push_back((Tick{1} << bits) - 1000);
  ticks.insert(ticks.end(), {kNeverTick - (Tick{1} << 31), kNeverTick - 5000, kNeverTick - 1});
  if (seed == 0) return ticks;
  Random random(seed);
  for (const unsigned bits : {16U, 28U, 40U, 52U, 62U})
    ticks.push_back(random.next() >> (64 - bits));
  return ticks;
}

}  // namespace pinion::test

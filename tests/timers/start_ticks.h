#pragma once

#include <vector>

#include <pinion/timers/timer_entry.h>

namespace pinion::test {

/// Where a wheel's time may begin: 0, around every power of 64, around the powers of two where
/// narrower types wrap, and near the end of time.
inline std::vector<Tick> start_ticks() {
  std::vector<Tick> ticks{0, 1, 63};
  for (unsigned power = 1; power <= 10; ++power) {
    const Tick boundary = Tick{1} << (6 * power);
    ticks.insert(ticks.end(), {boundary - 1, boundary, boundary + 1, boundary + 63});
  }
  for (const unsigned bits : {30U, 32U, 36U, 63U}) ticks.push_back((Tick{1} << bits) - 1000);
  ticks.insert(ticks.end(), {kNeverTick - (Tick{1} << 31), kNeverTick - 5000, kNeverTick - 1});
  return ticks;
}

}  // namespace pinion::test

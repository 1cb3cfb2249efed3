#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/timers/timer_entry.h>
#include <pinion/timers/wheel_core.h>

namespace pinion::test {

/// An entry that notes when it fired, in the wheel's own time.
struct Probe : TimerEntry {
  explicit Probe(const WheelCore& its_wheel) : TimerEntry(&Probe::on_fire), wheel(&its_wheel) {}

  static void on_fire(TimerEntry& entry) {
    auto& probe = static_cast<Probe&>(entry);
    probe.fired_at = probe.wheel->now();
    ++probe.fired;
  }

  const WheelCore* wheel;
  Tick wanted = 0;  ///< What the test armed it with.
  Tick fired_at = 0;
  std::size_t fired = 0;
};

inline std::deque<Probe> make_probes(const WheelCore& wheel, std::size_t count) {
  std::deque<Probe> probes;
  for (std::size_t made = 0; made < count; ++made) probes.emplace_back(wheel);
  return probes;
}

/// `tick` + `more`, or the last tick of all.
inline Tick saturated(Tick tick, Tick more) {
  return more > kNeverTick - 1 - tick ? kNeverTick - 1 : tick + more;
}

/// 1 to 2^bits, as likely small as large.
template <class Choices>
Tick any_magnitude(Choices& choices, unsigned bits) {
  const Tick power = Tick{1} << choices.below(bits);
  return power + choices.below(power);
}

}  // namespace pinion::test

#include "timer_workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <pinion/lib/random.h>

namespace pinion::bench {
namespace {

constexpr double kTwelveDays = 12.0 * 24 * 3600 * 1000;

std::vector<std::uint32_t> permutation(std::size_t count, Random& random) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

std::uint32_t draw_delay(Distribution distribution, Random& random) {
  if (distribution != Distribution::log_uniform_12d) {
    return 1 + static_cast<std::uint32_t>(random.below(kDrainTicks));
  }
  return static_cast<std::uint32_t>(std::exp(random.real01() * std::log(kTwelveDays)));
}

}  // namespace

std::string to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform_60s:
      return "uniform_60s";
    case Distribution::log_uniform_12d:
      return "log_uniform_12d";
    case Distribution::boundary_60s:
      break;
  }
  return "boundary_60s";
}

Workload::Workload(Distribution distribution, std::size_t live_count, std::uint64_t seed)
    : live(live_count),
      spare(std::max<std::size_t>(live_count / 4, 1)),
      start(distribution == Distribution::boundary_60s ? kBoundaryStart : kStart) {
  Random random(seed);
  order = permutation(live + spare, random);
  delays.resize(order.size());
  for (std::uint32_t& delay : delays) delay = draw_delay(distribution, random);
}

ExtendWorkload::ExtendWorkload(std::size_t live_count, std::uint64_t seed)
    : live(live_count), period(std::max<Tick>(10'000, live_count * 10 / kPerTick)) {
  Random random(seed);
  order = permutation(live, random);
  const double mean_age = static_cast<double>(live) / kPerTick;
  delays.resize(live);
  for (std::uint32_t& delay : delays) {
    const auto age = static_cast<Tick>(-mean_age * std::log(1 - random.real01()));
    delay = static_cast<std::uint32_t>(period - std::min(age, period - 1));
  }
  draws.resize(std::size_t{1} << 22);
  for (std::uint32_t& draw : draws) draw = static_cast<std::uint32_t>(random.below(live));
}

}  // namespace pinion::bench

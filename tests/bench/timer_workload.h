#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "peers/subject.h"

/// What the timer bench does, drawn in advance: every subject and every run gets the same.

namespace pinion::bench {

/// boundary_60s is uniform_60s begun 30 s before a multiple of 64^5 ticks, where every level of a
/// wheel turns over at once.
enum class Distribution { uniform_60s, log_uniform_12d, boundary_60s };

std::string to_string(Distribution distribution);

/// Where time begins, but for boundary_60s: early in a range of the third level and of the fifth,
/// so that no boundary of these falls into a run. That favours the plain wheel, whose placement by
/// XOR stalls there.
inline constexpr Tick kStart = (Tick{7} << 30) + (Tick{100} << 18) + 12'345;

inline constexpr Tick kDrainTicks = 60'000;
inline constexpr Tick kBoundaryStart = (Tick{7} << 30) - kDrainTicks / 2;

/// The live timers of a case and a quarter more, which insert and cancel work with.
struct Workload {
  Workload(Distribution distribution, std::size_t live, std::uint64_t seed);

  std::size_t live;
  std::size_t spare;
  Tick start;
  std::vector<std::uint32_t> order;   ///< of arming: a permutation of all entries
  std::vector<std::uint32_t> delays;  ///< in ticks, by position in `order`
};

/// A population that is extended once per microsecond, each time a random one, to T from then.
struct ExtendWorkload {
  ExtendWorkload(std::size_t live, std::uint64_t seed);

  static constexpr std::size_t kPerTick = 1'000;

  std::size_t live;
  Tick period;                        ///< T: 10 s, or what gives each timer ten extends per T
  std::vector<std::uint32_t> order;   ///< of arming
  std::vector<std::uint32_t> delays;  ///< as if extends had gone on for ever before
  std::vector<std::uint32_t> draws;   ///< which entries; a power of two of them, used in a circle
};

}  // namespace pinion::bench

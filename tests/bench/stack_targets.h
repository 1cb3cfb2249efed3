#pragma once

#include <cstddef>
#include <vector>

#include "support/report.h"
#include "support/targets.h"

/// What the stack promises for an operation: instructions beside lwIP's, instructions that don't
/// depend on how many connections there are, and a time that depends on it by cache misses alone.

namespace pinion::bench {

inline constexpr const char* kMemoryCase = "memory";

/// Metrics of an operation: its time, and its instructions, in bursts; its instructions in bursts
/// of one; the cache lines that an operation has to fetch when nothing of its connection is cached.
/// And of memory: the time of a cache miss.
inline constexpr const char* kStackNs = "ns";
inline constexpr const char* kStackInstructions = "instructions";
inline constexpr const char* kStackInstructionsAlone = "instructions_alone";
inline constexpr const char* kStackLines = "lines";
inline constexpr const char* kMemoryMiss = "miss";

inline constexpr std::size_t kOneConnection = 1;
inline constexpr std::size_t kWarmConnections = 1'000;
inline constexpr std::size_t kManyConnections = 10'000;
inline constexpr std::size_t kColdConnections = 50'000;  ///< What the lines are counted with.
inline constexpr std::size_t kMillionConnections = 1'000'000;

std::vector<TargetOutcome> check_stack_targets(const Report& report);

}  // namespace pinion::bench

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "echo_subjects.h"

/// The cases of the submission bench, by name, and the modes as its subjects.

namespace pinion::bench {

struct SubmissionLoad {
  std::string name;
  double rate = 0;                   ///< requests a second, at random moments; 0: a closed loop
  std::chrono::milliseconds off{0};  ///< after as long at that rate; 0: always that rate
  double quiet_rate = 0;             ///< meanwhile
};

inline constexpr std::size_t kSubmissionConnections = 64;
inline constexpr std::size_t kSubmissionSize = 64;

inline std::vector<SubmissionLoad> submission_loads() {
  using namespace std::chrono_literals;
  return {{.name = "steady_closed"},
          {.name = "steady_40k", .rate = 40'000},
          {.name = "bursty_80k", .rate = 80'000, .off = 100ms},
          {.name = "mixed_80k_5k", .rate = 80'000, .off = 100ms, .quiet_rate = 5'000}};
}

/// One request on one connection after a second in which the server had nothing to do.
inline const std::string kSubmissionIdleCase = "first_after_idle";

/// No server: turns of a few hundred nanoseconds that queue an operation each.
inline const std::string kShortTurnsCase = "short_turns";

/// Two fixed modes and the one that has to keep up with the better of them. All servers sleep at
/// once when they have nothing to do, so that no time goes into spinning.
inline std::vector<EchoSubject> submission_subjects() {
  std::vector<EchoSubject> subjects;
  for (const auto& [name, mode] :
       {std::pair{"pinion_low_latency", "low-latency"},
        std::pair{"pinion_throughput", "throughput"}, std::pair{"pinion_adaptive", "adaptive"}}) {
    subjects.push_back({name, "echo_server_pinion", "park", true, {}, mode});
  }
  return subjects;
}

}  // namespace pinion::bench

#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// The cases of the echo bench, by name.

namespace pinion::bench {

struct ClosedCase {
  std::string name;
  std::size_t connections = 0;
  std::size_t size = 0;  ///< bytes of a request
};

inline std::vector<ClosedCase> closed_cases() {
  std::vector<ClosedCase> cases;
  for (const std::size_t connections : {1U, 64U, 1'000U, 10'000U}) {
    const std::string prefix = "closed_" + std::to_string(connections);
    cases.push_back({prefix + "_64B", connections, 64});
    cases.push_back({prefix + "_1KiB", connections, 1'024});
  }
  return cases;
}

inline const std::string kOpenCase = "open_40k_64B";
inline constexpr std::size_t kOpenConnections = 64;
inline constexpr std::size_t kOpenSize = 64;
inline constexpr double kOpenRate = 40'000;

/// One request on one connection after a second in which the server had nothing to do.
inline const std::string kIdleCase = "first_after_idle";
inline constexpr std::size_t kIdleConnections = 1;

}  // namespace pinion::bench

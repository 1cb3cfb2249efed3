#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// Checks of what a program will need, made before it starts anything. Each throws ProgramError
/// (program.h) with a remedy.

namespace pinion::apps {

/// Makes sure that `connections` sockets can be open beside what the process and its lcores need.
/// Raises the soft limit of descriptors as far as the hard one allows, so that only a hard limit
/// that is too low is an error. `options` are the settings whose sum it is: "--max-connections".
void require_descriptors(std::uint64_t connections, std::size_t lcores, std::string_view options);

/// Which CPUs a program takes by itself. A server and a load generator on one host start from
/// different ends, so that they don't share a CPU without need.
enum class CpuOrder : std::uint8_t { from_first, from_last };

/// A CPU for each of `lcores`, which may be more than there are: those of `cpus` in turn, or, when
/// that is empty, of all that this process may use.
[[nodiscard]] std::vector<unsigned> choose_shared_cpus(unsigned lcores, std::vector<unsigned> cpus);

/// A CPU for each of `lcores`: those of `cpus`, or, when that is empty, CPUs that this process may
/// use.
[[nodiscard]] std::vector<unsigned> choose_cpus(unsigned lcores, const std::vector<unsigned>& cpus,
                                                CpuOrder order);

}  // namespace pinion::apps

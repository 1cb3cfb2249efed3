#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/lib/result.h>
#include <pinion/net/dpdk_eal.h>

/// What EAL is told, from what Pinion was told. Nothing here touches DPDK or the machine.

namespace pinion::detail {

/// Refuses less and more than DpdkMemory allows.
[[nodiscard]] Result<> check_memory(const DpdkMemory& memory);

/// Refuses EAL arguments by which a user would contradict what eal_arguments() decides.
[[nodiscard]] Result<> check_eal_arguments(std::span<const std::string> arguments);

/// The command line. `cpus` are those of the thread that becomes EAL's only lcore, `prefix` is a
/// name that no other process uses.
[[nodiscard]] std::vector<std::string> eal_arguments(const DpdkOptions& options, bool hugepages,
                                                     std::span<const unsigned> cpus,
                                                     std::string_view prefix);

}  // namespace pinion::detail

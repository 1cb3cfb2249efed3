#include "dpdk_arguments.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pinion::detail {
namespace {

struct Decided {
  std::string_view argument;
  const char* hint;
};

constexpr const char* kMemory = "DpdkOptions::memory, --memory=SIZE";
constexpr const char* kLcores = "lcores are the program's; leave it out";
constexpr const char* kProcess = "each process has its own DPDK; leave it out";

constexpr std::array<Decided, 22> kDecided = {{
    {"-m", kMemory},
    {"--socket-mem", kMemory},
    {"--socket-limit", kMemory},
    {"--no-huge", kMemory},
    {"--in-memory", kMemory},
    {"--huge-dir", kMemory},
    {"--huge-unlink", kMemory},
    {"--legacy-mem", kMemory},
    {"--single-file-segments", kMemory},
    {"-c", kLcores},
    {"-l", kLcores},
    {"-s", kLcores},
    {"-S", kLcores},
    {"--lcores", kLcores},
    {"--main-lcore", kLcores},
    {"--no-shconf", kProcess},
    {"--file-prefix", kProcess},
    {"--proc-type", kProcess},
    {"--base-virtaddr", kProcess},
    {"--no-telemetry", "DpdkOptions::telemetry; leave it out"},
    {"--telemetry", "DpdkOptions::telemetry; leave it out"},
    {"--syslog", "what DPDK says goes to the log; leave it out"},
}};

/// A long option may be cut as short as it likes, and has its value behind '='. A short one may
/// stand behind others that have no value, of which EAL knows these two.
bool stands_for(std::string_view given, std::string_view argument) noexcept {
  if (argument.starts_with("--")) {
    const std::string_view name = given.substr(0, given.find('='));
    return name.size() > 2 && argument.starts_with(name);
  }
  if (!given.starts_with('-') || given.starts_with("--")) return false;
  constexpr std::string_view kWithoutValue = "hv";
  const std::size_t letter = given.find_first_not_of(kWithoutValue, 1);
  return letter != std::string_view::npos && given[letter] == argument[1];
}

}  // namespace

Result<> check_eal_arguments(std::span<const std::string> arguments) {
  for (const std::string& given : arguments) {
    const auto* const decided = std::ranges::find_if(
        kDecided, [&](const Decided& one) { return stands_for(given, one.argument); });
    if (decided == kDecided.end()) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("EAL's argument '{}' is not for users: Pinion sets {} itself", given,
                            decided->argument),
                decided->hint);
  }
  return {};
}

std::vector<std::string> eal_arguments(const DpdkOptions& options, bool hugepages,
                                       std::span<const unsigned> cpus, std::string_view prefix) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::vector<std::string> arguments = {
      "pinion",
      // One lcore, on all CPUs that the thread may use: the loops' threads are ours.
      fmt::format("--lcores=0@({})", fmt::join(cpus, ",")),
      // No kind of port needs it, and probing would take every NIC that the kernel has let go of.
      "--no-pci",
      // Physical addresses are for devices that reach memory by themselves without an IOMMU.
      "--iova-mode=va",
      fmt::format("--file-prefix={}", prefix),
      "-m",
      fmt::format("{}", (options.memory.bytes + kMiB - 1) / kMiB),
  };
  if (hugepages) {
    // Without files, so that a killed process leaves none; by itself it would open one descriptor
    // for each page.
    arguments.insert(arguments.end(), {"--in-memory", "--single-file-segments"});
  } else {
    // 22.11 refuses --in-memory with --no-huge.
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf"});
  }
  if (!options.telemetry) arguments.emplace_back("--no-telemetry");
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

}  // namespace pinion::detail

#include "preflight.h"

#include <cerrno>

#include <fmt/format.h>
#include <pinion/eventloop/runtime.h>
#include <sched.h>
#include <sys/resource.h>

#include "program.h"

namespace pinion::apps {
namespace {

/// The standard streams, and per lcore a ring, a doorbell and a listener, with room to spare.
constexpr std::uint64_t kOwnDescriptors = 64;

std::size_t allowed_cpu_count() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&cpus));
}

}  // namespace

void require_descriptors(std::uint64_t connections, const std::string& option) {
  const std::uint64_t needed = connections + kOwnDescriptors;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw ProgramError(errno_error(errno, "can't read the limit of file descriptors"), kExitFailed);
  }
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    std::string fix = fmt::format("ulimit -n {}", needed);
    if (limit.rlim_max > kOwnDescriptors) {
      fix += fmt::format(", or {} {}", option, limit.rlim_max - kOwnDescriptors);
    }
    throw ProgramError(
        Error{.code = ErrorCode::resource_exhausted,
              .what = fmt::format("{} {} needs {} file descriptors, this process may have {}",
                                  option, connections, needed, limit.rlim_max),
              .hint = std::move(fix)},
        kExitFailed);
  }
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw ProgramError(errno_error(errno, "can't raise the limit of file descriptors",
                                   fmt::format("ulimit -n {}", needed)),
                       kExitFailed);
  }
}

std::vector<unsigned> choose_cpus(unsigned lcores, const std::vector<unsigned>& cpus,
                                  CpuOrder order) {
  if (cpus.empty()) {
    std::vector<unsigned> chosen = must(first_cpus(lcores));
    if (order == CpuOrder::from_first) return chosen;
    const std::vector<unsigned> all = must(first_cpus(allowed_cpu_count()));
    return {all.end() - lcores, all.end()};
  }
  if (cpus.size() != lcores) {
    throw_usage_error(
        fmt::format("{} lcores need {} CPUs, --cpus names {}", lcores, lcores, cpus.size()),
        cpus.size() <= allowed_cpu_count() ? fmt::format("--lcores {}", cpus.size())
                                           : "--cpus LIST, with one CPU for each lcore");
  }
  return cpus;
}

}  // namespace pinion::apps

#include "preflight.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <pinion/eventloop/runtime.h>
#include <sched.h>
#include <sys/resource.h>

#include "program.h"

namespace pinion::apps {
namespace {

/// The standard streams and the library's own, and per lcore a ring, a doorbell and a listener,
/// with room to spare.
constexpr std::uint64_t own_descriptors(std::size_t lcores) {
  return 32 + std::uint64_t{4} * lcores;
}

std::size_t allowed_cpu_count() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&cpus));
}

}  // namespace

void require_descriptors(std::uint64_t connections, std::size_t lcores, std::string_view options) {
  const std::uint64_t own = own_descriptors(lcores);
  const std::uint64_t needed = connections + own;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw ProgramError(errno_error(errno, "can't read the limit of file descriptors"), kExitFailed);
  }
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    std::string fix = fmt::format(
        "a higher hard limit (as root: ulimit -n {0}; docker --ulimit nofile={0}; systemd "
        "LimitNOFILE={0})",
        needed);
    if (limit.rlim_max > own) {
      fix += fmt::format(", or at most {} with {}", limit.rlim_max - own, options);
    }
    throw ProgramError(
        Error{.code = ErrorCode::resource_exhausted,
              .what = fmt::format("{} connections ({}) need {} file descriptors, this process may "
                                  "have {}",
                                  connections, options, needed, limit.rlim_max),
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

std::vector<unsigned> choose_shared_cpus(unsigned lcores, std::vector<unsigned> cpus) {
  if (cpus.empty()) cpus = must(first_cpus(std::min<std::size_t>(allowed_cpu_count(), lcores)));
  const std::size_t different = cpus.size();
  if (different > lcores) {
    throw_usage_error(fmt::format("--cpus names {} for {} lcores", different, lcores),
                      fmt::format("--lcores {}, or more", different));
  }
  for (std::size_t i = different; i < lcores; ++i) cpus.push_back(cpus[i % different]);
  return cpus;
}

std::vector<unsigned> choose_cpus(unsigned lcores, const std::vector<unsigned>& cpus,
                                  CpuOrder order) {
  if (cpus.empty()) {
    std::vector<unsigned> chosen = must(first_cpus(lcores));
    if (order == CpuOrder::from_first) return chosen;
    const std::vector<unsigned> all =
        must(first_cpus(std::max<std::size_t>(allowed_cpu_count(), lcores)));
    return {all.end() - lcores, all.end()};
  }
  if (cpus.size() != lcores) {
    throw_usage_error(
        fmt::format("--lcores {} needs as many CPUs, --cpus names {}", lcores, cpus.size()),
        "--cpus LIST with one CPU for each lcore, or leave --lcores out");
  }
  return cpus;
}

}  // namespace pinion::apps

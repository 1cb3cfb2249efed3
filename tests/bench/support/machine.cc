#include "support/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace pinion::bench {
namespace {

/// The value of the first line "key : value" of /proc/cpuinfo whose key starts with `key`.
std::string cpu_info(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string transparent_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

Machine describe_machine(int pinned_cpu) {
  Machine machine;
  machine.cpu = cpu_info("model name");
  if (machine.cpu.empty()) machine.cpu = "unknown";
  machine.cpu += fmt::format(" family {} model {}", cpu_info("cpu family"), cpu_info("model\t"));
  machine.cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.virtualised = cpu_info("flags").find(" hypervisor") != std::string::npos;
  utsname names{};
  if (uname(&names) == 0) machine.kernel = names.release;
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#else
  machine.compiler = "gcc " __VERSION__;
#endif
  machine.huge_pages = transparent_huge_pages();
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  machine.memory_gib = pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024 * 1024);
  machine.pinned_cpu = pinned_cpu;
  if (getloadavg(&machine.load, 1) != 1) machine.load = -1;
  return machine;
}

std::string to_string(const Machine& machine) {
  return fmt::format(
      "{}, {} cpus{}, {:.0f} GiB, Linux {}, {}, huge pages {}, on cpu {}, load {:.1f}", machine.cpu,
      machine.cpus, machine.virtualised ? " (virtual)" : "", machine.memory_gib, machine.kernel,
      machine.compiler, machine.huge_pages, machine.pinned_cpu, machine.load);
}

int pin_to_cpu(int cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  for (int i = CPU_SETSIZE - 1; cpu < 0 && i >= 0; --i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &allowed)) cpu = i;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0 ? cpu : -1;
}

TwoCpus choose_two_cpus(int wanted) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &allowed)) cpus.push_back(i);
  }
  const int server = wanted >= 0 ? wanted : cpus.back();
  const auto load = std::ranges::find_if(cpus, [server](int cpu) { return cpu != server; });
  if (std::ranges::find(cpus, server) == cpus.end()) {
    return {
        .error = fmt::format(
            "error: can't run on cpu {}\nfix: --cpu with one that `taskset -p $$` shows", server)};
  }
  if (load == cpus.end()) {
    return {.error =
                "error: one cpu, and two are needed: the server's and the load's\n"
                "fix: taskset -c 0,1"};
  }
  return {.server = server, .load = *load, .error = {}};
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace pinion::bench

#pragma once

#include <cstddef>
#include <string>

/// Where a figure was taken: without it, it means nothing.

namespace pinion::bench {

struct Machine {
  std::string cpu;
  int cpus = 0;
  bool virtualised = false;
  std::string kernel;
  std::string compiler;
  std::string huge_pages;  ///< /sys/kernel/mm/transparent_hugepage/enabled, the chosen word
  double memory_gib = 0;
  int pinned_cpu = -1;
  double load = 0;  ///< one-minute load average at the start: a busy machine spoils worst cases
};

Machine describe_machine(int pinned_cpu);

/// One line for the head of a table.
std::string to_string(const Machine& machine);

/// Ties the calling thread to one cpu; -1 takes the last one it may use. Returns the cpu, or -1
/// when the kernel refuses.
int pin_to_cpu(int cpu);

/// Where a server runs, and where its load.
struct TwoCpus {
  int server = -1;
  int load = -1;
  std::string error;  ///< empty: good. Otherwise "error: …\nfix: …"; the program exits with 2.
};

/// The server's is `wanted`, or with -1 the last one allowed; the load's another one.
TwoCpus choose_two_cpus(int wanted);

/// Raises this process's descriptor limit as far as it may, and returns it.
std::size_t raise_descriptor_limit();

}  // namespace pinion::bench

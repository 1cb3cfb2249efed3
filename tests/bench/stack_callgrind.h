#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "stack_run.h"

/// What an operation of a stack costs, counted: callgrind runs the program stack_count, which lies
/// beside the calling one.
///
/// Ownership:  makes a file of the system's folder for temporary ones, and removes it.
/// Threading:  one thread, which waits for the program.
/// Cost:       seconds, for many connections a minute: fifty times what the program takes alone.
/// Errors:     no valgrind, or a program that fails: none, after a message. The counts don't depend
///             on the machine's load.

namespace pinion::bench {

struct StackCountRequest {
  std::string subject;
  StackCase what = StackCase::request;
  std::size_t connections = 1;
  std::size_t burst = 1;
  std::size_t operations = 1;
  std::uint64_t seed = 1;
  bool lines = false;  ///< Simulates caches, too, which takes twice as long.
};

/// For one operation.
struct StackCounts {
  double instructions = 0;
  double lines = 0;  ///< Fetched from memory, whose cache of 512 KiB holds few connections.
};

std::optional<StackCounts> count_stack(const StackCountRequest& request);

/// What callgrind has written: the totals for `operations`. None for anything else.
std::optional<StackCounts> read_callgrind(const std::string& text, std::size_t operations);

}  // namespace pinion::bench

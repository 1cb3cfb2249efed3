#pragma once

#include <string>

/// A loop whose turns are short and queue an operation each.

namespace pinion::bench {

struct TurnFigures {
  std::string error;  ///< empty: all operations ended
  double cpu_ns = 0;  ///< of the loop's thread, for an operation
};

/// Runs a loop in `mode` on a thread of its own on `cpu`: one task queues an operation that does
/// nothing in each turn. Blocks until they have ended.
TurnFigures run_short_turns_in(const std::string& mode, int cpu);

}  // namespace pinion::bench

#pragma once

/// What runs on a loop's thread, for the report of an overlong turn.
///
/// Ownership: plain values. Threading: the loop's thread and its signal handlers. Cost: three
/// stores for each thing that runs.

namespace pinion {

struct Running {
  const char* kind = "nothing";  ///< "task", "completion", "message", "timers", or a poller's name.
  const char* name = nullptr;    ///< The name given to spawn(), if any.
  const void* code = nullptr;    ///< The address of its code, for addr2line.
};

}  // namespace pinion

#pragma once

#include <atomic>

/// What runs on a loop's thread, for the report of an overlong turn and of a loop that hangs.
///
/// Ownership: plain values. What they point to is never freed: literals and code. Threading: noted
/// on the loop's thread; any may look. Cost: three stores for each thing that runs.

namespace pinion {

struct Running {
  /// "task", "completion", "message", "timers", a poller's name, or "idle pollers".
  const char* kind = "nothing";
  const char* name = nullptr;  ///< The name given to spawn(), if any.
  const void* code = nullptr;  ///< The address of its code, for addr2line.

  friend bool operator==(const Running&, const Running&) noexcept = default;
};

/// Where a loop notes it. Who looks from another thread may find parts of two that followed each
/// other: the order costs nothing, and a loop that hangs stands still.
class RunningNow {
 public:
  void note(const char* kind, const char* name, const void* code) noexcept {
    kind_.store(kind, std::memory_order_relaxed);
    name_.store(name, std::memory_order_relaxed);
    code_.store(code, std::memory_order_relaxed);
  }
  void note(const Running& running) noexcept { note(running.kind, running.name, running.code); }
  [[nodiscard]] Running look() const noexcept {
    return {kind_.load(std::memory_order_relaxed), name_.load(std::memory_order_relaxed),
            code_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<const char*> kind_{"nothing"};
  std::atomic<const char*> name_{nullptr};
  std::atomic<const void*> code_{nullptr};
};

}  // namespace pinion

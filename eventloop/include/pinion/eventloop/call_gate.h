#pragma once

#include <atomic>
#include <cstdint>

/// Who may still call a loop (call.h): everybody, until the loop's run ends.
///
/// What has come in before the loop closed the gate is in its mailbox when close() returns: so the
/// loop can answer it, and whoever comes later knows at once that nobody would.
///
/// Ownership:  the loop's. Threading: enter() and leave() from any thread, the rest on the loop's.
/// Cost:       a locked instruction each to enter and to leave, one more to be turned away. close()
///             waits for those who are inside: the time of a post.

namespace pinion::detail {

class CallGate {
 public:
  /// False when the gate is closed. Otherwise post, then leave().
  [[nodiscard]] bool enter() noexcept {
    if ((word_.fetch_add(kOne, std::memory_order_seq_cst) & kClosed) == 0) return true;
    leave();
    return false;
  }
  void leave() noexcept { word_.fetch_sub(kOne, std::memory_order_release); }

  void open() noexcept { word_.fetch_and(~kClosed, std::memory_order_seq_cst); }

  /// From now on enter() says no. Waits for those who are inside with `wait_a_moment`.
  template <class Wait>
  void close(Wait wait_a_moment) noexcept {
    word_.fetch_or(kClosed, std::memory_order_seq_cst);
    while (word_.load(std::memory_order_acquire) >= kOne) wait_a_moment();
  }
  [[nodiscard]] bool closed() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kClosed) != 0;
  }

 private:
  static constexpr std::uint32_t kClosed = 1;
  static constexpr std::uint32_t kOne = 2;  // One who is inside.

  std::atomic<std::uint32_t> word_{0};
};

}  // namespace pinion::detail

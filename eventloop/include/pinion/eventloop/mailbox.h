#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pinion/eventloop/message.h>
#include <pinion/lib/mpsc_queue.h>

/// The messages for one loop, and the agreement about who wakes whom.
///
/// Before it sleeps, the loop announces it and then looks once more for work; a sender first leaves
/// its message and then looks whether the loop has announced. Both sides write before they read, in
/// one total order, so at least one of them sees the other: the loop stays awake or the sender
/// rings. The sender that turns `asleep` into `rung` rings, so there is one doorbell per sleep.
///
/// Ownership:  messages belong to their senders. Threading: push() and must_ring() from any thread,
///             the rest on the loop's. Cost: one exchange and one load per message.

namespace pinion {

class Mailbox {
 public:
  /// Leaves a message. Returns whether the caller must ring the doorbell.
  [[nodiscard]] bool push(Message& message) noexcept {
    queue_.push(message);
    return must_ring();
  }

  /// Whether the caller, who left something for the loop with a seq_cst write, must ring.
  [[nodiscard]] bool must_ring() noexcept {
    if (state_.load(std::memory_order_seq_cst) != State::asleep) return false;
    State expected = State::asleep;
    if (!state_.compare_exchange_strong(expected, State::rung, std::memory_order_seq_cst)) {
      return false;
    }
    doorbells_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  /// How often must_ring() has said yes.
  [[nodiscard]] std::uint64_t doorbells() const noexcept {
    return doorbells_.load(std::memory_order_relaxed);
  }

  /// The next message, or nullptr.
  [[nodiscard]] Message* pop() noexcept { return queue_.pop(); }

  /// False as soon as a push has begun that pop() has not yet given out.
  [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }

  /// From now on senders ring. Look for work afterwards, then sleep or call wake_up().
  void announce_sleep() noexcept { state_.exchange(State::asleep, std::memory_order_seq_cst); }

  /// From now on senders don't ring. Returns whether one has rung.
  bool wake_up() noexcept {
    return state_.exchange(State::awake, std::memory_order_seq_cst) == State::rung;
  }

 private:
  enum class State : std::uint32_t { awake, asleep, rung };

  alignas(64) std::atomic<State> state_{State::awake};
  std::atomic<std::uint64_t> doorbells_{0};
  alignas(64) MpscQueue<Message> queue_;
};

}  // namespace pinion

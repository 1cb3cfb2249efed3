#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/cycle_clock.h"
#include "support/machine.h"

/// One thread that takes messages from another: what the wake bench measures, and what each
/// subject is.
///
/// Ownership:  a channel owns its target thread and its messages. Arrivals outlive it.
/// Threading:  everything is called on the sender's thread but Arrivals::note().

namespace pinion::bench {

/// What the target tells the sender: how many messages it has taken, and when it took the last.
class Arrivals {
 public:
  /// On the target's thread, once for each message.
  void note() noexcept {
    cycles_.store(read_cycles(), std::memory_order_relaxed);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  /// When the last one arrived that count() has counted.
  [[nodiscard]] std::uint64_t cycles() const noexcept {
    return cycles_.load(std::memory_order_relaxed);
  }

 private:
  alignas(64) std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> cycles_{0};
};

/// What moving messages has cost so far. Read when the target has nothing to do.
struct WakeCounts {
  std::uint64_t sender_calls = 0;  ///< System calls in send().
  std::uint64_t target_calls = 0;  ///< System calls of the target to sleep, and to be woken again.
  std::uint64_t sleeps = 0;        ///< How often the target has announced that it sleeps.
};

class WakeChannel {
 public:
  /// The most messages that may be on the way at once.
  static constexpr std::size_t kWindow = 1024;

  virtual ~WakeChannel() = default;

  /// Sends as many messages, together where the subject can do that.
  virtual void send(std::size_t messages) = 0;

  /// Ends the target's thread; what it counted is known from then on.
  virtual WakeCounts end() = 0;
};

struct WakeSubject {
  std::string name;
  bool spins = false;  ///< Whether its target looks for messages without end, or sleeps.
  std::function<std::unique_ptr<WakeChannel>(Arrivals& arrivals, int target_cpu)> make;
};

/// Those of this build. The word for the case that a subject belongs to is its `spins`.
std::vector<WakeSubject> wake_subjects();

/// A thread on `cpu`. Its body has begun when this returns.
template <class Body>
std::thread start_on(int cpu, Body body) {
  std::atomic<bool> runs{false};
  std::thread thread([cpu, &runs, body = std::move(body)]() mutable {
    pin_to_cpu(cpu);
    runs.store(true);
    runs.notify_one();
    body();
  });
  runs.wait(false);
  return thread;
}

}  // namespace pinion::bench

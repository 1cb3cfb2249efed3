#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/lib/list.h>
#include <pinion/lib/time.h>

/// What a loop polls, and what takes part in its drain.
///
/// Ownership:  the caller owns both and removes them from the loop before they die.
/// Threading:  called on the loop's thread only.
/// Cost:       one virtual call per poller and turn.
/// Errors:     an exception that leaves one of these calls ends the process with a message.

namespace pinion {

/// How a poller's work can be waited for.
struct ParkAnswer {
  enum class Kind : std::uint8_t {
    elsewhere,   ///< Its work announces itself through completions, timers or messages.
    descriptor,  ///< A readable descriptor announces it. While it is in error, the same as doze.
    doze,        ///< Nothing announces it: sleep at most LoopOptions::doze_max.
    refuse,      ///< There is work already: don't sleep.
  };

  Kind kind = Kind::elsewhere;
  int fd = -1;

  [[nodiscard]] static constexpr ParkAnswer elsewhere() noexcept { return {}; }
  [[nodiscard]] static constexpr ParkAnswer wait_for(int fd) noexcept {
    return {Kind::descriptor, fd};
  }
  [[nodiscard]] static constexpr ParkAnswer doze() noexcept { return {Kind::doze, -1}; }
  [[nodiscard]] static constexpr ParkAnswer refuse() noexcept { return {Kind::refuse, -1}; }
};

/// A source of work that must be asked.
class Poller {
 public:
  Poller() = default;
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  virtual ~Poller() = default;

  /// Does at most `budget` units of work and returns how many it did; 0 means that it was idle.
  virtual std::size_t poll(Instant now, std::size_t budget) = 0;

  /// Before the loop sleeps: enable whatever announces work. The loop polls once more afterwards,
  /// and doesn't sleep past what either armed or queued.
  virtual ParkAnswer prepare_park() { return ParkAnswer::elsewhere(); }

  /// Once after every prepare_park(), whether the loop slept or not.
  virtual void cancel_park() {}

  /// The descriptor that was to announce work had an error, was hung up or closed instead. Called
  /// before the next prepare_park(): mend it if that can be done. The loop dozes for 100 ms before
  /// it waits for the same descriptor again.
  virtual void on_wait_error() {}

  /// The loop's run has ended in a Runtime, while others may go on: it turns no more but to die, or
  /// to handle messages. Hand over what others can do.
  virtual void on_run_ended() {}

  /// For statistics and for the report of an overlong turn: a literal.
  [[nodiscard]] virtual const char* name() const { return "poller"; }
};

/// Something that has to finish before the process may end: a transport with its connections.
class Drainable : public ListNode {
 public:
  Drainable() = default;
  virtual ~Drainable() = default;

  /// Stop accepting, let what lives finish. Called once, before on_drain_expired().
  virtual void on_drain() = 0;

  /// The time is over: reset what still lives.
  virtual void on_drain_expired() = 0;

  /// Whether nothing is left. The loop asks once per turn while it drains.
  [[nodiscard]] virtual bool drained() const = 0;
};

}  // namespace pinion

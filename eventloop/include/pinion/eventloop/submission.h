#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <pinion/lib/export.h>
#include <pinion/lib/histogram.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>

/// When a loop hands over to the kernel what its turns have queued.
///
/// Ownership:  plain values; the statistics belong to the loop. Threading: one loop.
/// Cost:       some comparisons at the end of a turn; no reading of the clock beyond those that
///             turns take anyway.
/// Errors:     options and variables out of range are refused, with what to write instead.
///
/// `low-latency` hands over at the end of each turn. `throughput` holds over turns what they queue
/// until it is a batch, or the oldest of it has waited for the longest wait, or for 64 turns. That
/// is seen at the ends of turns, so that it may be a turn more; while turns are longer than the
/// longest wait, nothing is held.
/// Nothing is held in any mode once the next turn has nothing to do, as far as is known: no
/// operation waits for company that may not come. Nor is anything held beside a cancellation, or
/// while a write or the end of a connection stands behind a chunk that was accepted before it;
/// other writes may be held. A doorbell takes along what is held. So does any call that enters the
/// kernel, such as one that fetches completions.
///
/// `adaptive` holds where a turn's work takes less time than two calls, so that calls would take a
/// third of the loop's time or more; and then for 32 times what a call takes at most. What a call
/// takes it knows from the turns whose phases are timed (one in 61): how long calls took for how
/// many operations, of which the part that doesn't depend on their number is the call's own (the
/// line of least squares, weight 1/16). What a turn works is the length of one at whose end
/// something was held (a moving average, weight 1/16). While nothing is, it tries that at the end
/// of one turn in 256, unless the timed ones, which read the clock in between, say that turns are
/// longer than any call. By a clock that moves in steps, such as the metronome, it is `low-latency`
/// in effect: a turn seems to take no time, which says nothing, or a step, which is longer than two
/// calls. Why and how it was measured: docs/decisions/submission-policy.md.

namespace pinion {

enum class SubmissionMode : std::uint8_t {
  low_latency,  ///< At the end of each turn.
  throughput,   ///< In batches, over several turns.
  adaptive,     ///< In batches where turns are hardly longer than calls.
};

/// "low-latency", "throughput", "adaptive".
[[nodiscard]] PINION_EXPORT std::string_view to_string(SubmissionMode mode) noexcept;

/// By the name that to_string gives; nothing for another text.
[[nodiscard]] PINION_EXPORT std::optional<SubmissionMode> parse_submission_mode(
    std::string_view text) noexcept;

/// The rules in effect.
struct SubmissionRules {
  static constexpr std::uint32_t kMostBatch = 32768;
  static constexpr Delay kLongestWait = std::chrono::seconds{1};

  SubmissionMode mode = SubmissionMode::adaptive;
  std::uint32_t batch = 32;                        ///< 1 to kMostBatch operations.
  Delay max_wait = std::chrono::microseconds{50};  ///< 0 to kLongestWait, by the turns' clock; the
                                                   ///< turn in which it passes comes on top.
};

/// What isn't set here is what the environment says, and otherwise the default of SubmissionRules.
struct SubmissionOptions {
  std::optional<SubmissionMode> mode = {};  ///< PINION_SUBMIT_MODE
  std::optional<std::uint32_t> batch = {};  ///< PINION_SUBMIT_BATCH
  std::optional<Delay> max_wait = {};       ///< PINION_SUBMIT_MAX_WAIT_US, microseconds

  /// Reads the environment, which no other thread may change meanwhile.
  [[nodiscard]] PINION_EXPORT Result<SubmissionRules> resolve() const;
};

struct SubmissionStats {
  SubmissionMode mode = SubmissionMode::adaptive;  ///< Now.
  std::uint64_t mode_changes = 0;
  std::uint64_t holds = 0;  ///< Turns that left operations for the next one to hand over.

  /// Nanoseconds that the oldest of what was held waited, from the beginning of the turn that
  /// queued it to that of the turn that handed it over.
  CoarseHistogram waits;
};

class SubmissionController {
 public:
  /// How a turn ends that did something, or found nothing to do.
  struct Turn {
    Instant now;                    ///< As it read the clock.
    unsigned queued = 0;            ///< Operations that wait to be handed over.
    std::uint64_t handed_over = 0;  ///< Operations that were, since the start.
    bool more = false;              ///< Whether the next turn is known to have something to do.
    bool urgent = false;            ///< Whether one of those that wait must not.
  };

  /// Nothing is held for longer, whatever the clock says, which may be one that stands.
  static constexpr std::uint32_t kMostTurns = 64;

  /// A turn counts as that long at most; at first it is believed to be.
  static constexpr std::int64_t kLongestWork = 1'000'000;
  static constexpr std::uint32_t kTurnsPerTry = 256;

  /// How many calls' time `adaptive` holds at most.
  static constexpr std::int64_t kCallsHeld = 32;

  /// What a call is taken to cost before it is known, and the bounds of what is believed.
  static constexpr std::chrono::nanoseconds kUsualCall{300};
  static constexpr std::chrono::nanoseconds kDearestCall{2000};

  SubmissionController(const SubmissionRules& rules, SubmissionStats& stats) noexcept
      : rules_(rules), first_mode_(rules.mode), stats_(stats) {
    stats_.mode = rules.mode;
  }

  /// Whether what waits at the end of this turn is left for the next one to hand over.
  [[nodiscard]] bool holds(const Turn& turn) noexcept {
    const bool held =
        holding_ ? goes_on(turn) : turn.more && (may_hold(turn) || tries(turn)) && begins(turn);
    last_ = turn.now;
    return held;
  }

  /// What is held is handed over after a turn that began at `now`, and none follows for a while.
  PINION_EXPORT void end(Instant now) noexcept;

  /// A turn worked for `work`; then a call that took `took` handed `count` operations over.
  PINION_EXPORT void learn(Delay work, unsigned count, Delay took) noexcept;

  /// From the end of this turn on.
  PINION_EXPORT void set_mode(SubmissionMode mode) noexcept;

  /// To the one that it was made with.
  void reset_mode() noexcept { set_mode(first_mode_); }

  /// What a call costs by itself, as far as is known.
  [[nodiscard]] PINION_EXPORT Delay call_cost() const noexcept;

 private:
  [[nodiscard]] bool may_hold(const Turn& turn) const noexcept {
    if (rules_.mode == SubmissionMode::low_latency || !turn.more || turn.urgent) return false;
    if (turn.queued == 0 || turn.queued >= rules_.batch) return false;
    return rules_.mode == SubmissionMode::throughput || work_ < 2 * call_;
  }
  /// To find out how long turns are.
  [[nodiscard]] bool tries(const Turn& turn) noexcept {
    if (timed_work_ >= kDearestCall.count() || rules_.mode != SubmissionMode::adaptive)
      return false;
    if (turn.urgent || turn.queued == 0 || turn.queued >= rules_.batch) return false;
    return ++turns_to_try_ % kTurnsPerTry == 0;
  }
  PINION_EXPORT bool begins(const Turn& turn) noexcept;
  PINION_EXPORT bool goes_on(const Turn& turn) noexcept;
  [[nodiscard]] Delay longest_wait() const noexcept;
  static void learn_work(std::int64_t& average, Delay work) noexcept;
  void learn_call(double count, double took) noexcept;

  SubmissionRules rules_;
  SubmissionMode first_mode_;
  SubmissionStats& stats_;

  // What is held.
  bool holding_ = false;
  std::uint32_t turns_held_ = 0;
  Instant oldest_;
  std::uint64_t handed_over_ = 0;
  Instant last_ = kNever;  // When the turn before this one began.

  // What was learnt, in nanoseconds.
  std::int64_t work_ = kLongestWork;        // Of a turn before it submits.
  std::int64_t timed_work_ = kLongestWork;  // The same, with the clock read after each phase.
  std::uint32_t turns_to_try_ = 0;          // Counts those in which it didn't.
  std::int64_t call_ = kUsualCall.count();
  bool knows_calls_ = false;
  double mean_count_ = 0;
  double mean_took_ = 0;
  double count_variance_ = 0;
  double covariance_ = 0;
};

}  // namespace pinion

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <pinion/eventloop/loop.h>

/// What a loop notes about its turns beside their number: what is rare, or done in few of them.

namespace pinion {

std::string_view to_string(Phase phase) noexcept {
  constexpr std::array<std::string_view, kPhaseCount> kNames = {
      "messages", "completions", "pollers", "tasks", "timers", "submit"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// How often this thread had to leave its CPU although it wanted to run.
std::uint64_t Loop::count_preemptions() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_nivcsw);
}

/// Somebody else had the CPU, or a poller that calls itself idle took long: the kernel knows.
void Loop::note_long_idle_turn(Delay elapsed) noexcept {
  const std::uint64_t before = std::exchange(preemptions_, count_preemptions());
  if (preemptions_ != before) {
    ++stats_.preempted_spins;
    if (idle_controller_.on_preemption(now_, elapsed)) ++stats_.spins_given_up;
    return;
  }
  if (elapsed > options_.overlong_turn) note_overlong_idle_turn(elapsed);
}

/// Pollers alone may have taken long in it. Which of several it was, nobody knows.
void Loop::note_overlong_idle_turn(Delay elapsed) noexcept {
  Running last;
  for (const PollerSlot& slot : pollers_) {
    if (slot.poller == nullptr) continue;
    if (++ran_ == 1) last = {slot.poller->name(), nullptr, slot.poller};
  }
  if (ran_ > 1) last = {"idle pollers", nullptr, nullptr};
  if (ran_ > 0) note_overlong_turn(elapsed, last);
}

void Loop::note_overlong_turn(Delay elapsed, const Running& last) noexcept {
  ++stats_.overlong_turns;
  if (elapsed > stats_.worst_turn) {
    stats_.worst_turn = elapsed;
    stats_.worst_turn_last = last;
    stats_.worst_turn_ran = ran_;
  }
  const bool task = last.kind != nullptr && std::string_view(last.kind) == "task";
  if (task && ran_last_ != nullptr) ++ran_last_->stats->overlong_turns;
  OverlongTurns* place = stats_.overlong_by_name.data();
  for (OverlongTurns& entry : stats_.overlong_by_name) {
    if (entry.count > 0 && entry.last == last) {
      ++entry.count;
      entry.worst = std::max(entry.worst, elapsed);
      return;
    }
    if (entry.worst < place->worst) place = &entry;
  }
  if (elapsed > place->worst) *place = {.last = last, .count = 1, .worst = elapsed};
}

void Loop::time_phase(Phase phase, std::size_t did) noexcept {
  const Instant read = fresh_now();
  if (did > 0) {
    const Delay took = saturating_sub(read, phase_began_);
    stats_.phases[static_cast<std::size_t>(phase)].record(static_cast<std::uint64_t>(took.count()));
  }
  phase_began_ = read;
}

/// The turn's last phase.
void Loop::submit() {
  const unsigned queued = ring_->queued();
  const bool timed = turns_to_timed_ == LoopStats::kTurnsPerTimed && queued > 0;
  if (!timed) [[likely]]
    return ring_->submit();
  const Instant worked_until = phase_began_ = fresh_now();
  ring_->submit();
  time_phase(Phase::submit, 1);
  submission_.learn(saturating_sub(worked_until, now_), queued,
                    saturating_sub(phase_began_, worked_until));
}

/// At the end of a run, after its last turn.
void Loop::submit_rest() {
  submission_.end(now_);
  ring_->submit();
}

/// Whether what the turn queued is left for the next one.
bool Loop::holds(bool more) noexcept {
  return submission_.holds({.now = now_,
                            .queued = ring_->queued(),
                            .handed_over = ring_->stats().submitted,
                            .more = more,
                            .urgent = ring_->urgent()});
}

void Loop::set_submission_mode(SubmissionMode mode) noexcept {
  PINION_ASSERT(on_the_loops_thread());
  submission_.set_mode(mode);
}

}  // namespace pinion

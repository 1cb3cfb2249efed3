#include <pinion/eventloop/snapshot.h>

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include <pinion/eventloop/loop.h>

namespace pinion {
namespace {

/// A duration in three digits.
std::string duration(double nanoseconds) {
  constexpr double kCarries = 999.5;
  const char* unit = "ns";
  for (const char* const larger : {"us", "ms", "s"}) {
    if (nanoseconds < kCarries) break;
    nanoseconds /= 1000;
    unit = larger;
  }
  return fmt::format("{:.3g}{}", nanoseconds, unit);
}

std::string duration(std::uint64_t nanoseconds) {
  return duration(static_cast<double>(nanoseconds));
}

template <unsigned kBits>
std::string spread(const BasicHistogram<kBits>& histogram) {
  return fmt::format("p50 {} p99 {} max {}", duration(histogram.percentile(50)),
                     duration(histogram.percentile(99)), duration(histogram.max()));
}

/// Those that fit into LoopSnapshot::kMostText.
class Lines {
 public:
  template <class... Arguments>
  void add(std::string_view title, fmt::format_string<Arguments...> format,
           Arguments&&... arguments) {
    std::string line = fmt::format("{}{:<9} ", text_.empty() ? "" : "\n", title);
    fmt::format_to(std::back_inserter(line), format, std::forward<Arguments>(arguments)...);
    if (text_.size() + line.size() > LoopSnapshot::kMostText - kForTheRest) {
      ++left_out_;
    } else {
      text_ += line;
    }
  }
  std::string take() {
    if (left_out_ > 0)
      text_ += fmt::format("\n{:<9} {} lines, for their length", "left out", left_out_);
    return std::move(text_);
  }

 private:
  static constexpr std::size_t kForTheRest = 64;

  std::string text_;
  std::size_t left_out_ = 0;
};

void add_turns(Lines& lines, const LoopStats& loop) {
  const double busy = static_cast<double>(loop.busy_ns);
  const double idle = static_cast<double>(loop.idle_ns);
  const double parked = static_cast<double>(loop.parked_ns);
  const double whole = std::max(busy + idle + parked, 1.0);
  lines.add("turns", "{}; busy {:.1f}% idle {:.1f}% parked {:.1f}% of {}", loop.turns,
            100 * busy / whole, 100 * idle / whole, 100 * parked / whole, duration(whole));
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const CoarseHistogram& phase = loop.phases[i];
    if (phase.count() == 0) continue;
    lines.add("phase", "{}: {} ({} timed)", to_string(static_cast<Phase>(i)), spread(phase),
              phase.count());
  }
  lines.add("overlong", "{} turns", loop.overlong_turns);
  for (const OverlongTurns& turns : loop.overlong_by_name) {
    if (turns.count == 0) continue;
    lines.add("overlong", "{} that ended in {}, longest {}", turns.count, to_text(turns.last),
              duration(static_cast<double>(turns.worst.count())));
  }
}

/// Of the loop's groups, when there are several.
void add_groups(Lines& lines, const LoopStats& loop) {
  const auto used = [](const GroupStats& group) { return group.shares > 0; };
  if (std::count_if(loop.groups.begin(), loop.groups.end(), used) < 2) return;
  for (const GroupStats& group : loop.groups) {
    if (!used(group)) continue;
    lines.add("group", "{:.24}: {} shares, {} live, {} resumptions, ran {}, {} overlong",
              group.name, group.shares, group.tasks_live, group.resumptions, duration(group.run_ns),
              group.overlong_turns);
  }
}

void add_sleeps(Lines& lines, const LoopStats& loop) {
  lines.add("parks",
            "{}, {} failed, {} dozes; woken by {} timers, {} completions, {} messages, "
            "{} signals",
            loop.parks, loop.failed_parks, loop.dozes, loop.wakes_by_timer,
            loop.wakes_by_completion, loop.wakes_by_message, loop.wakes_by_signal);
  lines.add("spins", "{} preempted, given up {} times", loop.preempted_spins, loop.spins_given_up);
  lines.add("messages", "{}, {} doorbells", loop.messages, loop.doorbells);
}

void add_submissions(Lines& lines, const SubmissionStats& policy, const RingStats& ring) {
  lines.add("submit", "{}, {} mode changes; batches of {:.1f} on average, p50 {} p99 {} max {}",
            to_string(policy.mode), policy.mode_changes, ring.batches.mean(),
            ring.batches.percentile(50), ring.batches.percentile(99), ring.batches.max());
  if (policy.holds == 0) return;
  lines.add("submit", "held at the end of {} turns; {} batches waited {}", policy.holds,
            policy.waits.count(), spread(policy.waits));
}

}  // namespace

void LoopSnapshot::take(Loop& of) noexcept {
  loop = of.stats();
  ring = of.ring().stats();
  wheel = of.wheel().stats();
  operations = of.ring().in_flight();
  timers = wheel.armed - wheel.fired - wheel.cancelled;
}

std::string to_text(const LoopSnapshot& snapshot) {
  const LoopStats& loop = snapshot.loop;
  const RingStats& ring = snapshot.ring;
  const WheelStats& wheel = snapshot.wheel;
  Lines lines;
  add_turns(lines, loop);
  add_sleeps(lines, loop);
  lines.add("tasks", "{} live, {} spawned, {} refused, {} resumptions", loop.tasks_live,
            loop.tasks_spawned, loop.tasks_refused, loop.resumptions);
  lines.add("timers", "{} armed, {} fired in {} turns, late {}", snapshot.timers, loop.timers_fired,
            loop.timer_lateness.count(), spread(loop.timer_lateness));
  lines.add("wheel",
            "{} armed, {} rearmed, {} extended, {} cancelled, {} moved ({} early), "
            "{} budget hits, {} steps back",
            wheel.armed, wheel.rearmed, wheel.extended, wheel.cancelled, wheel.moved,
            wheel.early_moved, wheel.budget_hits, wheel.clock_steps_back);
  lines.add("ring", "{} enters, {} submitted, {} completions, {} overflows, {} in flight",
            ring.enters, ring.submitted, ring.completions, ring.overflows, snapshot.operations);
  add_submissions(lines, loop.submission, ring);
  add_groups(lines, loop);
  return lines.take();
}

std::string to_text(const Running& running) {
  std::string text = running.kind;
  if (running.name != nullptr) text += fmt::format(" {}", running.name);
  Dl_info object{};
  if (running.code == nullptr || dladdr(running.code, &object) == 0) return text;
  const std::string_view path = object.dli_fname;
  const auto offset = reinterpret_cast<std::uintptr_t>(running.code) -
                      reinterpret_cast<std::uintptr_t>(object.dli_fbase);
  return text + fmt::format(" ({:#x} of {})", offset, path.substr(path.rfind('/') + 1));
}

}  // namespace pinion

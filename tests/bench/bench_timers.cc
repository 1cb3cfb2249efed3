#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"
#include "timer_subjects.h"
#include "timer_targets.h"

/// Timer structures side by side: pinion's wheel, a plain one, a 4-ary heap, and what people use.
///
/// For each number of live timers and each case the subjects take turns, once per round, forwards
/// and backwards alternately, so that a change of the machine's speed meets all of them. A row's
/// samples are its rounds. worst_advance is, over all rounds of the same seeded run, the least time
/// that each tick took (which removes what interrupted it), and of these the greatest; its max
/// column is the greatest of any single run.

namespace pinion::bench {
namespace {

constexpr std::size_t kLarge = 10'000'000;
/// From here on reading the clock once per advance is lost in the advance itself.
constexpr std::size_t kStampedExpire = 1'000'000;
constexpr int kRoundsForWorst = 4;

class TimerBench {
 public:
  TimerBench(const Options& options, std::vector<TimerSubject> subjects, Machine machine)
      : options_(options),
        subjects_(std::move(subjects)),
        clock_(CycleClock::calibrate()),
        report_("timers", std::move(machine)) {
    std::erase_if(subjects_, [&](const TimerSubject& subject) {
      return !selects(options_.subjects, subject.name);
    });
  }

  const Report& run() {
    std::vector<std::size_t> sizes = options_.sizes;
    if (sizes.empty()) sizes = {1'000, 100'000};
    if (options_.sizes.empty() && !options_.quick) sizes.insert(sizes.end(), {1'000'000, kLarge});
    for (const std::size_t n : sizes) {
      for (const Distribution distribution :
           {Distribution::uniform_60s, Distribution::log_uniform_12d, Distribution::boundary_60s}) {
        const bool asked_for = !options_.cases.empty() || !options_.sizes.empty();
        const bool left_out = distribution == Distribution::boundary_60s && n >= kLarge;
        if (left_out && !asked_for) continue;
        if (selects(options_.cases, to_string(distribution))) run_case(distribution, n);
      }
      if (selects(options_.cases, "extend_10s") && wants("extend")) run_extend(n);
    }
    progress("", "");
    return report_;
  }

 private:
  bool wants(const std::string& metric) const { return selects(options_.metrics, metric); }

  int rounds(std::size_t n) const {
    if (options_.rounds > 0) return options_.rounds;
    if (options_.quick || n >= kLarge) return kRoundsForWorst;
    return n >= 1'000'000 ? 5 : static_cast<int>(kDecidingPairs);
  }

  int rounds(const TimerSubject& subject, std::size_t n) const {
    if (n > subject.largest_at_all) return 0;
    return n > subject.largest_in_full ? 1 : rounds(n);
  }

  /// Calls `measure` for every subject in every round that it takes part in.
  template <class Measure>
  void alternate(const std::string& case_name, std::size_t n, Measure measure) {
    for (int round = 0; round < rounds(n); ++round) {
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        const std::size_t turn = round % 2 == 0 ? i : subjects_.size() - 1 - i;
        const TimerSubject& subject = subjects_[turn];
        if (round >= rounds(subject, n)) continue;
        progress(fmt::format("{} {} round {}/{}", case_name, n, round + 1, rounds(n)),
                 subject.name);
        measure(subject, round);
      }
    }
  }

  void run_case(Distribution distribution, std::size_t n) {
    const std::string case_name = to_string(distribution);
    const Workload work(distribution, n, options_.seed);
    const bool steady =
        distribution != Distribution::boundary_60s &&
        (wants("insert") || wants("cancel") || wants("next_expiry") || wants("empty_advance"));
    const bool drains = wants("expire") || wants("worst_advance");
    std::map<std::string, WorstCase> worst;
    alternate(case_name, n, [&](const TimerSubject& subject, int round) {
      if (steady) run_steady(subject, case_name, work, round);
      if (drains && subject.fires && !(n >= kLarge && n > subject.largest_in_full)) {
        run_drain(subject, case_name, work, worst[subject.name]);
      }
    });
    for (const TimerSubject& subject : subjects_) report_worst(subject, case_name, n, worst);
  }

  void run_steady(const TimerSubject& subject, const std::string& case_name, const Workload& work,
                  int round) {
    const SteadyFigures figures =
        subject.steady(work, clock_, options_.seed * 1'000 + static_cast<std::uint64_t>(round));
    add(subject, case_name, work.live, "insert", figures.insert_ns);
    add(subject, case_name, work.live, "cancel", figures.cancel_ns);
    if (!subject.fires) return;
    add(subject, case_name, work.live, "next_expiry", figures.next_expiry_ns);
    add(subject, case_name, work.live, "empty_advance", figures.empty_advance_ns);
  }

  /// The least cycles of each tick over the runs so far, and each run's own greatest.
  struct WorstCase {
    std::vector<std::uint32_t> least;
    std::uint32_t greatest = 0;
    int runs = 0;
  };

  void run_drain(const TimerSubject& subject, const std::string& case_name, const Workload& work,
                 WorstCase& worst) {
    const bool stamps = wants("worst_advance");
    const bool plain = wants("expire") && (!stamps || work.live < kStampedExpire);
    if (plain) {
      add(subject, case_name, work.live, "expire", subject.drain(work, clock_, false).expire_ns);
    }
    if (!stamps) return;
    DrainFigures figures = subject.drain(work, clock_, true);
    if (!plain) add(subject, case_name, work.live, "expire", figures.expire_ns);
    worst.greatest = std::max(worst.greatest, *std::ranges::max_element(figures.cycles));
    ++worst.runs;
    if (worst.least.empty()) {
      worst.least = std::move(figures.cycles);
      return;
    }
    for (std::size_t i = 0; i < worst.least.size(); ++i) {
      worst.least[i] = std::min(worst.least[i], figures.cycles[i]);
    }
  }

  void report_worst(const TimerSubject& subject, const std::string& case_name, std::size_t n,
                    const std::map<std::string, WorstCase>& all) {
    const auto found = all.find(subject.name);
    if (found == all.end() || found->second.runs == 0) return;
    const WorstCase& worst = found->second;
    const double figure = clock_.ns(*std::ranges::max_element(worst.least)) / 1e3;
    const std::string note = worst.runs < kRoundsForWorst ? "too few runs to drop preemption" : "";
    report_.set_summary({case_name, n, "worst_advance", subject.name}, "us",
                        {.median = figure,
                         .min = figure,
                         .max = clock_.ns(worst.greatest) / 1e3,
                         .runs = worst.runs},
                        note);
  }

  void run_extend(std::size_t n) {
    const ExtendWorkload work(n, options_.seed);
    const std::string case_name = fmt::format("extend_{}s", work.period / 1'000);
    alternate(case_name, n, [&](const TimerSubject& subject, int) {
      add(subject, case_name, n, "extend", subject.extend(work, clock_));
    });
  }

  void add(const TimerSubject& subject, const std::string& case_name, std::size_t n,
           const std::string& metric, double value) {
    if (!wants(metric)) return;
    const std::string note = n > subject.largest_in_full ? "one run" : "";
    report_.add_sample({case_name, n, metric, subject.name}, "ns", value, note);
  }

  /// One line on a terminal, overwritten; elsewhere a line for each round.
  void progress(const std::string& round, const std::string& subject) {
    static const bool terminal = isatty(STDERR_FILENO) == 1;
    if (terminal) {
      fmt::print(stderr, "\r\033[K{} {}", round, subject);
    } else if (round != shown_) {
      fmt::print(stderr, "{}\n", round);
      shown_ = round;
    }
  }

  Options options_;
  std::vector<TimerSubject> subjects_;
  CycleClock clock_;
  Report report_;
  std::string shown_;  ///< The round that progress() printed last.
};

int run_bench(const Options& options) {
  const int cpu = bind_to_cpu(options);
  if (cpu < 0) return 2;
  // Freed memory is kept: the peers that allocate are not to pay the kernel in some rounds only.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::vector<std::string> left_out = prepare_subjects(cpu);
  TimerBench bench(options, timer_subjects(), describe_machine(cpu));
  const Report& report = bench.run();
  fmt::print("{}", report.table());
  for (const std::string& line : left_out) fmt::print("\nleft out: {}\n", line);
  const std::vector<TargetOutcome> outcomes = check_targets(report);
  return finish(options, report, outcomes);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  const Choices choices = {
      .program = "bench_timers",
      .cases = {"uniform_60s", "log_uniform_12d", "boundary_60s", "extend_10s"},
      .metrics = {"insert", "cancel", "extend", "expire", "worst_advance", "next_expiry",
                  "empty_advance"},
      .subjects = timer_subject_names()};
  return bench_main(argc, argv, choices, &run_bench);
}

#include <fmt/core.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/cycle_clock.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"
#include "task_subjects.h"
#include "task_targets.h"

/// Tasks on one cpu: what it costs to start one and to let another one run.
///
/// `n` is how many tasks there are at a time. In every round each subject takes its turn, forwards
/// and backwards alternately.
///
/// - spawn, step: nanoseconds for a task from its start to its end, its memory included.
/// - yield, step: nanoseconds from one task to the next; the starts and ends are 1 % of the steps.
/// - waiting, overhead: bytes that a waiting task takes beside its frame, by the sizes of what is
///   kept, for the worst size of a frame up to 512 bytes; resident: bytes of the process for each
///   of them, all included.
///
/// The subject `floor` is a ring of function pointers whose states come from the heap; `bare_floor`
/// is the same without the heap.

namespace pinion::bench {
namespace {

constexpr std::size_t kYields = 100;

class TaskBench {
 public:
  TaskBench(const Options& options, int cpu)
      : options_(options),
        clock_(CycleClock::calibrate()),
        report_("tasks", describe_machine(cpu)) {
    for (const TaskSubject& subject : task_subjects()) {
      if (selects(options.subjects, subject.name)) subjects_.push_back(subject);
    }
  }

  /// False when a subject didn't do what it was asked for.
  bool run() {
    for (int round = 0; round < rounds(); ++round) {
      fmt::print(stderr, "round {}/{}\n", round + 1, rounds());
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        if (!measure(subjects_[round % 2 == 0 ? i : subjects_.size() - 1 - i])) return false;
      }
    }
    weigh();
    return true;
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  bool measure(const TaskSubject& subject) {
    for (const std::size_t n : {kFewTasks, kManyTasks}) {
      if (!options_.sizes.empty() && options_.sizes.front() != n) continue;
      const auto runner = subject.make();
      const std::size_t spawns = total(2'000'000) / n;
      const std::size_t yields = total(4'000'000) / n / kYields;
      const auto spawn = [&] { runner->spawn(n); };
      const auto yield = [&] { runner->yield(n, kYields); };
      if (!time(subject, {kSpawnCase, n, "step", subject.name}, *runner, spawns, n, spawn) ||
          !time(subject, {kYieldCase, n, "step", subject.name}, *runner, yields, n * (kYields + 1),
                yield)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::size_t total(std::size_t steps) const {
    return options_.quick ? steps / 4 : steps;
  }

  template <class Do>
  bool time(const TaskSubject& subject, const RowKey& key, const TaskRunner& runner,
            std::size_t times, std::size_t steps, Do once) {
    if (!selects(options_.cases, key.case_name) || !selects(options_.metrics, key.metric)) {
      return true;
    }
    once();  // Memory is there from now on.
    const std::size_t before = runner.steps();
    const Stretch stretch(clock_);
    for (std::size_t i = 0; i < times; ++i) once();
    const double ns = stretch.ns();
    const std::size_t did = runner.steps() - before;
    if (did != times * steps) {
      fmt::print(stderr, "error: {}: {} steps instead of {}\n", subject.name, did, times * steps);
      return false;
    }
    report_.add_sample(key, "ns", ns / static_cast<double>(did));
    return true;
  }

  void weigh() {
    if (!selects(options_.cases, kWaitingCase) || !selects(options_.subjects, "pinion")) return;
    const WaitingTask weight = weigh_waiting_tasks(kWaitingTasks);
    const auto add = [&](const char* metric, double bytes) {
      if (!selects(options_.metrics, metric)) return;
      report_.add_sample({kWaitingCase, kWaitingTasks, metric, "pinion"}, "bytes", bytes);
    };
    add("overhead", weight.overhead_bytes);
    add("resident", weight.resident_bytes);
  }

  Options options_;
  CycleClock clock_;
  std::vector<TaskSubject> subjects_;
  Report report_;
};

int run_bench(const Options& options) {
  const int cpu = bind_to_cpu(options);
  if (cpu < 0) return 2;
  TaskBench bench(options, cpu);
  const bool whole = bench.run();
  fmt::print("{}", bench.report().table());
  const std::vector<TargetOutcome> outcomes = check_task_targets(bench.report());
  return finish(options, bench.report(), outcomes, whole);
}

std::vector<std::string> subject_names() {
  std::vector<std::string> names;
  for (const TaskSubject& subject : task_subjects()) names.push_back(subject.name);
  return names;
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  const Choices choices = {.program = "bench_tasks",
                           .cases = {kSpawnCase, kYieldCase, kWaitingCase},
                           .metrics = {"step", "overhead", "resident"},
                           .subjects = subject_names(),
                           .sizes = "tasks at a time, 100 or 10000"};
  return bench_main(argc, argv, choices, &run_bench);
}

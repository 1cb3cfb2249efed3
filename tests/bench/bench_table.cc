#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"
#include "table_subjects.h"
#include "table_targets.h"

/// Timers by id: what one call takes, at the median and in the tail.
///
/// `n` timers are live, due within 60 s. In every round each subject takes its turn, forwards and
/// backwards alternately: it is built anew, then single inserts and single cancels for objects
/// anywhere in memory are timed, each on its own (table_latency.h). A row's samples are its rounds'
/// percentiles.
///
/// - churn: an insert and a cancel in turn, so that n stays what it is.
/// - bursts: n / 4 inserts, then as many cancels. From 1,000,000 timers on the caches are emptied
///   before each burst.

namespace pinion::bench {
namespace {

constexpr std::size_t kMillion = 1'000'000;
constexpr std::size_t kOperations = 200'000;
constexpr std::size_t kQuickOperations = 50'000;

class TableBench {
 public:
  TableBench(const Options& options, std::vector<TableSubject> subjects, Machine machine)
      : options_(options),
        subjects_(std::move(subjects)),
        clock_(CycleClock::calibrate()),
        report_("table", std::move(machine)) {
    std::erase_if(subjects_, [&](const TableSubject& subject) {
      return !selects(options_.subjects, subject.name);
    });
  }

  const Report& run() {
    std::vector<std::size_t> sizes = options_.sizes;
    if (sizes.empty()) sizes = {100'000};
    if (options_.sizes.empty() && !options_.quick) sizes.push_back(kMillion);
    for (const std::size_t n : sizes) run_size(n);
    return report_;
  }

 private:
  [[nodiscard]] int rounds(std::size_t n) const {
    if (options_.rounds > 0) return options_.rounds;
    if (options_.quick) return 3;
    return n >= kMillion ? 5 : static_cast<int>(kDecidingPairs);
  }

  void run_size(std::size_t n) {
    const Workload work(Distribution::uniform_60s, n, options_.seed);
    for (int round = 0; round < rounds(n); ++round) {
      fmt::print(stderr, "{} round {}/{}\n", n, round + 1, rounds(n));
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        const std::size_t turn = round % 2 == 0 ? i : subjects_.size() - 1 - i;
        if (n > subjects_[turn].largest_in_full && round > 0) continue;
        measure(subjects_[turn], work, round);
      }
    }
  }

  void measure(const TableSubject& subject, const Workload& work, int round) {
    const std::size_t operations = options_.quick ? kQuickOperations : kOperations;
    const std::uint64_t seed = options_.seed * 1'000 + static_cast<std::uint64_t>(round);
    for (const CallOrder order : {CallOrder::churn, CallOrder::bursts}) {
      const char* const name = order == CallOrder::churn ? kChurn : kBursts;
      if (!selects(options_.cases, name)) continue;
      const LatencyFigures figures = subject.measure(work, order, operations, clock_, seed);
      add(subject, {name, work.live, "insert", subject.name}, figures.insert);
      add(subject, {name, work.live, "cancel", subject.name}, figures.cancel);
    }
  }

  void add(const TableSubject& subject, const RowKey& key, const Percentiles& figures) {
    const std::string note = key.n > subject.largest_in_full ? "one run" : "";
    const auto row = [&](const char* percentile, double value) {
      RowKey full = key;
      full.metric += percentile;
      if (selects(options_.metrics, full.metric)) report_.add_sample(full, "ns", value, note);
    };
    row("_p50", figures.p50);
    row("_p99", figures.p99);
    row("_p999", figures.p999);
  }

  Options options_;
  std::vector<TableSubject> subjects_;
  CycleClock clock_;
  Report report_;
};

int run_bench(const Options& options) {
  const int cpu = bind_to_cpu(options);
  if (cpu < 0) return 2;
  // Freed memory is kept: the peers that allocate are not to pay the kernel in some rounds only.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::vector<std::string> left_out = prepare_table_subjects(cpu);
  TableBench bench(options, table_subjects(), describe_machine(cpu));
  const Report& report = bench.run();
  fmt::print("{}", report.table());
  for (const std::string& line : left_out) fmt::print("\nleft out: {}\n", line);
  const std::vector<TargetOutcome> outcomes = check_table_targets(report);
  return finish(options, report, outcomes);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  const Choices choices = {.program = "bench_table",
                           .cases = {kChurn, kBursts},
                           .metrics = {"insert_p50", "insert_p99", "insert_p999", "cancel_p50",
                                       "cancel_p99", "cancel_p999"},
                           .subjects = table_subject_names()};
  return bench_main(argc, argv, choices, &run_bench);
}

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "echo_idle.h"
#include "echo_load.h"
#include "submission_cases.h"
#include "submission_targets.h"
#include "submission_turns.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"

/// The submission modes side by side: an echo server in each of them, under loads that are steady,
/// come in bursts, or both; and short turns, where holding operations pays.
///
/// As in bench_echo, a server is a process of its own on one cpu and the load a thread on another;
/// in every round each mode takes its turn, forwards and backwards alternately.

namespace pinion::bench {
namespace {

constexpr std::size_t kWarmUpReplies = 6'000;

class SubmissionBench {
 public:
  SubmissionBench(const Options& options, int server_cpu)
      : options_(options),
        server_cpu_(server_cpu),
        report_("submission", describe_machine(server_cpu)) {
    for (EchoSubject& subject : submission_subjects()) {
      if (selects(options.subjects, subject.name)) subjects_.push_back(std::move(subject));
    }
  }

  /// False when something failed, which it has said.
  bool run() {
    for (const SubmissionLoad& load : submission_loads()) {
      if (selects(options_.cases, load.name) && !run_load(load)) return false;
    }
    return run_idle() && run_short_turns();
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  [[nodiscard]] const EchoSubject& subject_of(int round, std::size_t turn) const {
    return subjects_[round % 2 == 0 ? turn : subjects_.size() - 1 - turn];
  }

  bool failed(const std::string& what, const std::string& error) {
    if (error.empty()) return false;
    fmt::print(stderr, "error: {}: {}\n", what, error);
    return true;
  }

  bool run_load(const SubmissionLoad& load) {
    for (int round = 0; round < rounds(); ++round) {
      progress(fmt::format("{} round {}/{}", load.name, round + 1, rounds()));
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        const EchoSubject& subject = subject_of(round, i);
        if (failed(load.name + ": " + subject.name, measure(load, subject, round))) return false;
      }
    }
    return true;
  }

  /// An error text; empty: none.
  std::string measure(const SubmissionLoad& load, const EchoSubject& subject, int round) {
    const EchoServer server(subject, server_cpu_);
    if (!server.error().empty()) return server.error();
    EchoLoad echo;
    std::string error = echo.connect(server.port(), kSubmissionConnections);
    if (!error.empty()) return error;
    const LoadWindow window{.warm_up_replies = kWarmUpReplies,
                            .length = std::chrono::milliseconds(options_.extra("window-ms")),
                            .on = load.off,
                            .off = load.off,
                            .quiet_rate = load.quiet_rate};
    const auto cpu = [&server] { return server.cpu_ns(); };
    const std::uint64_t seed = options_.seed * 1'000 + static_cast<std::uint64_t>(round);
    const LoadFigures figures = load.rate > 0
                                    ? echo.run_open(kSubmissionSize, load.rate, window, seed, cpu)
                                    : echo.run_closed(kSubmissionSize, window, cpu);
    error = complaint(figures);
    if (error.empty()) add(load.name, subject, figures);
    return error;
  }

  void add(const std::string& case_name, const EchoSubject& subject, const LoadFigures& figures) {
    const auto sample = [&](const char* metric, const char* unit, double value) {
      if (!selects(options_.metrics, metric)) return;
      report_.add_sample({case_name, kSubmissionConnections, metric, subject.name}, unit, value);
    };
    const auto replies = static_cast<double>(figures.replies);
    sample("cpu_per_request", "us", figures.server_cpu_ns / replies / 1e3);
    sample("requests_per_second", "1/s", replies / figures.seconds);
    if (figures.latencies_ns.empty()) return;
    sample("latency_p50", "us", percentile(figures.latencies_ns, 0.50) / 1e3);
    sample("latency_p99", "us", percentile(figures.latencies_ns, 0.99) / 1e3);
  }

  bool run_idle() {
    if (!selects(options_.cases, kSubmissionIdleCase) || subjects_.empty()) return true;
    const int samples = options_.quick ? 2 : options_.extra("idle-samples");
    const IdleFigures figures =
        measure_first_after_idle(subjects_, server_cpu_, static_cast<std::size_t>(samples),
                                 [this](const std::string& line) { progress(line); });
    if (failed(kSubmissionIdleCase, figures.error)) return false;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      const std::vector<double>& all = figures.latencies_ns[i];
      const auto figure = [&](const char* metric, double share) {
        if (!selects(options_.metrics, metric)) return;
        report_.set_summary({kSubmissionIdleCase, 1, metric, subjects_[i].name}, "us",
                            {.median = percentile(all, share) / 1e3,
                             .min = all.front() / 1e3,
                             .max = all.back() / 1e3,
                             .runs = static_cast<int>(all.size())});
      };
      figure("latency_p50", 0.50);
      figure("latency_p99", 0.99);
    }
    return true;
  }

  bool run_short_turns() {
    if (!selects(options_.cases, kShortTurnsCase)) return true;
    if (!selects(options_.metrics, "cpu_per_request")) return true;
    for (int round = 0; round < rounds(); ++round) {
      progress(fmt::format("{} round {}/{}", kShortTurnsCase, round + 1, rounds()));
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        const EchoSubject& subject = subject_of(round, i);
        const TurnFigures figures = run_short_turns_in(subject.submission, server_cpu_);
        if (failed(kShortTurnsCase, figures.error)) return false;
        report_.add_sample({kShortTurnsCase, 1, "cpu_per_request", subject.name}, "us",
                           figures.cpu_ns / 1e3);
      }
    }
    return true;
  }

  /// One line on a terminal, overwritten; elsewhere a line each.
  static void progress(const std::string& line) {
    static const bool terminal = isatty(STDERR_FILENO) == 1;
    fmt::print(stderr, "{}{}{}", terminal ? "\r\033[K" : "", line, terminal ? "" : "\n");
  }

  Options options_;
  int server_cpu_;
  std::vector<EchoSubject> subjects_;
  Report report_;
};

int run_bench(const Options& options) {
  const TwoCpus cpus = choose_two_cpus(options.cpu);
  if (!cpus.error.empty()) {
    fmt::print(stderr, "{}\n", cpus.error);
    return 2;
  }
  raise_descriptor_limit();
  pin_to_cpu(cpus.load);
  SubmissionBench bench(options, cpus.server);
  const bool whole = bench.run();
  const Report& report = bench.report();
  fmt::print("{}", report.table());
  std::vector<TargetOutcome> outcomes = check_submission_targets(report);
  if (!options.cases.empty() || !options.subjects.empty()) {
    std::erase_if(outcomes, [](const TargetOutcome& outcome) {
      return outcome.state == TargetOutcome::State::not_measured;
    });
  }
  return finish(options, report, outcomes, whole);
}

Choices choices() {
  std::vector<std::string> cases;
  for (const SubmissionLoad& load : submission_loads()) cases.push_back(load.name);
  cases.push_back(kSubmissionIdleCase);
  cases.push_back(kShortTurnsCase);
  std::vector<std::string> subjects;
  for (const EchoSubject& subject : submission_subjects()) subjects.push_back(subject.name);
  return {.program = "bench_submission",
          .cases = cases,
          .metrics = {"cpu_per_request", "requests_per_second", "latency_p50", "latency_p99"},
          .subjects = subjects,
          .extras = {{"window-ms", 400, 10, 60'000, "how long each measurement lasts"},
                     {"idle-samples", 60, 2, 100'000, "requests after a second of idle"}}};
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  return bench_main(argc, argv, choices(), &run_bench);
}

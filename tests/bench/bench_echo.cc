#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "echo_cases.h"
#include "echo_idle.h"
#include "echo_load.h"
#include "echo_subjects.h"
#include "echo_targets.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"

/// Echo servers side by side: pinion's, the floor, and what people use.
///
/// A server is a process of its own on one cpu, the load a thread on another, the same for all. In
/// every round each subject is started anew and takes its turn, forwards and backwards alternately.
/// cpu_per_request is what the server's process used, user and system, over the replies of the
/// window: it hardly depends on what else the machine does.

namespace pinion::bench {
namespace {

/// More than any of the servers has buffers to go round.
constexpr std::size_t kWarmUpReplies = 6'000;

class EchoBench {
 public:
  EchoBench(const Options& options, int server_cpu)
      : options_(options),
        server_cpu_(server_cpu),
        window_{.warm_up = std::chrono::milliseconds(options.extra("warm-up-ms")),
                .warm_up_replies = kWarmUpReplies,
                .length = std::chrono::milliseconds(options.extra("window-ms"))},
        report_("echo", describe_machine(server_cpu)) {}

  /// False when something failed, which it has said.
  bool run() {
    const std::vector<EchoSubject> closed = chosen(closed_subjects());
    std::vector<ClosedCase> together;
    for (const ClosedCase& one : closed_cases()) {
      if (!together.empty() && together.front().connections != one.connections) {
        if (!run_closed(closed, std::exchange(together, {}))) return false;
      }
      if (wants(one)) together.push_back(one);
    }
    return run_closed(closed, together) && run_open(chosen(open_subjects())) &&
           run_idle(chosen(idle_subjects()));
  }

  [[nodiscard]] const Report& report() const { return report_; }
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  /// Those that were asked for and built.
  std::vector<EchoSubject> chosen(std::vector<EchoSubject> subjects) {
    std::erase_if(subjects, [this](const EchoSubject& subject) {
      if (!selects(options_.subjects, subject.name)) return true;
      if (was_built(subject)) return false;
      left_out_.push_back(
          fmt::format("{}: not built; fix: apt-get install {}", subject.name, subject.package));
      return true;
    });
    return subjects;
  }

  [[nodiscard]] bool wants(const ClosedCase& one) const {
    if (!selects(options_.cases, one.name)) return false;
    if (options_.sizes.empty()) return !options_.quick || one.connections <= 64;
    return std::ranges::find(options_.sizes, one.connections) != options_.sizes.end();
  }

  /// Of a case whose number of connections is its own.
  [[nodiscard]] bool wants(const std::string& case_name) const {
    if (!selects(options_.cases, case_name)) return false;
    return options_.sizes.empty() || !options_.cases.empty();
  }

  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  /// Calls `measure` with each subject's load once per round.
  template <class Measure>
  bool alternate(const std::vector<EchoSubject>& subjects, std::size_t connections,
                 const std::string& what, Measure measure) {
    for (int round = 0; round < rounds(); ++round) {
      for (std::size_t i = 0; i < subjects.size(); ++i) {
        const EchoSubject& subject = subjects[round % 2 == 0 ? i : subjects.size() - 1 - i];
        progress(fmt::format("{} round {}/{}", what, round + 1, rounds()), subject.name);
        const EchoServer server(subject, server_cpu_);
        std::string error = server.error();
        EchoLoad load;
        if (error.empty()) error = load.connect(server.port(), connections);
        if (error.empty()) error = measure(subject, server, load, round);
        if (error.empty()) continue;
        fmt::print(stderr, "error: {}: {}: {}\n", what, subject.name, error);
        return false;
      }
    }
    progress("", "");
    return true;
  }

  /// Cases of the same number of connections.
  bool run_closed(const std::vector<EchoSubject>& subjects, const std::vector<ClosedCase>& cases) {
    if (cases.empty()) return true;
    const std::size_t connections = cases.front().connections;
    return alternate(
        subjects, connections, fmt::format("closed loop, {} connections,", connections),
        [&](const EchoSubject& subject, const EchoServer& server, EchoLoad& load, int) {
          std::string error;
          for (const ClosedCase& one : cases) {
            if (!error.empty()) break;
            const LoadFigures figures =
                load.run_closed(one.size, window_, [&server] { return server.cpu_ns(); });
            error = complaint(figures);
            if (error.empty()) add(one.name, connections, subject, figures);
          }
          return error;
        });
  }

  bool run_open(const std::vector<EchoSubject>& subjects) {
    if (!wants(kOpenCase)) return true;
    return alternate(
        subjects, kOpenConnections, fmt::format("open loop, {:.0f}/s,", kOpenRate),
        [&](const EchoSubject& subject, const EchoServer& server, EchoLoad& load, int round) {
          const LoadFigures figures =
              load.run_open(kOpenSize, kOpenRate, window_,
                            options_.seed * 1'000 + static_cast<std::uint64_t>(round),
                            [&server] { return server.cpu_ns(); });
          std::string error = complaint(figures);
          if (error.empty()) add(kOpenCase, kOpenConnections, subject, figures);
          return error;
        });
  }

  bool run_idle(const std::vector<EchoSubject>& subjects) {
    if (!wants(kIdleCase) || subjects.empty()) return true;
    const int samples = options_.quick ? 2 : options_.extra("idle-samples");
    const IdleFigures figures =
        measure_first_after_idle(subjects, server_cpu_, static_cast<std::size_t>(samples),
                                 [this](const std::string& line) { progress(line, ""); });
    progress("", "");
    if (!figures.error.empty()) {
      fmt::print(stderr, "error: {}: {}\n", kIdleCase, figures.error);
      return false;
    }
    for (std::size_t i = 0; i < subjects.size(); ++i)
      add_idle(subjects[i], figures.latencies_ns[i]);
    return true;
  }

  /// A percentile is of all samples together.
  void add_idle(const EchoSubject& subject, const std::vector<double>& latencies_ns) {
    const auto figure = [&](const char* metric, double share) {
      if (!selects(options_.metrics, metric)) return;
      report_.set_summary({kIdleCase, kIdleConnections, metric, subject.name}, "us",
                          {.median = percentile(latencies_ns, share) / 1e3,
                           .min = latencies_ns.front() / 1e3,
                           .max = latencies_ns.back() / 1e3,
                           .runs = static_cast<int>(latencies_ns.size())});
    };
    figure("latency_p50", 0.50);
    figure("latency_p99", 0.99);
  }

  void add(const std::string& case_name, std::size_t n, const EchoSubject& subject,
           const LoadFigures& figures) {
    const auto sample = [&](const char* metric, const char* unit, double value) {
      if (!selects(options_.metrics, metric)) return;
      report_.add_sample({case_name, n, metric, subject.name}, unit, value);
    };
    const auto replies = static_cast<double>(figures.replies);
    sample("cpu_per_request", "us", figures.server_cpu_ns / replies / 1e3);
    sample("requests_per_second", "1/s", replies / figures.seconds);
    if (figures.latencies_ns.empty()) return;
    sample("latency_p50", "us", percentile(figures.latencies_ns, 0.50) / 1e3);
    sample("latency_p99", "us", percentile(figures.latencies_ns, 0.99) / 1e3);
  }

  /// One line on a terminal, overwritten; elsewhere a line each.
  void progress(const std::string& round, const std::string& subject) {
    static const bool terminal = isatty(STDERR_FILENO) == 1;
    if (terminal) {
      fmt::print(stderr, "\r\033[K{} {}", round, subject);
    } else if (!round.empty() && round != shown_) {
      fmt::print(stderr, "{}\n", round);
      shown_ = round;
    }
  }

  Options options_;
  int server_cpu_;
  LoadWindow window_;
  Report report_;
  std::vector<std::string> left_out_;
  std::string shown_;  ///< The round that progress() printed last.
};

int run_bench(const Options& options) {
  const TwoCpus cpus = choose_two_cpus(options.cpu);
  if (!cpus.error.empty()) {
    fmt::print(stderr, "{}\n", cpus.error);
    return 2;
  }
  raise_descriptor_limit();
  pin_to_cpu(cpus.load);
  EchoBench bench(options, cpus.server);
  const bool whole = bench.run();
  const Report& report = bench.report();
  fmt::print("{}", report.table());
  for (const std::string& line : bench.left_out()) fmt::print("\nleft out: {}\n", line);
  std::vector<TargetOutcome> outcomes = check_echo_targets(report);
  const bool in_part =
      !options.cases.empty() || !options.subjects.empty() || !options.sizes.empty();
  if (in_part) {
    std::erase_if(outcomes, [](const TargetOutcome& outcome) {
      return outcome.state == TargetOutcome::State::not_measured;
    });
  }
  return finish(options, report, outcomes, whole);
}

Choices choices() {
  std::vector<std::string> cases;
  for (const ClosedCase& one : closed_cases()) cases.push_back(one.name);
  cases.push_back(kOpenCase);
  cases.push_back(kIdleCase);
  return {.program = "bench_echo",
          .cases = cases,
          .metrics = {"cpu_per_request", "requests_per_second", "latency_p50", "latency_p99"},
          .subjects = echo_subject_names(),
          .sizes = "connections of the closed loop",
          .extras = {{"window-ms", 300, 10, 60'000, "how long each measurement lasts"},
                     {"warm-up-ms", 100, 0, 60'000, "and what goes before it"},
                     {"idle-samples", 100, 2, 100'000, "requests after a second of idle"}}};
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  return bench_main(argc, argv, choices(), &run_bench);
}

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "echo_load.h"
#include "mixed_server.h"
#include "mixed_targets.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"

/// Echo beside 32 tasks that compute for a millisecond at a time, all on one lcore.
///
/// The load is an open loop of requests from another cpu. In every round each subject is started
/// anew and takes its turn, forwards and backwards alternately: `pinion` has its tasks in groups
/// and asks maybe_yield() every 3 us, `maybe_yield` has them in one group, `neither` yields after
/// each millisecond. What groups add is told by the first against the second.
///
/// - latency_p50, latency_p99: from when a request was due to the last byte of its reply.
/// - computed: pieces of work that were done per second of the lcore's cpu time.

namespace pinion::bench {
namespace {

constexpr std::size_t kRequest = 64;

struct MixedSubject {
  const char* name;
  Sharing sharing;
};
constexpr std::array<MixedSubject, 3> kSubjects = {{{"pinion", Sharing::groups},
                                                    {"maybe_yield", Sharing::maybe_yield},
                                                    {"neither", Sharing::neither}}};

class MixedBench {
 public:
  MixedBench(const Options& options, const TwoCpus& cpus)
      : options_(options),
        server_cpu_(cpus.server),
        report_("mixed", describe_machine(cpus.server)) {
    window_.length = std::chrono::milliseconds(options.extra("window-ms"));
  }

  /// False when something failed, which it has said.
  bool run() {
    for (int round = 0; round < rounds(); ++round) {
      fmt::print(stderr, "round {}/{}\n", round + 1, rounds());
      for (std::size_t i = 0; i < kSubjects.size(); ++i) {
        const MixedSubject& subject = kSubjects[round % 2 == 0 ? i : kSubjects.size() - 1 - i];
        if (!selects(options_.subjects, subject.name)) continue;
        const std::string error = measure(subject, round);
        if (error.empty()) continue;
        fmt::print(stderr, "error: {}: {}\n", subject.name, error);
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  std::string measure(const MixedSubject& subject, int round) {
    const MixedServer server(subject.sharing, server_cpu_);
    EchoLoad load;
    if (std::string error = load.connect(server.port(), kMixedConnections); !error.empty()) {
      return error;
    }
    // The load asks at the beginning and at the end of its window.
    std::vector<std::uint64_t> pieces;
    const LoadFigures figures =
        load.run_open(kRequest, options_.extra("rate"), window_,
                      options_.seed * 1'000 + static_cast<std::uint64_t>(round), [&] {
                        pieces.push_back(server.pieces());
                        return server.cpu_ns();
                      });
    if (std::string error = complaint(figures); !error.empty()) return error;
    add(subject, "latency_p50", "us", percentile(figures.latencies_ns, 0.50) / 1e3);
    add(subject, "latency_p99", "us", percentile(figures.latencies_ns, 0.99) / 1e3);
    add(subject, "computed", "1/s",
        static_cast<double>(pieces.back() - pieces.front()) * 1e9 / figures.server_cpu_ns);
    return {};
  }

  void add(const MixedSubject& subject, const char* metric, const char* unit, double value) {
    if (!selects(options_.metrics, metric)) return;
    report_.add_sample({kMixedCase, kMixedConnections, metric, subject.name}, unit, value);
  }

  Options options_;
  int server_cpu_;
  LoadWindow window_;
  Report report_;
};

int run_bench(const Options& options) {
  const TwoCpus cpus = choose_two_cpus(options.cpu);
  if (!cpus.error.empty()) {
    fmt::print(stderr, "{}\n", cpus.error);
    return 2;
  }
  pin_to_cpu(cpus.load);
  MixedBench bench(options, cpus);
  const bool whole = bench.run();
  fmt::print("{}", bench.report().table());
  const std::vector<TargetOutcome> outcomes = check_mixed_targets(bench.report());
  return finish(options, bench.report(), outcomes, whole);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  std::vector<std::string> names;
  for (const MixedSubject& subject : kSubjects) names.emplace_back(subject.name);
  const Choices choices = {
      .program = "bench_mixed",
      .cases = {kMixedCase},
      .metrics = {"latency_p50", "latency_p99", "computed"},
      .subjects = names,
      .sizes = "connections",
      .extras = {{"window-ms", 1'000, 10, 60'000, "how long each measurement lasts"},
                 {"rate", 2'000, 1, 100'000, "requests per second"}}};
  return bench_main(argc, argv, choices, &run_bench);
}

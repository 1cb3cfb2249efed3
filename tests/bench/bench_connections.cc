#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "echo_load.h"
#include "echo_subjects.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"

/// Very many connections on one lcore, three timers each: what one costs in memory, what all of
/// them cost while nothing happens, and how fast the few answer that are active.
///
/// As many as the descriptor limit allows, 100,000 at most. A server lives alone, with timeouts ten
/// times as long as usual, so that none passes while the bench waits. kernel_memory is what the
/// slabs of the kernel have grown by, both ends of a connection together: little, when an earlier
/// run has left them large.

namespace pinion::bench {
namespace {

constexpr const char* kCase = "idle_connections";
constexpr std::size_t kWanted = 100'000;
/// Descriptors that a server and the load need beside those of connections.
constexpr std::size_t kReserve = 200;
constexpr std::size_t kEvery = 100;  ///< one in a hundred is active
constexpr double kRate = 10'000;     ///< requests a second
constexpr std::size_t kSize = 64;

class ConnectionsBench {
 public:
  ConnectionsBench(const Options& options, int server_cpu, std::size_t connections)
      : options_(options),
        server_cpu_(server_cpu),
        connections_(connections),
        report_("connections", describe_machine(server_cpu)) {}

  /// False when something failed, which it has said.
  bool run() {
    std::vector<EchoSubject> subjects = closed_subjects();
    std::erase_if(subjects, [this](const EchoSubject& subject) {
      return !selects(options_.subjects, subject.name) || !was_built(subject) ||
             (options_.subjects.empty() && !subject.timers);
    });
    const int rounds = std::max(options_.rounds, 1);
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < subjects.size(); ++i) {
        const EchoSubject& subject = subjects[round % 2 == 0 ? i : subjects.size() - 1 - i];
        fmt::print(stderr, "{} connections, round {}/{}: {}\n", connections_, round + 1, rounds,
                   subject.name);
        const std::string error = measure(subject);
        if (error.empty()) continue;
        fmt::print(stderr, "error: {}: {}\n", subject.name, error);
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  std::string measure(const EchoSubject& subject) {
    const EchoServer server(subject, server_cpu_, {"--patient"});
    if (!server.error().empty()) return server.error();
    EchoLoad load;
    const double resident_before = server.resident_bytes();
    const double slab_before = bytes_in("/proc/meminfo", "Slab:");
    std::string error = load.connect(server.port(), connections_);
    if (!error.empty()) return error;
    // So every connection is complete, and has used what it needs.
    error = load.run_on_each(kSize);
    if (!error.empty()) return error;
    const auto per_connection = [this](double before, double after) {
      return (after - before) / static_cast<double>(connections_);
    };
    add(subject, "server_memory", "B", per_connection(resident_before, server.resident_bytes()));
    add(subject, "kernel_memory", "B",
        per_connection(slab_before, bytes_in("/proc/meminfo", "Slab:")));
    measure_idle(subject, server);
    const auto cpu = [&server] { return server.cpu_ns(); };
    const LoadFigures figures =
        load.run_open(kSize, kRate,
                      {.warm_up = std::chrono::milliseconds{500},
                       .every = kEvery,
                       .length = std::chrono::milliseconds(options_.extra("window-ms"))},
                      options_.seed, cpu);
    error = complaint(figures);
    if (!error.empty()) return error;
    add(subject, "cpu_per_request", "us",
        figures.server_cpu_ns / static_cast<double>(figures.replies) / 1e3);
    add(subject, "latency_p50", "us", percentile(figures.latencies_ns, 0.50) / 1e3);
    add(subject, "latency_p99", "us", percentile(figures.latencies_ns, 0.99) / 1e3);
    return {};
  }

  /// Nobody sends. The load sleeps too.
  void measure_idle(const EchoSubject& subject, const EchoServer& server) {
    using Clock = std::chrono::steady_clock;
    std::this_thread::sleep_for(std::chrono::seconds{1});  // what the last request left behind
    const Clock::time_point begin = Clock::now();
    const std::int64_t cpu_before = server.cpu_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.extra("idle-ms")));
    const auto used = static_cast<double>(server.cpu_ns() - cpu_before);
    const std::chrono::duration<double, std::nano> length = Clock::now() - begin;
    add(subject, "idle_cpu", "1e-6 of a cpu", used / length.count() * 1e6);
  }

  void add(const EchoSubject& subject, const char* metric, const char* unit, double value) {
    if (!selects(options_.metrics, metric)) return;
    report_.add_sample({kCase, connections_, metric, subject.name}, unit, value);
  }

  Options options_;
  int server_cpu_;
  std::size_t connections_;
  Report report_;
};

int run_bench(const Options& options) {
  const TwoCpus cpus = choose_two_cpus(options.cpu);
  if (!cpus.error.empty()) {
    fmt::print(stderr, "{}\n", cpus.error);
    return 2;
  }
  pin_to_cpu(cpus.load);
  const std::size_t limit = raise_descriptor_limit();
  const std::size_t wanted = !options.sizes.empty() ? options.sizes.front()
                             : options.quick        ? 1'000
                                                    : kWanted;
  const std::size_t connections = std::min(wanted, limit - std::min(limit, kReserve));
  ConnectionsBench bench(options, cpus.server, connections);
  const bool whole = bench.run();
  fmt::print("{}", bench.report().table());
  if (connections < wanted) {
    fmt::print(
        "\n{} connections and not {}: a process may have {} descriptors open\n"
        "fix: ulimit -Hn {}, as root, before the bench\n",
        connections, wanted, limit, wanted + kReserve);
  }
  return finish(options, bench.report(), whole);
}

Choices choices() {
  std::vector<std::string> names;
  for (const EchoSubject& subject : closed_subjects()) names.push_back(subject.name);
  return {.program = "bench_connections",
          .cases = {kCase},
          .metrics = {"server_memory", "kernel_memory", "idle_cpu", "cpu_per_request",
                      "latency_p50", "latency_p99"},
          .subjects = names,
          .sizes = "connections (one number)",
          .extras = {{"window-ms", 2'000, 10, 60'000, "how long requests are sent"},
                     {"idle-ms", 5'000, 10, 60'000, "how long nothing happens"}}};
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  return bench_main(argc, argv, choices(), &run_bench);
}

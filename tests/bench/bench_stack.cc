#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory_miss.h"
#include "stack_callgrind.h"
#include "stack_run.h"
#include "stack_subjects.h"
#include "stack_targets.h"
#include "support/cycle_clock.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"

/// TCP/IP stacks in this process, each alone: a server whose packets come from a generator and go
/// to nobody, on virtual time. What is measured are its turns: a burst of IP packets goes in, the
/// application acts, packets come out. stack_run.h has the operations.
///
/// `n` connections are open. In every round each subject takes its turn, forwards and backwards
/// alternately: it is built anew, and does the operations of each case.
///
/// - ns: of an operation, in bursts of 32 packets; of turns from which the kernel took the cpu
///   away, nothing.
/// - instructions: the same, counted by callgrind in a process of its own, once, as counts don't
///   waver; instructions_alone: with a turn for each operation.
/// - lines: cache lines that an operation fetches from memory, counted by callgrind with 50,000
///   connections and a cache that holds a thousand or two.
/// - miss: what fetching a line takes when it is known only then which one it is, in as much memory
///   as a million connections have.

namespace pinion::bench {
namespace {

/// Of a connection: its record, twice its slot in the table, its generation.
constexpr std::size_t kBytesOfConnection = 320 + 2 * 8 + 4;
constexpr std::size_t kMissSteps = 500'000;

long context_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw + usage.ru_nvcsw;
}

class StackBench {
 public:
  StackBench(const Options& options, int cpu)
      : options_(options),
        clock_(CycleClock::calibrate()),
        report_("stack", describe_machine(cpu)),
        sizes_(options.sizes) {
    for (StackSubject& subject : stack_subjects()) {
      if (selects(options.subjects, subject.name)) subjects_.push_back(std::move(subject));
    }
    if (!sizes_.empty()) return;
    sizes_ = {kOneConnection, kWarmConnections, kManyConnections};
    if (!options.quick) sizes_.push_back(kMillionConnections);
  }

  /// False when a subject didn't do what it was asked for.
  bool run() {
    count();
    if (!selects(options_.metrics, kStackNs) && !selects(options_.metrics, kMemoryMiss)) {
      return true;
    }
    for (int round = 0; round < rounds(); ++round) {
      fmt::print(stderr, "round {}/{}\n", round + 1, rounds());
      for (const std::size_t n : sizes_) {
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
          const auto& subject = subjects_[round % 2 == 0 ? i : subjects_.size() - 1 - i];
          if (!measure(subject, n, options_.seed + static_cast<std::uint64_t>(round))) return false;
        }
      }
      measure_memory();
    }
    return true;
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  /// Every connection's, and enough to be timed; where each takes a walk over all connections, few.
  [[nodiscard]] std::size_t operations(const StackSubject& subject, std::size_t n) const {
    constexpr std::size_t kLeast = 200'000;
    const bool walks = subject.name == "lwip" && n > kWarmConnections;
    const std::size_t wanted = walks ? kLeast / 10 : std::max(kLeast, n);
    return options_.quick ? wanted / 4 : wanted;
  }

  bool measure(const StackSubject& subject, std::size_t n, std::uint64_t seed) {
    if (!selects(options_.metrics, kStackNs) || n > subject.most_connections) return true;
    StackRun run(subject, n, seed);
    for (const StackCase what : kStackCases) {
      if (!selects(options_.cases, to_string(what))) continue;
      const std::size_t burst = stack_burst(what, n);
      run.warm_up(what, burst);
      const double ns = time(run, what, operations(subject, n), burst);
      if (!run.fault().empty()) {
        fmt::print(stderr, "error: {}: {} with {} connections: {}\n", subject.name, to_string(what),
                   n, run.fault());
        return false;
      }
      report_.add_sample({to_string(what), n, kStackNs, subject.name}, "ns", ns, note(subject, n));
    }
    return true;
  }

  /// Nanoseconds for an operation.
  double time(StackRun& run, StackCase what, std::size_t operations, std::size_t burst) {
    double ns = 0;
    std::size_t turns = 0;
    run.run(what, operations, burst, [&](const std::function<void()>& turn) {
      const long before = context_switches();
      const std::uint64_t begin = read_cycles_fenced();
      turn();
      const std::uint64_t end = read_cycles_fenced();
      if (context_switches() != before) return;
      ns += clock_.elapsed_ns(begin, end);
      ++turns;
    });
    return turns == 0 ? 0 : ns / static_cast<double>(turns * burst);
  }

  void measure_memory() {
    if (!selects(options_.metrics, kMemoryMiss) || !selects(options_.cases, kMemoryCase)) return;
    if (std::ranges::find(sizes_, kMillionConnections) == sizes_.end()) return;
    MemoryMiss memory(kMillionConnections * kBytesOfConnection, options_.seed);
    static_cast<void>(memory.measure(clock_, kMissSteps / 10));
    report_.add_sample({kMemoryCase, kMillionConnections, kMemoryMiss, "floor"}, "ns",
                       memory.measure(clock_, kMissSteps));
  }

  void count() {
    for (const StackCase what : kStackCases) {
      if (!selects(options_.cases, to_string(what))) continue;
      for (const StackSubject& subject : subjects_) {
        for (const std::size_t n : sizes_) count(subject, what, n);
        if (subject.name == "pinion" && !options_.quick && counting_) count_lines(subject, what);
      }
    }
  }

  void count(const StackSubject& subject, StackCase what, std::size_t n) {
    const bool walks = subject.name == "lwip" && n > kOneConnection;
    const bool left_out = options_.quick && (walks || n == kWarmConnections);
    if (n > kManyConnections || left_out || !counting_) return;
    count(subject, what, n, kStackInstructions);
    // A walk over all connections is no matter of bursts.
    if (!walks) count(subject, what, n, kStackInstructionsAlone);
  }

  /// With many connections for long enough that acknowledgments' timers fall due as often as ever.
  void count(const StackSubject& subject, StackCase what, std::size_t n, const char* metric) {
    if (!selects(options_.metrics, metric)) return;
    constexpr std::size_t kOperations = 20'000;
    const bool alone = std::strcmp(metric, kStackInstructionsAlone) == 0;
    const bool long_enough = subject.name == "pinion" && n > kWarmConnections && !options_.quick;
    const std::size_t operations = subject.name == "lwip" && n > kWarmConnections
                                       ? kOperations / 10
                                       : kOperations * (long_enough ? 8 : 1);
    const auto counts = ask({.subject = subject.name,
                             .what = what,
                             .connections = n,
                             .burst = alone ? 1 : stack_burst(what, n),
                             .operations = operations,
                             .seed = options_.seed});
    if (!counts) return;
    report_.add_sample({to_string(what), n, metric, subject.name}, "instructions",
                       counts->instructions, note(subject, n));
  }

  void count_lines(const StackSubject& subject, StackCase what) {
    if (!selects(options_.metrics, kStackLines)) return;
    const auto counts = ask({.subject = subject.name,
                             .what = what,
                             .connections = kColdConnections,
                             .burst = stack_burst(what, kColdConnections),
                             .operations = kColdConnections,
                             .seed = options_.seed,
                             .lines = true});
    if (!counts) return;
    report_.add_sample({to_string(what), kColdConnections, kStackLines, subject.name}, "lines",
                       counts->lines);
    report_.add_sample({to_string(what), kColdConnections, kStackInstructions, subject.name},
                       "instructions", counts->instructions);
  }

  std::optional<StackCounts> ask(const StackCountRequest& request) {
    fmt::print(stderr, "counting {}: {} of {} connections\n", request.subject,
               to_string(request.what), request.connections);
    auto counts = count_stack(request);
    if (!counts) counting_ = false;
    return counts;
  }

  [[nodiscard]] static std::string note(const StackSubject& subject, std::size_t n) {
    if (n != subject.most_connections || n >= kMillionConnections) return {};
    return "finds connections in a list; a million would take hours to open";
  }

  Options options_;
  CycleClock clock_;
  std::vector<StackSubject> subjects_;
  Report report_;
  std::vector<std::size_t> sizes_;
  bool counting_ = true;
};

int run_bench(const Options& options) {
  const int cpu = bind_to_cpu(options);
  if (cpu < 0) return 2;
  StackBench bench(options, cpu);
  const bool whole = bench.run();
  fmt::print("{}", bench.report().table());
  for (const std::string& line : stack_subjects_left_out()) fmt::print("\nleft out: {}\n", line);
  return finish(options, bench.report(), check_stack_targets(bench.report()), whole);
}

std::vector<std::string> subject_names() {
  std::vector<std::string> names;
  for (const StackSubject& subject : stack_subjects()) names.push_back(subject.name);
  return names;
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  Choices choices = {
      .program = "bench_stack",
      .cases = {kMemoryCase},
      .metrics = {kStackNs, kStackInstructions, kStackInstructionsAlone, kStackLines, kMemoryMiss},
      .subjects = subject_names(),
      .sizes = "open connections, up to 1M"};
  for (const StackCase what : kStackCases) choices.cases.emplace_back(to_string(what));
  return bench_main(argc, argv, choices, &run_bench);
}

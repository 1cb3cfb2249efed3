#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <pinion/lib/random.h>

#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"
#include "wake_channel.h"
#include "wake_targets.h"

/// Messages from one thread to another: how long they take, and what they cost the sender.
///
/// The sender is a thread on one cpu, the target on another. `n` says how many messages are sent
/// at a time. In the case `spinning` the target looks for messages without end, in `parked` it
/// sleeps at once. In every round each subject takes its turn, forwards and backwards alternately.
///
/// - latency: from before the send of one message to a target that has been idle for a while, to
///   its handler, by the CPU's counter; p50 and p99 of a round's messages.
/// - send: what a message costs the sender; in the case `parked` that of one that wakes the target.
/// - sender_calls, target_calls: system calls per 1,000,000 messages that follow one another as
///   soon as the target has taken all of the last batch.
/// - calls_per_sleep: of these, the sender's for each time that the target has announced a sleep.

namespace pinion::bench {
namespace {

constexpr std::size_t kBatch = 100;

struct WakeSizes {
  std::size_t latencies;
  std::size_t sends;  ///< Batches.
  std::size_t least_idle_ns;
  std::size_t most_idle_ns;
};
/// A loop that spins is idle at once; one that parks is asleep a few microseconds later.
constexpr WakeSizes kSpinningSizes = {20'000, 2'000, 300, 3'000};
constexpr WakeSizes kParkedSizes = {1'000, 2'000, 100'000, 300'000};

class WakeBench {
 public:
  WakeBench(const Options& options, int sender_cpu, int target_cpu)
      : options_(options),
        target_cpu_(target_cpu),
        clock_(CycleClock::calibrate()),
        random_(options.seed),
        report_("wake", describe_machine(sender_cpu)) {}

  void run() {
    for (const bool spins : {true, false}) {
      std::vector<WakeSubject> subjects = wake_subjects();
      std::erase_if(subjects, [&](const WakeSubject& subject) {
        return subject.spins != spins || !selects(options_.subjects, subject.name);
      });
      if (!selects(options_.cases, spins ? kSpinning : kParked)) continue;
      for (int round = 0; round < rounds(); ++round) {
        fmt::print(stderr, "{} round {}/{}\n", spins ? kSpinning : kParked, round + 1, rounds());
        for (std::size_t i = 0; i < subjects.size(); ++i) {
          measure(subjects[round % 2 == 0 ? i : subjects.size() - 1 - i]);
        }
      }
    }
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : static_cast<int>(kDecidingPairs);
  }

  void measure(const WakeSubject& subject) {
    for (const std::size_t batch : {std::size_t{1}, kBatch}) {
      if (!options_.sizes.empty() && options_.sizes.front() != batch) continue;
      if (batch == 1) measure_latency(subject);
      if (subject.spins) measure_send(subject, batch);
      count_calls(subject, batch);
    }
  }

  static void wait_for(const Arrivals& arrivals, std::uint64_t count) {
    while (arrivals.count() < count) keep_memory();
  }

  void stay_idle(const WakeSizes& sizes) {
    const auto ns = random_.between(sizes.least_idle_ns, sizes.most_idle_ns);
    const std::uint64_t begin = read_cycles();
    while (clock_.ns(static_cast<double>(read_cycles() - begin)) < static_cast<double>(ns)) {
    }
  }

  void measure_latency(const WakeSubject& subject) {
    const WakeSizes& sizes = subject.spins ? kSpinningSizes : kParkedSizes;
    Arrivals arrivals;
    const auto channel = subject.make(arrivals, target_cpu_);
    std::vector<double> latencies;
    std::vector<double> sends;
    for (std::size_t i = 0; i < sizes.latencies; ++i) {
      stay_idle(sizes);
      const std::uint64_t begin = read_cycles_fenced();
      channel->send(1);
      const std::uint64_t sent = read_cycles_fenced();
      wait_for(arrivals, i + 1);
      latencies.push_back(clock_.ns(static_cast<double>(arrivals.cycles() - begin)));
      sends.push_back(clock_.elapsed_ns(begin, sent));
    }
    std::ranges::sort(latencies);
    add(subject, 1, "latency_p50", "ns", latencies[latencies.size() / 2]);
    add(subject, 1, "latency_p99", "ns", latencies[latencies.size() * 99 / 100]);
    if (!subject.spins) add(subject, 1, "send", "ns", summarise(std::move(sends)).median);
  }

  /// By stretches that are no longer than what may be on the way at once.
  void measure_send(const WakeSubject& subject, std::size_t batch) {
    Arrivals arrivals;
    const auto channel = subject.make(arrivals, target_cpu_);
    const std::size_t stretch = WakeChannel::kWindow / batch;
    std::vector<double> costs;
    for (std::size_t sent = 0; sent < kSpinningSizes.sends * kBatch; sent += stretch * batch) {
      wait_for(arrivals, sent);
      const std::uint64_t begin = read_cycles_fenced();
      for (std::size_t i = 0; i < stretch; ++i) channel->send(batch);
      const std::uint64_t end = read_cycles_fenced();
      costs.push_back(clock_.elapsed_ns(begin, end) / static_cast<double>(stretch * batch));
    }
    add(subject, batch, "send", "ns", summarise(std::move(costs)).median);
  }

  void count_calls(const WakeSubject& subject, std::size_t batch) {
    const WakeSizes& sizes = subject.spins ? kSpinningSizes : kParkedSizes;
    Arrivals arrivals;
    const auto channel = subject.make(arrivals, target_cpu_);
    std::uint64_t sent = 0;
    for (std::size_t i = 0; i < sizes.sends; ++i) {
      channel->send(batch);
      sent += batch;
      wait_for(arrivals, sent);
    }
    const WakeCounts counts = channel->end();
    const auto per_million = [&](std::uint64_t calls) {
      return static_cast<double>(calls) * 1e6 / static_cast<double>(sent);
    };
    add(subject, batch, "sender_calls", "1/M", per_million(counts.sender_calls));
    add(subject, batch, "target_calls", "1/M", per_million(counts.target_calls));
    if (counts.sleeps == 0) return;
    add(subject, batch, "calls_per_sleep", "",
        static_cast<double>(counts.sender_calls) / static_cast<double>(counts.sleeps));
  }

  void add(const WakeSubject& subject, std::size_t n, const char* metric, const char* unit,
           double value) {
    if (!selects(options_.metrics, metric)) return;
    report_.add_sample({subject.spins ? kSpinning : kParked, n, metric, subject.name}, unit, value);
  }

  Options options_;
  int target_cpu_;
  CycleClock clock_;
  Random random_;
  Report report_;
};

int run_bench(const Options& options) {
  const TwoCpus cpus = choose_two_cpus(options.cpu);
  if (!cpus.error.empty()) {
    fmt::print(stderr, "{}\n", cpus.error);
    return 2;
  }
  pin_to_cpu(cpus.load);
  WakeBench bench(options, cpus.load, cpus.server);
  bench.run();
  fmt::print("{}", bench.report().table());
  const std::vector<TargetOutcome> outcomes = check_wake_targets(bench.report());
  return finish(options, bench.report(), outcomes);
}

std::vector<std::string> subject_names() {
  std::vector<std::string> names;
  for (const WakeSubject& subject : wake_subjects()) {
    if (!selects(names, subject.name) || names.empty()) names.push_back(subject.name);
  }
  return names;
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  const Choices choices = {.program = "bench_wake",
                           .cases = {kSpinning, kParked},
                           .metrics = {"latency_p50", "latency_p99", "send", "sender_calls",
                                       "target_calls", "calls_per_sleep"},
                           .subjects = subject_names(),
                           .sizes = "messages sent at a time, 1 or 100"};
  return bench_main(argc, argv, choices, &run_bench);
}

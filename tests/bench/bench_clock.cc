#include <fmt/core.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pinion/eventloop/metronome.h>
#include <pinion/timers/time_source.h>

#include "support/cycle_clock.h"
#include "support/finish.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/report.h"
#include "support/targets.h"

/// The loops' clocks: what a reading costs, how far it is behind CLOCK_MONOTONIC, and what a
/// metronome's thread takes.
///
/// Subjects are `pinion`, the CPU's counter; `monotonic`, which is CLOCK_MONOTONIC as the C library
/// reads it; `system_call`, the same by a system call, the least that it costs on a host whose
/// kernel can't show its clock to programs (there the chipset's timer comes on top); and
/// `metronome`. `n` is the metronome's resolution in microseconds, which nothing widens here.
///
/// - now: a reading, one after another.
/// - lag_p50, lag_p99, lag_max: how far now() was behind CLOCK_MONOTONIC, read right after it, by
///   an lcore that spins on a cpu of its own, in turns of half a microsecond.
/// - ahead: readings that were ahead of it.
/// - share: CPU time of the metronome's thread, of one cpu, while an lcore is awake.

namespace pinion::bench {
namespace {

constexpr const char* kCounter = "pinion";
constexpr const char* kMonotonic = "monotonic";
constexpr const char* kSystemCall = "system_call";
constexpr const char* kMetronome = "metronome";
constexpr const char* kSpinning = "spinning";

class SystemCallTime final : public TimeSource {
 public:
  [[nodiscard]] Instant now() noexcept override {
    timespec time{};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return Instant{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}};
  }
};

std::int64_t cpu_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// A clock with what it needs.
struct Subject {
  std::string name;
  std::size_t n = 0;
  std::unique_ptr<Metronome> metronome;
  std::unique_ptr<TimeSource> clock;
};

/// Its thread may run wherever this process may, as in a program.
Subject make_metronome(std::size_t resolution_us, const cpu_set_t& allowed, int cpu) {
  const Delay resolution = std::chrono::microseconds{resolution_us};
  sched_setaffinity(0, sizeof(allowed), &allowed);
  auto started = Metronome::start({.resolution = resolution, .widest = resolution}, 1);
  pin_to_cpu(cpu);
  if (!started) return {};
  Subject subject{kMetronome, resolution_us, std::move(*started), nullptr};
  subject.clock = std::make_unique<MetronomeTime>(*subject.metronome, 0);
  subject.clock->note_wake();
  // Awake, it keeps the beats once they have begun.
  const Instant begin = MonotonicTime::read();
  while (saturating_sub(MonotonicTime::read(), begin) < Delay{std::chrono::milliseconds{20}}) {
    static_cast<void>(subject.clock->now());
  }
  return subject;
}

class ClockBench {
 public:
  ClockBench(const Options& options, const cpu_set_t& allowed, int cpu)
      : options_(options),
        allowed_(allowed),
        cpu_(cpu),
        cycles_(CycleClock::calibrate()),
        report_("clock", describe_machine(cpu)) {}

  void run() {
    for (int round = 0; round < rounds(); ++round) {
      fmt::print(stderr, "round {}/{}\n", round + 1, rounds());
      if (Result<TscTime> counter = TscTime::create(); counter && wants(kCounter)) {
        measure({kCounter, 0, nullptr, std::make_unique<TscTime>(*counter)});
      }
      if (wants(kMonotonic)) measure({kMonotonic, 0, nullptr, std::make_unique<MonotonicTime>()});
      if (wants(kSystemCall)) {
        measure({kSystemCall, 0, nullptr, std::make_unique<SystemCallTime>()});
      }
      for (const std::size_t resolution : {100U, 250U, 1'000U, 10'000U}) {
        const bool chosen = options_.sizes.empty() ||
                            std::ranges::find(options_.sizes, resolution) != options_.sizes.end();
        if (!wants(kMetronome) || !chosen) continue;
        const Subject subject = make_metronome(resolution, allowed_, cpu_);
        if (subject.clock == nullptr) continue;
        measure(subject);
        measure_share(subject);
      }
    }
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] int rounds() const {
    if (options_.rounds > 0) return options_.rounds;
    return options_.quick ? 2 : 10;
  }
  [[nodiscard]] bool wants(const char* subject) const {
    return selects(options_.subjects, subject);
  }

  void measure(const Subject& subject) {
    measure_reading(subject);
    measure_lag(subject);
  }

  void measure_reading(const Subject& subject) {
    constexpr int kBatches = 2'000;
    constexpr int kReadings = 200;
    std::vector<double> costs;
    for (int batch = 0; batch < kBatches; ++batch) {
      const std::uint64_t begin = read_cycles_fenced();
      for (int i = 0; i < kReadings; ++i) {
        static_cast<void>(subject.clock->now());
        keep_memory();
      }
      costs.push_back(cycles_.elapsed_ns(begin, read_cycles_fenced()) / kReadings);
    }
    add(subject, "now", "ns", summarise(std::move(costs)).median);
  }

  void measure_lag(const Subject& subject) {
    constexpr int kReadings = 400'000;
    constexpr double kTurnNs = 500;
    std::vector<std::int64_t> lags;
    lags.reserve(kReadings);
    for (int i = 0; i < kReadings; ++i) {
      const Instant now = subject.clock->now();
      lags.push_back(saturating_sub(MonotonicTime::read(), now).count());
      const std::uint64_t begin = read_cycles();
      while (cycles_.ns(static_cast<double>(read_cycles() - begin)) < kTurnNs) {
      }
    }
    std::ranges::sort(lags);
    const auto ahead = std::ranges::count_if(lags, [](std::int64_t lag) { return lag < 0; });
    add(subject, "lag_p50", "ns", static_cast<double>(lags[lags.size() / 2]));
    add(subject, "lag_p99", "ns", static_cast<double>(lags[lags.size() * 99 / 100]));
    add(subject, "lag_max", "ns", static_cast<double>(lags.back()));
    add(subject, "ahead", "", static_cast<double>(ahead));
  }

  /// Nobody else runs in this process.
  void measure_share(const Subject& subject) {
    constexpr timespec kWhile{.tv_sec = 0, .tv_nsec = 500'000'000};
    const auto others = [] {
      return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    };
    const std::int64_t begin = cpu_ns(CLOCK_MONOTONIC);
    const std::int64_t before = others();
    nanosleep(&kWhile, nullptr);
    const auto spent = static_cast<double>(others() - before);
    add(subject, "share", "%", 100 * spent / static_cast<double>(cpu_ns(CLOCK_MONOTONIC) - begin));
  }

  void add(const Subject& subject, const char* metric, const char* unit, double value) {
    if (!selects(options_.metrics, metric)) return;
    report_.add_sample({kSpinning, subject.n, metric, subject.name}, unit, value);
  }

  Options options_;
  cpu_set_t allowed_;
  int cpu_;
  CycleClock cycles_;
  Report report_;
};

std::vector<TargetOutcome> check_targets(const Report& report) {
  using State = TargetOutcome::State;
  std::vector<TargetOutcome> outcomes;
  for (const std::size_t n : {100U, 250U, 1'000U, 10'000U}) {
    const Row* const ahead = report.find({kSpinning, n, "ahead", kMetronome});
    std::string text = fmt::format("metronome {:>5} us: never ahead of CLOCK_MONOTONIC", n);
    const State state = ahead == nullptr         ? State::not_measured
                        : ahead->summary.max > 0 ? State::missed
                                                 : State::met;
    outcomes.push_back({state, std::move(text)});
  }
  const Row* const ours = report.find({kSpinning, 250, "now", kMetronome});
  const Row* const call = report.find({kSpinning, 0, "now", kSystemCall});
  std::string text = "metronome   250 us: a reading at most 0.2 x a system call";
  if (ours == nullptr || call == nullptr) {
    outcomes.push_back({State::not_measured, std::move(text)});
    return outcomes;
  }
  const Summary ratio = Report::ratio(ours, call);
  text += fmt::format(": {:.3f} [{:.3f}, {:.3f}]", ratio.median, ratio.min, ratio.max);
  outcomes.push_back({ratio.median <= 0.2 ? State::met : State::missed, std::move(text)});
  return outcomes;
}

int run_bench(const Options& options) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  const int cpu = bind_to_cpu(options);
  if (cpu < 0) return 2;
  ClockBench bench(options, allowed, cpu);
  bench.run();
  fmt::print("{}", bench.report().table());
  const std::vector<TargetOutcome> outcomes = check_targets(bench.report());
  return finish(options, bench.report(), outcomes);
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  const Choices choices = {
      .program = "bench_clock",
      .cases = {kSpinning},
      .metrics = {"now", "lag_p50", "lag_p99", "lag_max", "ahead", "share"},
      .subjects = {kCounter, kMonotonic, kSystemCall, kMetronome},
      .sizes = "a metronome's resolution in microseconds: 100, 250, 1000, 10000"};
  return bench_main(argc, argv, choices, &run_bench);
}

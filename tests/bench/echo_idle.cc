#include "echo_idle.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "echo_cases.h"
#include "echo_load.h"

namespace pinion::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kServersOfEach = 2;
/// All are asked in the beginning of a round, so that each has been idle for a second and more.
constexpr std::chrono::seconds kRound{2};
constexpr std::chrono::seconds kAsking{1};

/// A server and the load's one connection to it.
struct Pair {
  Pair(const EchoSubject& subject, int cpu) : server(subject, cpu), error(server.error()) {
    if (error.empty()) error = load.connect(server.port(), 1);
  }

  EchoServer server;
  EchoLoad load;
  std::string error;
};

/// The load sleeps until shortly before: what is measured is the server's waking, not its own.
LoadFigures ask_at(Clock::time_point when, EchoLoad& load) {
  std::this_thread::sleep_until(when - std::chrono::milliseconds{5});
  while (Clock::now() < when) continue;
  return load.run_once(kOpenSize);
}

}  // namespace

IdleFigures measure_first_after_idle(const std::vector<EchoSubject>& subjects, int cpu,
                                     std::size_t samples,
                                     const std::function<void(const std::string&)>& progress) {
  IdleFigures figures;
  figures.latencies_ns.resize(subjects.size());
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::size_t i = 0; i < kServersOfEach * subjects.size(); ++i) {
    pairs.push_back(std::make_unique<Pair>(subjects[i % subjects.size()], cpu));
    figures.error = pairs.back()->error;
    if (!figures.error.empty()) return figures;
  }
  // What the first round says does not count: before it, the servers were not idle. Who was asked
  // shortly before somebody else warms the cpu for him, so each round has an order of its own.
  const std::size_t rounds = 1 + (samples + kServersOfEach - 1) / kServersOfEach;
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(1);
  const Clock::time_point begin = Clock::now();
  for (std::size_t round = 0; round < rounds; ++round) {
    progress(
        fmt::format("first after idle, {}/{} s", kRound.count() * round, kRound.count() * rounds));
    std::ranges::shuffle(order, random);
    for (std::size_t turn = 0; turn < order.size(); ++turn) {
      const std::chrono::nanoseconds at = kRound * round + kAsking * turn / order.size();
      const std::size_t asked = order[turn];
      const LoadFigures one = ask_at(begin + at, pairs[asked]->load);
      figures.error = one.error;
      if (!figures.error.empty()) return figures;
      if (round == 0) continue;
      figures.latencies_ns[asked % subjects.size()].push_back(one.latencies_ns.front());
    }
  }
  for (std::vector<double>& latencies : figures.latencies_ns) std::ranges::sort(latencies);
  return figures;
}

}  // namespace pinion::bench

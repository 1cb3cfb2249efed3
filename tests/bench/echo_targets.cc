#include "echo_targets.h"

#include <fmt/format.h>

#include <string>

#include "echo_cases.h"

namespace pinion::bench {
namespace {

/// The median of the paired quotients subject / base has a bound, from above or from below.
struct Target {
  std::string case_name;
  std::size_t n = 0;
  std::string metric;
  std::string subject;
  std::string base;
  double bound = 0;
  bool at_most = true;
};

std::vector<Target> closed_targets(const std::string& case_name, std::size_t n) {
  std::vector<Target> targets = {
      {case_name, n, "cpu_per_request", "pinion", "raw_uring_bare", 1.05, true}};
  for (const char* peer : {"raw_epoll", "libuv", "libevent", "asio_epoll"}) {
    targets.push_back({case_name, n, "cpu_per_request", peer, "pinion", 1.5, false});
  }
  targets.push_back({case_name, n, "cpu_per_request", "asio_uring", "pinion", 1.1, false});
  return targets;
}

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (const ClosedCase& closed : closed_cases()) {
    for (const Target& target : closed_targets(closed.name, closed.connections)) {
      targets.push_back(target);
    }
  }
  const auto at_most = [&targets](const std::string& case_name, std::size_t n, const char* subject,
                                  double bound, const char* base) {
    targets.push_back({case_name, n, "latency_p99", subject, base, bound, true});
  };
  at_most(kOpenCase, kOpenConnections, "pinion_spin", 1.2, "raw_uring_spin_bare");
  at_most(kOpenCase, kOpenConnections, "pinion_adaptive", 1.5, "pinion_spin");
  at_most(kIdleCase, kIdleConnections, "pinion", 1.2, "raw_uring_bare");
  at_most(kIdleCase, kIdleConnections, "pinion_adaptive", 1.2, "raw_uring_bare");
  return targets;
}

TargetOutcome check(const Report& report, const Target& target) {
  const std::string what = fmt::format(
      "{:<17} {:<15} {:<15} {} {:.2f} x {:<19}", target.case_name, target.metric, target.subject,
      target.at_most ? "at most " : "at least", target.bound, target.base);
  const Row* row = report.find({target.case_name, target.n, target.metric, target.subject});
  const Row* base = report.find({target.case_name, target.n, target.metric, target.base});
  if (row == nullptr || base == nullptr) return {TargetOutcome::State::not_measured, what};
  const Summary ratio = Report::ratio(row, base);
  const bool met = target.at_most ? ratio.median <= target.bound : ratio.median >= target.bound;
  return {met ? TargetOutcome::State::met : TargetOutcome::State::missed,
          fmt::format("{} {:>5.2f} [{:.2f}, {:.2f}]  ({:.2f} and {:.2f} {})", what, ratio.median,
                      ratio.min, ratio.max, row->summary.median, base->summary.median, row->unit)};
}

}  // namespace

std::vector<TargetOutcome> check_echo_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const Target& target : all_targets()) outcomes.push_back(check(report, target));
  return outcomes;
}

}  // namespace pinion::bench

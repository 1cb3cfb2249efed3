#include "stack_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "stack_run.h"
#include "support/summary.h"

namespace pinion::bench {
namespace {

using State = TargetOutcome::State;

TargetOutcome fewer_than_lwip(const Report& report, const char* case_name, const char* metric) {
  constexpr double kTimes = 2;
  const std::string text = fmt::format("{:<7} {:<18} 1 connection: at least {} x fewer than lwip",
                                       case_name, metric, kTimes);
  const Row* const ours = report.find({case_name, kOneConnection, metric, "pinion"});
  const Row* const theirs = report.find({case_name, kOneConnection, metric, "lwip"});
  if (ours == nullptr || theirs == nullptr) return {State::not_measured, text};
  const Summary ratio = Report::ratio(theirs, ours);
  return {ratio.median >= kTimes ? State::met : State::missed,
          fmt::format("{}: {:.2f}  ({:.0f} and {:.0f})", text, ratio.median, ours->summary.median,
                      theirs->summary.median)};
}

/// In bursts of one: how many connections a longer burst belongs to would count otherwise.
TargetOutcome no_more_with_many(const Report& report, const char* case_name) {
  constexpr double kTimes = 1.1;
  const char* const metric = kStackInstructionsAlone;
  const std::string text = fmt::format("{:<7} {:<18} 10,000 connections: at most {} x those of 1",
                                       case_name, metric, kTimes);
  const Row* const one = report.find({case_name, kOneConnection, metric, "pinion"});
  const Row* const many = report.find({case_name, kManyConnections, metric, "pinion"});
  if (one == nullptr || many == nullptr) return {State::not_measured, text};
  const Summary ratio = Report::ratio(many, one);
  return {ratio.median <= kTimes ? State::met : State::missed,
          fmt::format("{}: {:.3f}  ({:.0f} and {:.0f})", text, ratio.median, many->summary.median,
                      one->summary.median)};
}

/// By rounds: what a million adds, over what its cache misses would take one after the other.
TargetOutcome only_misses(const Report& report, const char* case_name) {
  const std::string text =
      fmt::format("{:<7} {:<18} from 1,000 to 1,000,000 connections: at most its cache misses",
                  case_name, kStackNs);
  const Row* const few = report.find({case_name, kWarmConnections, kStackNs, "pinion"});
  const Row* const million = report.find({case_name, kMillionConnections, kStackNs, "pinion"});
  const Row* const lines = report.find({case_name, kColdConnections, kStackLines, "pinion"});
  const Row* const miss = report.find({kMemoryCase, kMillionConnections, kMemoryMiss, "floor"});
  if (few == nullptr || million == nullptr || lines == nullptr || miss == nullptr) {
    return {State::not_measured, text};
  }
  std::vector<double> added;
  std::vector<double> shares;
  const std::size_t rounds =
      std::min({few->samples.size(), million->samples.size(), miss->samples.size()});
  for (std::size_t i = 0; i < rounds; ++i) {
    added.push_back(million->samples[i] - few->samples[i]);
    shares.push_back(added.back() / (lines->summary.median * miss->samples[i]));
  }
  const Summary share = summarise(std::move(shares));
  return {share.median <= 1 ? State::met : State::missed,
          fmt::format("{}: {:.2f} [{:.2f}, {:.2f}] of them  (+{:.0f} ns; {:.1f} lines, {:.0f} ns "
                      "each)",
                      text, share.median, share.min, share.max, summarise(added).median,
                      lines->summary.median, miss->summary.median)};
}

}  // namespace

std::vector<TargetOutcome> check_stack_targets(const Report& report) {
  std::vector<TargetOutcome> outcomes;
  for (const StackCase what : kStackCases) {
    for (const char* const metric : {kStackInstructions, kStackInstructionsAlone}) {
      // The requests of one connection come one by one.
      if (what == StackCase::request && metric == kStackInstructionsAlone) continue;
      outcomes.push_back(fewer_than_lwip(report, to_string(what), metric));
    }
  }
  for (const StackCase what : kStackCases) {
    outcomes.push_back(no_more_with_many(report, to_string(what)));
  }
  for (const StackCase what : kStackCases) {
    outcomes.push_back(only_misses(report, to_string(what)));
  }
  return outcomes;
}

}  // namespace pinion::bench

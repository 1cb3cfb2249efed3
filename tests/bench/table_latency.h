#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <pinion/lib/random.h>

#include "peers/subject.h"
#include "support/cycle_clock.h"
#include "timer_metrics.h"
#include "timer_workload.h"

/// What single calls take, where timer_metrics.h has the mean of many: each call stands between two
/// fenced reads of the counter, whose own cost is subtracted. So no call overlaps with the next,
/// and each waits for its own cache misses.

namespace pinion::bench {

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
};

/// Of the cycles that calls took, in nanoseconds.
inline Percentiles percentiles(std::vector<std::uint64_t> cycles, const CycleClock& clock) {
  if (cycles.empty()) return {};
  std::ranges::sort(cycles);
  const auto at = [&](std::size_t per_mille) {
    return clock.elapsed_ns(0, cycles[(cycles.size() * per_mille + 999) / 1'000 - 1]);
  };
  return {.p50 = at(500), .p99 = at(990), .p999 = at(999)};
}

struct LatencyFigures {
  Percentiles insert;
  Percentiles cancel;
};

/// At a steady number of live timers: single inserts and single cancels, of entries that lie
/// anywhere in memory.
template <Subject S>
class LatencyRun {
 public:
  LatencyRun(const Workload& work, std::uint64_t seed)
      : work_(work), random_(seed), slots_(work.order), subject_(build<S>(work)) {}

  LatencyFigures run(std::size_t operations, const CycleClock& clock) {
    run_batch(work_.spare);  // allocators warm up, and every page has been touched
    inserts_.clear();
    cancels_.clear();
    inserts_.reserve(operations);
    cancels_.reserve(operations);
    while (inserts_.size() < operations) {
      run_batch(std::min(work_.spare, operations - inserts_.size()));
    }
    return {.insert = percentiles(std::move(inserts_), clock),
            .cancel = percentiles(std::move(cancels_), clock)};
  }

 private:
  void run_batch(std::size_t count) {
    const std::uint32_t* const spare = slots_.data() + work_.live;
    const std::uint32_t* const delays = work_.delays.data() + random_.below(work_.live);
    if (work_.live >= kColdFrom) evict_caches();
    stamp(count, inserts_,
          [&](std::size_t i) { subject_->arm(spare[i], work_.start + delays[i]); });
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(slots_[work_.live + i], slots_[random_.below(work_.live + i + 1)]);
    }
    if (work_.live >= kColdFrom) evict_caches();
    stamp(count, cancels_, [&](std::size_t i) { subject_->cancel(spare[i]); });
  }

  template <class Operation>
  static void stamp(std::size_t count, std::vector<std::uint64_t>& cycles, Operation operation) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t begin = read_cycles_fenced();
      operation(i);
      keep_memory();
      cycles.push_back(read_cycles_fenced() - begin);
    }
  }

  const Workload& work_;
  Random random_;
  std::vector<std::uint32_t> slots_;  ///< entries: the armed ones, then the spare ones
  std::unique_ptr<S> subject_;
  std::vector<std::uint64_t> inserts_;
  std::vector<std::uint64_t> cancels_;
};

}  // namespace pinion::bench

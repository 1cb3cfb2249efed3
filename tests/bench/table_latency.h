#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <pinion/lib/assert.h>
#include <pinion/lib/random.h>

#include "peers/subject.h"
#include "support/cycle_clock.h"
#include "timer_metrics.h"
#include "timer_workload.h"

/// What single calls take, where timer_metrics.h has the mean of many: each call stands between two
/// fenced reads of the counter, whose own cost is subtracted. So no call overlaps with the next,
/// and each waits for its own cache misses. The caller's object has been touched before, as by a
/// caller that is at work on it: what is missed is the structure's own.

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

/// How inserts and cancels follow one another. The caller's objects lie anywhere in memory. So do
/// the slots of a structure that keeps its own (a slab, a heap) in bursts; an insert of churn gets
/// the slot that the cancel before it has just touched.
enum class CallOrder {
  churn,   ///< One insert, one cancel of a random live timer: their number stays what it is.
  bursts,  ///< A quarter as many inserts as are live, then as many cancels.
};

template <Subject S>
class LatencyRun {
 public:
  LatencyRun(const Workload& work, std::uint64_t seed)
      : work_(work), random_(seed), slots_(work.order), subject_(build<S>(work)) {}

  LatencyFigures run(CallOrder order, std::size_t operations, const CycleClock& clock) {
    run_burst(work_.spare);  // allocators warm up, and every page has been touched
    inserts_.clear();
    cancels_.clear();
    inserts_.reserve(operations);
    cancels_.reserve(operations);
    while (inserts_.size() < operations) {
      if (order == CallOrder::churn) {
        run_pair();
      } else {
        run_burst(std::min(work_.spare, operations - inserts_.size()));
      }
    }
    check_live();
    return {.insert = percentiles(std::move(inserts_), clock),
            .cancel = percentiles(std::move(cancels_), clock)};
  }

 private:
  void run_pair() {
    std::uint32_t& spare = slots_[work_.live + random_.below(work_.spare)];
    std::uint32_t& live = slots_[random_.below(work_.live)];
    const Tick deadline = work_.start + work_.delays[random_.below(work_.live)];
    stamp(inserts_, spare, [&] { subject_->arm(spare, deadline); });
    std::swap(spare, live);
    stamp(cancels_, spare, [&] { subject_->cancel(spare); });
  }

  void run_burst(std::size_t count) {
    const std::uint32_t* const spare = slots_.data() + work_.live;
    const std::uint32_t* const delays = work_.delays.data() + random_.below(work_.live);
    if (work_.live >= kColdFrom) evict_caches();
    for (std::size_t i = 0; i < count; ++i) {
      stamp(inserts_, spare[i], [&] { subject_->arm(spare[i], work_.start + delays[i]); });
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(slots_[work_.live + i], slots_[random_.below(work_.live + i + 1)]);
    }
    if (work_.live >= kColdFrom) evict_caches();
    for (std::size_t i = 0; i < count; ++i) {
      stamp(cancels_, spare[i], [&] { subject_->cancel(spare[i]); });
    }
  }

  /// Calls that refuse take little time.
  void check_live() const {
    if constexpr (requires { subject_->live(); }) {
      const bool every_call_worked = subject_->live() == work_.live;
      PINION_ASSERT(every_call_worked);
    }
  }

  template <class Operation>
  void stamp(std::vector<std::uint64_t>& cycles, std::uint32_t index, Operation operation) {
    subject_->touch(index);
    const std::uint64_t begin = read_cycles_fenced();
    operation();
    keep_memory();
    cycles.push_back(read_cycles_fenced() - begin);
  }

  const Workload& work_;
  Random random_;
  std::vector<std::uint32_t> slots_;  ///< entries: the armed ones, then the spare ones
  std::unique_ptr<S> subject_;
  std::vector<std::uint64_t> inserts_;
  std::vector<std::uint64_t> cancels_;
};

}  // namespace pinion::bench

#include "table_subjects.h"

#include "peers/multimap_timers.h"
#include "peers/pinion_wheel.h"
#include "peers/table_timers.h"
#ifdef PINION_BENCH_RTE
#include "peers/rte_timers.h"
#endif

namespace pinion::bench {
namespace {

[[maybe_unused]] bool rte_ready = false;

template <Subject S>
TableSubject make_subject(const char* name) {
  return {.name = name,
          .largest_in_full = S::kLargestInFull,
          .measure = [](const Workload& work, CallOrder order, std::size_t operations,
                        const CycleClock& clock, std::uint64_t seed) {
            return LatencyRun<S>(work, seed).run(order, operations, clock);
          }};
}

}  // namespace

std::vector<std::string> table_subject_names() {
  return {"pinion", "floor", "multimap", "rte_timer"};
}

std::vector<std::string> prepare_table_subjects([[maybe_unused]] int cpu) {
  std::vector<std::string> left_out;
#ifdef PINION_BENCH_RTE
  const std::string why = RteTimers::prepare(cpu);
  rte_ready = why.empty();
  if (!rte_ready) left_out.push_back("rte_timer: " + why);
#else
  left_out.emplace_back("rte_timer: not built in; fix: apt-get install libdpdk-dev");
#endif
  return left_out;
}

std::vector<TableSubject> table_subjects() {
  std::vector<TableSubject> subjects = {make_subject<TableTimers>("pinion"),
                                        make_subject<PinionWheel>("floor"),
                                        make_subject<MultimapTimers>("multimap")};
#ifdef PINION_BENCH_RTE
  if (rte_ready) subjects.push_back(make_subject<RteTimers>("rte_timer"));
#endif
  return subjects;
}

}  // namespace pinion::bench

#include "timer_subjects.h"

#include "peers/floor_subject.h"
#include "peers/heap4.h"
#include "peers/multimap_timers.h"
#include "peers/pinion_wheel.h"
#include "peers/plain_wheel.h"
#ifdef PINION_BENCH_RTE
#include "peers/rte_timers.h"
#endif
#ifdef PINION_BENCH_LIBUV
#include "peers/libuv_timers.h"
#endif
#ifdef PINION_BENCH_ASIO
#include "peers/asio_timers.h"
#endif

namespace pinion::bench {
namespace {

bool rte_ready = false;

template <Subject S>
TimerSubject make_subject() {
  return {.name = S::kName,
          .largest_in_full = S::kLargestInFull,
          .largest_at_all = S::kLargestAtAll,
          .fires = std::string(S::kName) != FloorSubject::kName,
          .drain = &drain<S>,
          .steady = [](const Workload& work, const CycleClock& clock,
                       std::uint64_t seed) { return SteadyRun<S>(work, clock, seed).run(); },
          .extend = [](const ExtendWorkload& work,
                       const CycleClock& clock) { return ExtendRun<S>(work, clock).run(); }};
}

}  // namespace

std::vector<std::string> timer_subject_names() {
  return {"pinion", "floor", "plain_wheel", "heap4", "rte_timer", "libuv", "asio", "multimap"};
}

std::vector<std::string> prepare_subjects([[maybe_unused]] int cpu) {
  std::vector<std::string> left_out;
#ifdef PINION_BENCH_RTE
  const std::string why = RteTimers::prepare(cpu);
  rte_ready = why.empty();
  if (!rte_ready) left_out.push_back("rte_timer: " + why);
#else
  left_out.emplace_back("rte_timer: not built in; fix: apt-get install libdpdk-dev");
#endif
#ifndef PINION_BENCH_LIBUV
  left_out.emplace_back("libuv: not built in; fix: apt-get install libuv1-dev");
#endif
#ifndef PINION_BENCH_ASIO
  left_out.emplace_back("asio: not built in; fix: apt-get install libboost-dev");
#endif
  return left_out;
}

std::vector<TimerSubject> timer_subjects() {
  std::vector<TimerSubject> subjects = {make_subject<PinionWheel>(), make_subject<FloorSubject>(),
                                        make_subject<PlainWheel>(), make_subject<Heap4>()};
#ifdef PINION_BENCH_RTE
  if (rte_ready) subjects.push_back(make_subject<RteTimers>());
#endif
#ifdef PINION_BENCH_LIBUV
  subjects.push_back(make_subject<LibuvTimers>());
#endif
#ifdef PINION_BENCH_ASIO
  subjects.push_back(make_subject<AsioTimers>());
#endif
  subjects.push_back(make_subject<MultimapTimers>());
  return subjects;
}

}  // namespace pinion::bench

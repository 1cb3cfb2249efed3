#include "timer_subjects.h"

#include "subjects/subjects.h"
#ifdef PINION_BENCH_RTE
#include "peers/rte_timers.h"
#endif

namespace pinion::bench {
namespace {

[[maybe_unused]] bool rte_ready = false;

}  // namespace

std::vector<std::string> timer_subject_names() {
  return {"pinion",    "floor", "plain_wheel", "heap4",   "heap4_lazy",
          "rte_timer", "libuv", "asio",        "multimap"};
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
  std::vector<TimerSubject> subjects = {pinion_subject(), floor_subject(), plain_wheel_subject(),
                                        heap4_subject(), heap4_lazy_subject()};
#ifdef PINION_BENCH_RTE
  if (rte_ready) subjects.push_back(rte_timer_subject());
#endif
#ifdef PINION_BENCH_LIBUV
  subjects.push_back(libuv_subject());
#endif
#ifdef PINION_BENCH_ASIO
  subjects.push_back(asio_subject());
#endif
  subjects.push_back(multimap_subject());
  return subjects;
}

}  // namespace pinion::bench

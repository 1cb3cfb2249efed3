#include "peers/wake_deque.h"
#include "wake_channel.h"
#include "wake_pinion.h"
#ifdef PINION_BENCH_RTE
#include "peers/wake_rte.h"
#endif

/// The subjects of the wake bench, by name.

namespace pinion::bench {

std::vector<WakeSubject> wake_subjects() {
  std::vector<WakeSubject> subjects;
  for (const bool spins : {true, false}) {
    for (const bool from_lcore : {false, true}) {
      subjects.push_back(
          {from_lcore ? "pinion_lcore" : "pinion", spins, [=](Arrivals& arrivals, int cpu) {
             return make_pinion_channel(arrivals, cpu, spins, from_lcore);
           }});
    }
#ifdef PINION_BENCH_RTE
    subjects.push_back({"rte_ring", spins, [=](Arrivals& arrivals, int cpu) {
                          return make_rte_channel(arrivals, cpu, spins);
                        }});
#endif
  }
  const auto deque = [&subjects](const char* name, DequeTarget target) {
    subjects.push_back({name, target != DequeTarget::sleeps, [=](Arrivals& arrivals, int cpu) {
                          return make_deque_channel(arrivals, cpu, target);
                        }});
  };
  deque("eventfd_poll", DequeTarget::polls_eventfd);
  deque("deque_poll", DequeTarget::polls_deque);
  deque("eventfd_deque", DequeTarget::sleeps);
  return subjects;
}

}  // namespace pinion::bench

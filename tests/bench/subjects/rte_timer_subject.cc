#include "peers/rte_timers.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject rte_timer_subject() {
  return make_subject<RteTimers>();
}

}  // namespace pinion::bench

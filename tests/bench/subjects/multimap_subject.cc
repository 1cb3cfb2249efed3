#include "peers/multimap_timers.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject multimap_subject() {
  return make_subject<MultimapTimers>();
}

}  // namespace pinion::bench

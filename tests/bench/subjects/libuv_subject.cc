#include "peers/libuv_timers.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject libuv_subject() {
  return make_subject<LibuvTimers>();
}

}  // namespace pinion::bench

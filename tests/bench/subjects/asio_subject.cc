#include "peers/asio_timers.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject asio_subject() {
  return make_subject<AsioTimers>();
}

}  // namespace pinion::bench

#include "peers/plain_wheel.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject plain_wheel_subject() {
  return make_subject<PlainWheel>();
}

}  // namespace pinion::bench

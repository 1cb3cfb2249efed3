#include "peers/pinion_wheel.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject pinion_subject() {
  return make_subject<PinionWheel>();
}

}  // namespace pinion::bench

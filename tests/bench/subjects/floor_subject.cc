#include "peers/floor_subject.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject floor_subject() {
  return make_subject<FloorSubject>();
}

}  // namespace pinion::bench

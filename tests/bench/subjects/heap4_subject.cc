#include "peers/heap4.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject heap4_subject() {
  return make_subject<Heap4>();
}

}  // namespace pinion::bench

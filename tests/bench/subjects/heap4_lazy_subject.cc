#include "peers/heap4.h"
#include "subjects/make_subject.h"
#include "subjects/subjects.h"

namespace pinion::bench {

TimerSubject heap4_lazy_subject() {
  return make_subject<Heap4Lazy>();
}

}  // namespace pinion::bench

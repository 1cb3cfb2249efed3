#include "task_subjects.h"

/// The subjects of the bench of tasks, by name.

namespace pinion::bench {

std::vector<TaskSubject> task_subjects() {
  std::vector<TaskSubject> subjects = {{"pinion", &make_pinion_tasks},
                                       {"floor", &make_queued_tasks},
                                       {"bare_floor", &make_bare_queued_tasks}};
#ifdef PINION_BENCH_ASIO_TASKS
  subjects.push_back({"asio", &make_asio_tasks});
#endif
  return subjects;
}

}  // namespace pinion::bench

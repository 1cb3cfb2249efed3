#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Who runs tasks in the bench of tasks: pinion, Asio's coroutines, and a queue of functions.
///
/// Each works on the calling thread, and returns when all of its tasks have ended. A task does
/// nothing but count, so that what is measured is what it costs to have one.

namespace pinion::bench {

class TaskRunner {
 public:
  virtual ~TaskRunner() = default;

  /// Starts `tasks` tasks and runs them to their ends.
  virtual void spawn(std::size_t tasks) = 0;

  /// The same with tasks that let each other run `yields` times each.
  virtual void yield(std::size_t tasks, std::size_t yields) = 0;

  /// How often a task was begun or went on, to be compared with what was asked for.
  [[nodiscard]] std::size_t steps() const { return steps_; }

 protected:
  std::size_t steps_ = 0;
};

struct TaskSubject {
  std::string name;
  std::function<std::unique_ptr<TaskRunner>()> make;
};

/// Those that were built.
std::vector<TaskSubject> task_subjects();

std::unique_ptr<TaskRunner> make_pinion_tasks();
/// A ring of function pointers and arguments. The argument is the task's state, from the heap, as
/// coroutines have a frame.
std::unique_ptr<TaskRunner> make_queued_tasks();
/// The same with states that are there already: what the ring alone costs.
std::unique_ptr<TaskRunner> make_bare_queued_tasks();
std::unique_ptr<TaskRunner> make_asio_tasks();

/// What a waiting task takes beside its frame at most, and all that it takes of the memory of the
/// process.
struct WaitingTask {
  double overhead_bytes = 0;
  double resident_bytes = 0;
};
WaitingTask weigh_waiting_tasks(std::size_t tasks);

}  // namespace pinion::bench

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include <pinion/eventloop/task.h>

#include "task_subjects.h"
#include "task_targets.h"

/// The subjects of the bench of tasks do what they are asked for, and are judged by their pairs.

namespace pinion::bench {
namespace {

TEST(TaskBench, EverySubjectRunsEveryTaskToItsEnd) {
  for (const TaskSubject& subject : task_subjects()) {
    SCOPED_TRACE(subject.name);
    const auto runner = subject.make();
    for (const std::size_t tasks : {1U, 100U, 3'000U}) {
      const std::size_t before = runner->steps();
      runner->spawn(tasks);
      EXPECT_EQ(runner->steps() - before, tasks);
      runner->yield(tasks, 3);
      EXPECT_EQ(runner->steps() - before, tasks * 5);
    }
  }
}

TEST(TaskBench, WaitingTasksAreWeighed) {
  const WaitingTask weight = weigh_waiting_tasks(10'000);
  EXPECT_EQ(weight.overhead_bytes, sizeof(detail::TaskContext) + sizeof(detail::FrameHeader) + 8)
      << "frames are multiples of 8, places in the pool of 16";
  EXPECT_GT(weight.resident_bytes, sizeof(detail::TaskContext) + sizeof(detail::FrameHeader));
}

TEST(TaskBench, TargetsAreJudgedByPairs) {
  Report report("tasks", {});
  for (const double ns : {10.0, 20.0}) {
    report.add_sample({kSpawnCase, kFewTasks, "step", "pinion"}, "ns", ns);
    report.add_sample({kSpawnCase, kFewTasks, "step", "asio"}, "ns", 5.5 * ns);
    report.add_sample({kSpawnCase, kFewTasks, "step", "floor"}, "ns", ns / 2.5);
    report.add_sample({kSpawnCase, kFewTasks, "step", "bare_floor"}, "ns", ns / 3.5);
    report.add_sample({kYieldCase, kManyTasks, "step", "pinion"}, "ns", ns);
    report.add_sample({kYieldCase, kManyTasks, "step", "asio"}, "ns", 4.5 * ns);
    report.add_sample({kYieldCase, kManyTasks, "step", "floor"}, "ns", ns / 3.5);
    report.add_sample({kYieldCase, kManyTasks, "step", "bare_floor"}, "ns", ns / 2.5);
  }
  report.add_sample({kWaitingCase, kWaitingTasks, "overhead", "pinion"}, "bytes", 100);
  std::string states;
  for (const TargetOutcome& outcome : check_task_targets(report)) {
    states += outcome.state == TargetOutcome::State::met      ? 'y'
              : outcome.state == TargetOutcome::State::missed ? 'n'
                                                              : '-';
  }
  EXPECT_EQ(states, "yyn------nnyn");
}

}  // namespace
}  // namespace pinion::bench

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/timers/time_source.h>

#include "task_subjects.h"

/// Pinion's tasks, and what one that waits takes.

namespace pinion::bench {
namespace {

using namespace std::chrono_literals;

template <class T>
T or_exit(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

Task<> count(std::size_t& steps) {
  ++steps;
  co_return;
}

Task<> count_and_yield(std::size_t& steps, std::size_t yields) {
  ++steps;
  for (std::size_t i = 0; i < yields; ++i) {
    co_await yield();
    ++steps;
  }
}

class PinionTasks final : public TaskRunner {
 public:
  PinionTasks()
      : time_(or_exit(TscTime::create())), loop_(or_exit(Loop::create(LoopOptions{}, time_))) {
    static_cast<void>(or_exit(loop_->adopt_thread().map([] { return true; })));
  }

  void spawn(std::size_t tasks) override {
    for (std::size_t i = 0; i < tasks; ++i) loop_->spawn(count(steps_));
    run();
  }

  void yield(std::size_t tasks, std::size_t yields) override {
    for (std::size_t i = 0; i < tasks; ++i) loop_->spawn(count_and_yield(steps_, yields));
    run();
  }

 private:
  void run() {
    while (loop_->stats().tasks_live > 0) loop_->turn();
  }

  TscTime time_;
  std::unique_ptr<Loop> loop_;
};

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// What a task takes beside its frame, for the worst size that frames of waiting tasks have: its
/// context, and what the pool gives beyond what the frame needs.
std::size_t worst_overhead(FramePool& pool) {
  constexpr std::size_t kLeastFrame = 64;
  constexpr std::size_t kLargestFrame = 512;
  std::size_t worst = 0;
  for (std::size_t frame = kLeastFrame; frame <= kLargestFrame; frame += alignof(void*)) {
    const std::size_t room = pool.room_for(frame + sizeof(detail::FrameHeader));
    worst = std::max(worst, room + sizeof(detail::TaskContext) - frame);
  }
  return worst;
}

Task<> wait_long() {
  co_await sleep_for(1h);
}

}  // namespace

std::unique_ptr<TaskRunner> make_pinion_tasks() {
  return std::make_unique<PinionTasks>();
}

WaitingTask weigh_waiting_tasks(std::size_t tasks) {
  TscTime time = or_exit(TscTime::create());
  const auto loop = or_exit(Loop::create(LoopOptions{}, time));
  loop->turn();
  const double before = resident_bytes();
  for (std::size_t i = 0; i < tasks; ++i) loop->spawn(wait_long());
  while (loop->turn() > 0) {
  }
  WaitingTask result{.overhead_bytes = static_cast<double>(worst_overhead(loop->frame_pool()))};
  if (loop->stats().tasks_live == tasks) {
    result.resident_bytes = (resident_bytes() - before) / static_cast<double>(tasks);
  }
  return result;
}

}  // namespace pinion::bench

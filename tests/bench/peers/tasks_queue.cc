#include <cstddef>
#include <memory>
#include <vector>

#include "task_subjects.h"

/// The floor: a ring of functions to call, each with its argument.

namespace pinion::bench {
namespace {

struct State;

struct Call {
  void (*function)(State&);
  State* state;
};

class Ring {
 public:
  void push(Call call) {
    if (count_ == calls_.size()) grow();
    calls_[(first_ + count_++) & (calls_.size() - 1)] = call;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  Call pop() {
    const Call call = calls_[first_];
    first_ = (first_ + 1) & (calls_.size() - 1);
    --count_;
    return call;
  }

 private:
  void grow() {
    std::vector<Call> larger(calls_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) {
      larger[i] = calls_[(first_ + i) & (calls_.size() - 1)];
    }
    calls_.swap(larger);
    first_ = 0;
  }

  std::vector<Call> calls_ = std::vector<Call>(1'024);
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

/// As much as the frame of a small coroutine.
struct State {
  Ring* ring;
  std::size_t* steps;
  std::size_t yields_left;
  bool owned;
  std::size_t rest[12];
};

void step(State& state) {
  ++*state.steps;
  if (state.yields_left > 0) {
    --state.yields_left;
    state.ring->push({&step, &state});
  } else if (state.owned) {
    delete &state;
  }
}

class QueuedTasks final : public TaskRunner {
 public:
  explicit QueuedTasks(bool bare) : bare_(bare) {}

  void spawn(std::size_t tasks) override { yield(tasks, 0); }

  void yield(std::size_t tasks, std::size_t yields) override {
    if (bare_ && states_.size() < tasks) states_.resize(tasks);
    for (std::size_t i = 0; i < tasks; ++i) {
      State* const state = bare_ ? &states_[i] : new State;
      state->ring = &ring_;
      state->steps = &steps_;
      state->yields_left = yields;
      state->owned = !bare_;
      ring_.push({&step, state});
    }
    while (!ring_.empty()) {
      const Call call = ring_.pop();
      call.function(*call.state);
    }
  }

 private:
  bool bare_;
  Ring ring_;
  std::vector<State> states_;
};

}  // namespace

std::unique_ptr<TaskRunner> make_queued_tasks() {
  return std::make_unique<QueuedTasks>(false);
}

std::unique_ptr<TaskRunner> make_bare_queued_tasks() {
  return std::make_unique<QueuedTasks>(true);
}

}  // namespace pinion::bench

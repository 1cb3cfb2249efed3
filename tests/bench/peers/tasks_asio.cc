#include <asio.hpp>

#include <cstddef>
#include <memory>

#include "task_subjects.h"

/// Asio's coroutines on an io_context that is told to be of one thread. Its executor is a concrete
/// type, so that no call goes through a virtual function.

namespace pinion::bench {
namespace {

using Executor = asio::io_context::executor_type;
constexpr asio::use_awaitable_t<Executor> kAwaitable;

asio::awaitable<void, Executor> count(std::size_t& steps) {
  ++steps;
  co_return;
}

asio::awaitable<void, Executor> count_and_yield(Executor executor, std::size_t& steps,
                                                std::size_t yields) {
  ++steps;
  for (std::size_t i = 0; i < yields; ++i) {
    co_await asio::post(executor, kAwaitable);
    ++steps;
  }
}

class AsioTasks final : public TaskRunner {
 public:
  void spawn(std::size_t tasks) override {
    for (std::size_t i = 0; i < tasks; ++i) {
      asio::co_spawn(context_.get_executor(), count(steps_), asio::detached);
    }
    run();
  }

  void yield(std::size_t tasks, std::size_t yields) override {
    const Executor executor = context_.get_executor();
    for (std::size_t i = 0; i < tasks; ++i) {
      asio::co_spawn(executor, count_and_yield(executor, steps_, yields), asio::detached);
    }
    run();
  }

 private:
  void run() {
    context_.restart();
    context_.run();
  }

  asio::io_context context_{ASIO_CONCURRENCY_HINT_UNSAFE};
};

}  // namespace

std::unique_ptr<TaskRunner> make_asio_tasks() {
  return std::make_unique<AsioTasks>();
}

}  // namespace pinion::bench

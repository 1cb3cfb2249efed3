#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pinion/eventloop/runtime.h>

/// A runtime that serves while a test asks it for more lcores and for less.

namespace pinion::test {

/// What a request of Runtime said in the end. Any thread may wait for it, for a minute.
template <class T>
class Answer {
 public:
  std::function<void(Result<T>)> taker() {
    return [this](const Result<T>& result) {
      const std::scoped_lock lock(mutex_);
      EXPECT_FALSE(result_) << "told twice";
      result_ = result;
      changed_.notify_all();
    };
  }
  Result<T> wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes{1}, [this] { return result_.has_value(); })) {
      std::fputs("a request of the runtime has no answer\n", stderr);
      std::abort();  // It would go to a frame that is gone.
    }
    return *std::exchange(result_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<T>> result_;
};

inline unsigned any_cpu() {
  return first_cpus(1)->front();
}

/// So many lcores on one CPU, which any number may share.
inline RuntimeOptions lcores_on_one_cpu(std::size_t lcores) {
  RuntimeOptions options;
  options.cpus.assign(lcores, any_cpu());
  options.allow_shared_cpus = true;
  options.handle_signals = false;
  options.loop.idle = IdlePolicy::park;
  return options;
}

/// Runs on a thread of its own until it is stopped, which this does in the end.
class RunningLcores {
 public:
  /// Returns when every lcore is set up.
  RunningLcores(RuntimeOptions options, Runtime::Setup setup) {
    auto created = Runtime::create(std::move(options));
    if (!created) {
      ADD_FAILURE() << to_string(created.error());
      std::abort();
    }
    runtime_ = std::move(*created);
    thread_ = std::thread([this, setup = std::move(setup)] { report_ = runtime_->run(setup); });
    EXPECT_FALSE(drain(kNobody));  // What comes before run() is answered once all are set up.
  }
  ~RunningLcores() {
    if (thread_.joinable()) stop();
  }
  RunningLcores(const RunningLcores&) = delete;
  RunningLcores& operator=(const RunningLcores&) = delete;

  Runtime* operator->() { return runtime_.get(); }

  Result<unsigned> add(unsigned cpu = any_cpu()) {
    Answer<unsigned> answer;
    runtime_->add_lcore(cpu, answer.taker());
    return answer.wait();
  }
  Result<Ending> drain(unsigned index) {
    Answer<Ending> answer;
    runtime_->drain_lcore(index, answer.taker());
    return answer.wait();
  }

  RunReport stop() {
    runtime_->request_stop();
    return join();
  }
  RunReport join() {
    if (thread_.joinable()) thread_.join();
    EXPECT_TRUE(report_);
    return report_.value_or(RunReport{});
  }

 private:
  static constexpr unsigned kNobody = 1'000'000;

  std::unique_ptr<Runtime> runtime_;
  Result<RunReport> report_ = fail(ErrorCode::cancelled, "not over");
  std::thread thread_;
};

}  // namespace pinion::test

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pinion/eventloop/runtime.h>

/// Groups of tasks of lcores that come and go: each life of a loop begins with the default group.

namespace pinion {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kOtherShares = 700;

/// What a set-up found and made, looked at when no lcore runs any more.
struct Lives {
  int begun = 0;
  int with_both_groups = 0;
  int with_standard_shares = 0;
  int with_first_mode = 0;
};

Task<> wait_long() {
  co_await sleep_for(1h);
}

/// Two groups with a task each, other shares, another mode.
Result<> set_up(Lcore& lcore, Lives& lives) {
  Loop& loop = lcore.loop();
  const auto& stats = loop.stats();
  ++lives.begun;
  lives.with_standard_shares += stats.groups.front().shares == TaskGroup::kStandardShares ? 1 : 0;
  lives.with_first_mode += stats.submission.mode == SubmissionMode::throughput ? 1 : 0;
  const Result<TaskGroup> batch = loop.make_group("batch");
  const Result<TaskGroup> requests = loop.make_group("requests");
  if (!batch || !requests) return {};
  ++lives.with_both_groups;
  loop.spawn(wait_long(), "batch", *batch);
  loop.spawn(wait_long(), "requests", *requests);
  loop.default_group().set_shares(kOtherShares);
  loop.set_submission_mode(SubmissionMode::low_latency);
  return {};
}

/// A runtime whose lcore 1 comes and goes. It runs on a thread of its own.
class Lcores {
 public:
  explicit Lcores(Runtime::Setup setup) {
    RuntimeOptions options;
    options.cpus.assign(2, cpu_);
    options.allow_shared_cpus = true;
    options.handle_signals = false;
    options.loop.idle = IdlePolicy::park;
    options.loop.submission.mode = SubmissionMode::throughput;
    options.loop.drain_timeout = 1ms;  // The tasks wait for longer.
    auto created = Runtime::create(std::move(options));
    if (!created) std::abort();
    runtime_ = std::move(*created);
    thread_ = std::thread([this, setup = std::move(setup)] { EXPECT_TRUE(runtime_->run(setup)); });
    EXPECT_FALSE(drain(2));  // Answered by run(): then all are set up.
  }
  ~Lcores() { stop(); }
  Lcores(const Lcores&) = delete;
  Lcores& operator=(const Lcores&) = delete;

  void stop() {
    if (!thread_.joinable()) return;
    runtime_->request_stop();
    thread_.join();
  }
  bool drain(unsigned index) {
    std::optional<bool> told;
    runtime_->drain_lcore(index,
                          [&](const Result<Ending>& ending) { tell(told, ending.has_value()); });
    return wait(told);
  }
  bool add() {
    std::optional<bool> told;
    runtime_->add_lcore(cpu_,
                        [&](const Result<unsigned>& added) { tell(told, added.has_value()); });
    return wait(told);
  }

 private:
  void tell(std::optional<bool>& told, bool good) {
    const std::scoped_lock lock(mutex_);
    told = good;
    changed_.notify_all();
  }
  bool wait(const std::optional<bool>& told) {
    std::unique_lock lock(mutex_);
    const bool answered = changed_.wait_for(lock, 60s, [&] { return told.has_value(); });
    EXPECT_TRUE(answered);
    if (!answered) std::abort();  // The answer would go to a frame that is gone.
    return *told;
  }

  const unsigned cpu_ = first_cpus(1)->front();
  std::unique_ptr<Runtime> runtime_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

TEST(GroupLcores, EachLifeBeginsWithTheDefaultGroupAndTheModeOfTheOptions) {
  constexpr int kAgain = 20;
  Lives lives;
  Lcores lcores(
      [&](Lcore& lcore) { return lcore.index() == 1 ? set_up(lcore, lives) : Result<>(); });
  for (int i = 0; i < kAgain; ++i) {
    ASSERT_TRUE(lcores.drain(1));
    ASSERT_TRUE(lcores.add());
  }
  lcores.stop();
  EXPECT_EQ(lives.begun, kAgain + 1);
  EXPECT_EQ(lives.with_both_groups, lives.begun);
  EXPECT_EQ(lives.with_standard_shares, lives.begun);
  EXPECT_EQ(lives.with_first_mode, lives.begun);
}

}  // namespace
}  // namespace pinion

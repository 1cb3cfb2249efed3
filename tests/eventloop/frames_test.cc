#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>
#include <pinion/test/own_new.h>

#include "loop_fixture.h"
#include "when_tasks.h"

/// What tasks answer when there is no memory for a frame: the pool is as good as none, and this
/// program's heap refuses what a frame is asked from while `exhausted` is set.

namespace {
bool exhausted = false;
}

#if PINION_TEST_OWN_NEW
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return exhausted ? nullptr : std::malloc(size);
}
void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace pinion {
namespace {

using namespace std::chrono_literals;
using test::after;

class FramesTest : public test::ManualLoop {
 protected:
  FramesTest() {
    LoopOptions options;
    options.frame_pool_bytes = 1;
    loop.reset();
    loop = test::make_loop(time, options);
    loop->turn();
  }
  ~FramesTest() override { exhausted = false; }
};

TEST_F(FramesTest, BeyondThePoolFramesComeFromTheHeapAndAreCounted) {
  const TaskHandle task = loop->spawn([]() -> Task<> { co_await sleep_for(1ms); }());
  EXPECT_EQ(loop->frame_pool().stats().fallbacks, 1U);
  pass(5ms);
  EXPECT_TRUE(task.done());
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
}

TEST_F(FramesTest, WithoutMemorySpawnRefusesAndCounts) {
  PINION_TEST_NEEDS_OWN_NEW();
  exhausted = true;
  const auto task = []() -> Task<> { co_await yield(); };
  EXPECT_FALSE(loop->spawn(task()));
  EXPECT_EQ(loop->stats().tasks_refused, 1U);
}

TEST_F(FramesTest, WithoutMemoryCompositionsAnswerRefused) {
  PINION_TEST_NEEDS_OWN_NEW();
  bool done = false;
  const auto parent = [&]() -> Task<> {
    Task<int> made = after(1ms, 1);
    exhausted = true;
    const Task<int> empty = after(1ms, 2);
    EXPECT_FALSE(empty);
    const auto all = co_await when_all(std::move(made), after(1ms, 2));
    EXPECT_EQ(all.error(), TaskFailure::refused);
    const auto any = co_await when_any(after(1ms, 2), after(1ms, 2));
    EXPECT_EQ(any.error(), TaskFailure::refused);
    const auto bounded = co_await with_deadline(1ms, after(1ms, 2));
    EXPECT_EQ(bounded.error(), TaskFailure::refused);
    exhausted = false;
    const auto later = co_await when_all(after(1ms, 1), after(1ms, 2));
    EXPECT_TRUE(later);
    done = true;
  };
  loop->spawn(parent());
  pass(5ms);
  EXPECT_TRUE(done);
  EXPECT_EQ(loop->stats().tasks_refused, 3U);
  EXPECT_EQ(loop->frame_pool().stats().live, 0U);
}

using FramesDeathTest = FramesTest;

enum class Use : std::uint8_t { spawn, child, await };

/// A thread with a loop makes a task, and the loop of another thread is to run it.
void use_strange_frame(Use how) {
  ManualTime time{Instant{1h}};
  const auto maker = test::make_loop(time);
  maker->turn();
  Task<int> strange = after(1ms, 1);
  Task<> root = []() -> Task<> { co_return; }();
  std::thread([&] {
    const auto loop = test::make_loop(time);
    loop->turn();
    const auto parent = [&]() -> Task<> {
      if (how == Use::await) {
        const int result = co_await std::move(strange);
        EXPECT_EQ(result, 1);
      } else {
        const auto both = co_await when_all(std::move(strange), after(1ms, 2));
        EXPECT_TRUE(both);
      }
    };
    loop->spawn(how == Use::spawn ? std::move(root) : parent());
    loop->turn();
  }).join();
}

TEST(StrangeFramesDeathTest, ALoopRunsTasksOfItsOwnPoolOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Use how : {Use::spawn, Use::child, Use::await}) {
    EXPECT_DEATH(use_strange_frame(how), "made_on_the_thread_that_runs_it")
        << static_cast<int>(how);
  }
}

TEST_F(FramesDeathTest, WithoutMemoryACallEndsTheProcessWithTheRemedy) {
  PINION_TEST_NEEDS_OWN_NEW();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto parent = []() -> Task<> {
    exhausted = true;
    const int result = co_await after(1ms, 1);
    EXPECT_EQ(result, 1);
  };
  EXPECT_DEATH((loop->spawn(parent()), loop->turn()), "no memory.*\n.*fix: ");
}

}  // namespace
}  // namespace pinion

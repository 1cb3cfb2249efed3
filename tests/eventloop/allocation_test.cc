#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include <pinion/eventloop/call.h>
#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>

#include "loop_fixture.h"

/// Counts what goes to the heap while a loop is busy. Sanitizers bring their own malloc.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PINION_OTHER_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PINION_OTHER_MALLOC 1
#endif
#endif

namespace {
thread_local std::uint64_t allocations = 0;
}

#ifndef PINION_OTHER_MALLOC
extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* memory, std::size_t size) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t size) noexcept;

void* malloc(std::size_t size) noexcept {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++allocations;
  return __libc_memalign(alignment, size);
}
}
#endif

namespace pinion {
namespace {

using namespace std::chrono_literals;

class AllocationTest : public test::ManualLoop {};

struct Echoing : Message {
  explicit Echoing(Loop& owner) : Message(&on_message), loop(owner) {}
  static void on_message(Message& message) noexcept {
    Echoing& self = static_cast<Echoing&>(message);
    ++self.count;
    self.loop.post(self);
  }
  Loop& loop;
  std::uint64_t count = 0;
};

Task<int> child(int value) {
  co_await yield();
  co_return value;
}

Task<> short_lived(std::uint64_t& count) {
  co_await sleep_for(1ms);
  ++count;
}

Task<> long_lived() {
  co_await sleep_for(1h);
}

Task<> busy(Loop& loop, std::uint64_t& composed, std::uint64_t& spawned, std::uint64_t& ended) {
  for (;;) {
    const Wake wake = co_await sleep_for(1ms);
    if (wake == Wake::cancelled) break;
    co_await yield();
    static_cast<void>(co_await child(1));
    const auto both = co_await when_all(child(1), child(2));
    const auto race = co_await when_any(child(1), long_lived());
    const auto late = co_await with_deadline(100us, long_lived());
    co_await maybe_yield();
    if (both && race && !late) ++composed;
    if (loop.spawn(short_lived(ended))) ++spawned;
  }
}

TEST_F(AllocationTest, SleepsCallsSpawnsCompositionsAndMessagesAllocateNothing) {
#ifdef PINION_OTHER_MALLOC
  GTEST_SKIP() << "a sanitizer's malloc";
#endif
  constexpr int kTasks = 100;
  std::uint64_t spawned = 0;
  std::uint64_t ended = 0;
  std::uint64_t composed = 0;
  std::array<TaskHandle, kTasks> tasks;
  loop->turn();
  for (TaskHandle& task : tasks) task = loop->spawn(busy(*loop, composed, spawned, ended));
  Echoing message(*loop);
  loop->post(message);
  pass(100ms);
  const std::uint64_t before = allocations;
  const std::uint64_t ended_before = ended;
  const std::uint64_t composed_before = composed;
  pass(1s);
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_GE(ended - ended_before, 10'000U);
  EXPECT_GE(composed - composed_before, 10'000U);
  EXPECT_GE(message.count, 100'000U);
  EXPECT_EQ(loop->frame_pool().stats().fallbacks, 0U);
  void* (*volatile take)(std::size_t) = &std::malloc;  // Clang knows that plain calls can go.
  std::free(take(1));
  EXPECT_GT(allocations, before);  // The counter does count.
  for (const TaskHandle& task : tasks) finish(task);
  while (ended < spawned) pass(1ms);
  loop.reset();  // The message is still queued; it dies after the loop.
}

/// What the other loop's thread has allocated, asked by calls: through a lane that is full, and
/// past it.
Task<> call(CallLane& lane, Loop& target, std::uint64_t& there, std::uint64_t& calls) {
  for (;;) {
    const auto direct = co_await on(target, [] { return allocations; });
    const auto limited = co_await lane.on([] { return allocations; });
    const auto tried = co_await lane.try_on([] { return allocations; });
    if (!direct || !limited) break;
    there = std::max({there, *direct, *limited, tried.value_or(0)});
    ++calls;
  }
}

TEST_F(AllocationTest, CallsAllocateNothingOnEitherSide) {
#ifdef PINION_OTHER_MALLOC
  GTEST_SKIP() << "a sanitizer's malloc";
#endif
  MonotonicTime real;
  const auto target = test::make_loop(real);
  std::thread thread([&] { target->run(); });
  CallLane lane(*target, 2);
  std::uint64_t there = 0;
  std::uint64_t calls = 0;
  for (int i = 0; i < 10; ++i) loop->spawn(call(lane, *target, there, calls));
  while (calls < 100) loop->turn();
  const std::uint64_t here_before = allocations;
  const std::uint64_t there_before = there;
  while (calls < 10'000) loop->turn();
  EXPECT_EQ(allocations - here_before, 0U);
  EXPECT_EQ(there - there_before, 0U);
  target->stop();
  thread.join();
  loop.reset();
}

}  // namespace
}  // namespace pinion

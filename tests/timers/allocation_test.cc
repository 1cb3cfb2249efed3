#include <array>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <new>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/own_new.h>
#include <pinion/test/seed.h>
#include <pinion/timers/periodic_timer.h>
#include <pinion/timers/timer_table.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"

/// Counts what this program allocates: operator new is replaced here, and the calls that the
/// library makes to malloc and its kin come through the linker's --wrap.

namespace {
std::size_t allocations = 0;
bool heap_used_up = false;  // for who asks with std::nothrow
}  // namespace

extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* old, std::size_t size);
void* __wrap_malloc(std::size_t size);
void* __wrap_calloc(std::size_t count, std::size_t size);
void* __wrap_realloc(void* old, std::size_t size);

void* __wrap_malloc(std::size_t size) {
  ++allocations;
  return __real_malloc(size);
}
void* __wrap_calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __real_calloc(count, size);
}
void* __wrap_realloc(void* old, std::size_t size) {
  ++allocations;
  return __real_realloc(old, size);
}
}

#if PINION_TEST_OWN_NEW
void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return heap_used_up ? nullptr : std::malloc(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size, std::nothrow);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++allocations;
  if (heap_used_up) return nullptr;
  return std::aligned_alloc(static_cast<std::size_t>(alignment), size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* const memory = operator new(size, alignment, std::nothrow);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace pinion::test {
namespace {

TEST(TimingWheel, ArmExtendCancelAndAdvanceNeverAllocate) {
  PINION_TEST_NEEDS_OWN_NEW();
  Random choices(seed());
  WheelCore wheel(choices.next() >> 20);
  std::deque<Probe> probes = make_probes(wheel, 5000);
  const std::size_t before = allocations;
  ASSERT_GT(before, 0U) << "the counter counts";
  for (int round = 0; round < 200'000; ++round) {
    Probe& probe = probes[choices.below(probes.size())];
    const Tick deadline = wheel.now() + any_magnitude(choices, 40);
    switch (choices.below(4)) {
      case 0:
        wheel.arm(probe, deadline);
        break;
      case 1:
        wheel.extend(probe, deadline);
        break;
      case 2:
        wheel.cancel(probe);
        break;
      default:
        wheel.advance(wheel.now() + any_magnitude(choices, choices.below(8) == 0 ? 36 : 8),
                      choices.below(4) == 0 ? choices.below(3) : kNoBudget);
    }
    static_cast<void>(wheel.next_expiry());
  }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(wheel.stats().fired, 0U);
}

TEST(PeriodicTimer, NeverAllocates) {
  PINION_TEST_NEEDS_OWN_NEW();
  TimingWheel wheel(Instant{});
  PeriodicTimer timer([](PeriodicTimer&) {});
  const std::size_t before = allocations;
  timer.start(wheel, Instant{}, std::chrono::milliseconds(3), Missed::replay);
  for (int tick = 0; tick < 10'000; ++tick) {
    wheel.advance(Instant{std::chrono::milliseconds(tick * 7)});
  }
  EXPECT_EQ(allocations, before);
}

TEST(TimerTable, NeverAllocatesWithinWhatIsReserved) {
  PINION_TEST_NEEDS_OWN_NEW();
  constexpr std::size_t kTimers = 5'000;
  Random choices(seed());
  TimerTable table(Instant{}, kTimers);
  std::vector<TimerId> ids(kTimers);
  std::array<ExpiredTimer, 64> out;
  ASSERT_TRUE(table.reserve(kTimers));
  const std::size_t before = allocations;
  std::size_t fired = 0;
  for (int round = 0; round < 200'000; ++round) {
    TimerId& id = ids[choices.below(ids.size())];
    const Instant deadline = table.now() + std::chrono::nanoseconds{choices.below(1U << 30)};
    switch (choices.below(4)) {
      case 0:
        static_cast<void>(table.reschedule(id, deadline));
        break;
      case 1:
        table.cancel(id);
        break;
      case 2:
        fired += table.poll(table.now() + std::chrono::milliseconds{choices.below(3)}, 64, out);
        break;
      default:
        if (table.live() < kTimers) id = table.schedule(deadline, 0).value_or(TimerId());
    }
    static_cast<void>(table.next_deadline());
  }
  static_cast<void>(table.memory_stats());
  table.clear();
  EXPECT_EQ(allocations, before);
  EXPECT_GT(fired, 0U);
}

TEST(TimerTable, WithoutMemoryItSaysCapacityAndGoesOn) {
  PINION_TEST_NEEDS_OWN_NEW();
  TimerTable table(Instant{}, 100'000);
  heap_used_up = true;
  EXPECT_EQ(table.schedule(kNever, 0).error(), TimerError::capacity);
  EXPECT_FALSE(table.reserve(1));
  heap_used_up = false;
  std::vector<TimerId> ids;
  while (table.live() < 300) ids.push_back(*table.schedule(kNever, 0));
  heap_used_up = true;
  while (table.live() < table.capacity()) ids.push_back(*table.schedule(kNever, 0));
  EXPECT_EQ(table.schedule(kNever, 0).error(), TimerError::capacity);
  EXPECT_FALSE(table.reserve(1'000));
  for (const TimerId id : ids) EXPECT_TRUE(table.cancel(id).has_value());
  EXPECT_EQ(table.compact(), 0U) << "nowhere to note the generations";
  EXPECT_TRUE(table.schedule(kNever, 0).has_value());
  heap_used_up = false;
  EXPECT_EQ(table.check(), "");
  for (const TimerId id : ids) EXPECT_EQ(table.cancel(id).error(), TimerError::not_found);
  EXPECT_GT(table.compact(), 0U);
  EXPECT_TRUE(table.reserve(100'000)) << "more chunks than there were records for";
  EXPECT_EQ(table.check(), "");
  for (const TimerId id : ids) EXPECT_EQ(table.cancel(id).error(), TimerError::not_found);
}

}  // namespace
}  // namespace pinion::test

#include <pinion/lib/slab.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/own_new.h>
#include <pinion/test/seed.h>

#ifdef __SANITIZE_ADDRESS__
#define PINION_TEST_HAS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PINION_TEST_HAS_ASAN
#endif
#endif

namespace {
/// What the heap refuses.
std::size_t largest_chunk = ~std::size_t{0};
}  // namespace

#if PINION_TEST_OWN_NEW
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (size > largest_chunk) return nullptr;
  const auto align = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
#endif

namespace pinion {
namespace {

std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

TEST(RawSlab, HandsOutWhatWasReleasedLast) {
  RawSlab slab({.object_size = 24, .limit = 10});
  void* const first = slab.allocate();
  void* const second = slab.allocate();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(first, second);
  slab.release(first);
  EXPECT_EQ(slab.allocate(), first);
  EXPECT_EQ(slab.live(), 2U);
  EXPECT_EQ(slab.peak(), 2U);
  slab.release(first);
  slab.release(second);
  EXPECT_EQ(slab.live(), 0U);
  EXPECT_EQ(slab.peak(), 2U);
}

TEST(RawSlab, SaysWhenItIsFull) {
  for (const std::size_t limit : {0U, 1U, 7U, 5000U}) {
    RawSlab slab({.object_size = 16, .limit = limit});
    std::vector<void*> objects;
    for (std::size_t i = 0; i < limit; ++i) {
      objects.push_back(slab.allocate());
      ASSERT_NE(objects.back(), nullptr);
    }
    EXPECT_EQ(slab.allocate(), nullptr);
    EXPECT_EQ(slab.live(), limit);
    EXPECT_EQ(slab.capacity(), limit);
    if (limit != 0) {
      slab.release(objects.back());
      EXPECT_EQ(slab.allocate(), objects.back());
    }
    for (void* object : objects) slab.release(object);
  }
}

TEST(RawSlab, KeepsAlignmentAndDistance) {
  for (const std::size_t alignment : {1U, 8U, 16U, 64U, 4096U}) {
    for (const std::size_t size : {1U, 8U, 17U, 100U, 5000U}) {
      RawSlab slab({.object_size = size, .alignment = alignment, .limit = 100});
      std::set<std::uintptr_t> taken;
      std::vector<void*> objects;
      for (int i = 0; i < 100; ++i) {
        void* const object = slab.allocate();
        ASSERT_NE(object, nullptr);
        ASSERT_EQ(address(object) % alignment, 0U);
        std::memset(object, i, size);
        taken.insert(address(object));
        objects.push_back(object);
      }
      for (auto at = std::next(taken.begin()); at != taken.end(); ++at) {
        ASSERT_GE(*at - *std::prev(at), size);
      }
      ASSERT_EQ(taken.size(), objects.size());
      for (void* object : objects) slab.release(object);
    }
  }
}

TEST(RawSlab, ReservesAtStart) {
  RawSlab slab({.object_size = 64, .limit = 1000});
  EXPECT_TRUE(slab.reserve(0));
  EXPECT_EQ(slab.capacity(), 0U);
  EXPECT_TRUE(slab.reserve(600));
  EXPECT_EQ(slab.capacity(), 600U);
  EXPECT_TRUE(slab.reserve(10));
  EXPECT_EQ(slab.capacity(), 600U);
  EXPECT_FALSE(slab.reserve(1001));
  EXPECT_EQ(slab.capacity(), 600U);
  EXPECT_TRUE(slab.reserve(1000));
  EXPECT_EQ(slab.capacity(), 1000U);
  std::vector<void*> objects;
  while (void* object = slab.allocate()) objects.push_back(object);
  EXPECT_EQ(objects.size(), 1000U);
  for (void* object : objects) slab.release(object);
}

TEST(RawSlab, AnswersSizesThatNoMemoryHasWithNull) {
  RawSlab huge({.object_size = std::size_t{1} << 63, .limit = 4});
  EXPECT_EQ(huge.allocate(), nullptr);
  EXPECT_FALSE(huge.reserve(4));
  EXPECT_EQ(huge.capacity(), 0U);
  RawSlab endless({.object_size = 64, .limit = ~std::size_t{0}});
  EXPECT_FALSE(endless.reserve(~std::size_t{0} / 64 + 2)) << "wraps when multiplied by 64";
  EXPECT_EQ(endless.capacity(), 0U);
  void* const object = endless.allocate();
  ASSERT_NE(object, nullptr);
  endless.release(object);
}

TEST(RawSlab, GrowsByWhatTheHeapStillHas) {
  PINION_TEST_NEEDS_OWN_NEW();
  largest_chunk = 20'000;
  RawSlab slab({.object_size = 64, .limit = 1000});
  std::vector<void*> objects;
  while (void* object = slab.allocate()) objects.push_back(object);
  largest_chunk = ~std::size_t{0};
  EXPECT_EQ(objects.size(), 1000U);
  for (void* object : objects) slab.release(object);
}

TEST(RawSlab, KnowsItsOwn) {
  RawSlab slab({.object_size = 32, .limit = 10});
  auto* const object = static_cast<std::byte*>(slab.allocate());
  int foreign = 0;
  EXPECT_TRUE(slab.owns(object));
  EXPECT_FALSE(slab.owns(object + 8));
  EXPECT_FALSE(slab.owns(object + 32)) << "never handed out";
  EXPECT_FALSE(slab.owns(&foreign));
  EXPECT_FALSE(slab.owns(nullptr));
  slab.release(object);
  EXPECT_TRUE(slab.owns(object));
}

TEST(RawSlab, BehavesLikeASet) {
  Random random(test::seed());
  for (int round = 0; round < 20; ++round) {
    const std::size_t size = random.between<std::size_t>(1, 200);
    const std::size_t limit = random.between<std::size_t>(1, 2000);
    RawSlab slab({.object_size = size, .limit = limit});
    std::map<void*, std::uint8_t> live;
    std::size_t peak = 0;
    const double growing = random.real01();
    for (std::uint64_t step = 0; step < test::scaled(5'000); ++step) {
      if (random.chance(growing)) {
        void* const object = slab.allocate();
        ASSERT_EQ(object == nullptr, live.size() == limit);
        if (object == nullptr) continue;
        const auto mark = static_cast<std::uint8_t>(random.below(256));
        ASSERT_TRUE(live.emplace(object, mark).second) << "handed out twice";
        std::memset(object, mark, size);
      } else if (!live.empty()) {
        const auto chosen =
            std::next(live.begin(), static_cast<long>(random.below(live.size()) % 20));
        const auto* bytes = static_cast<const std::uint8_t*>(chosen->first);
        ASSERT_TRUE(std::all_of(bytes, bytes + size, [&](auto b) { return b == chosen->second; }));
        slab.release(chosen->first);
        live.erase(chosen);
      }
      peak = std::max(peak, live.size());
      ASSERT_EQ(slab.live(), live.size());
      ASSERT_EQ(slab.peak(), peak);
      ASSERT_LE(slab.capacity(), limit);
    }
    for (const auto& [object, mark] : live) slab.release(object);
  }
}

struct Counted {
  static inline int alive = 0;
  explicit Counted(int number) : value(number) { ++alive; }
  ~Counted() { --alive; }
  int value;
};

TEST(Slab, ConstructsAndDestroys) {
  Slab<Counted> slab(2);
  Counted* const a = slab.allocate(1);
  Counted* const b = slab.allocate(2);
  EXPECT_EQ(slab.allocate(3), nullptr);
  EXPECT_EQ(Counted::alive, 2);
  EXPECT_EQ(a->value + b->value, 3);
  slab.release(*a);
  EXPECT_EQ(Counted::alive, 1);
  EXPECT_EQ(slab.live(), 1U);
  slab.release(*b);
  EXPECT_EQ(slab.peak(), 2U);
}

struct alignas(128) Wide {
  char bytes[100];
};

TEST(Slab, KeepsTheTypesAlignment) {
  Slab<Wide> slab(8);
  ASSERT_TRUE(slab.reserve(8));
  Wide* const a = slab.allocate();
  Wide* const b = slab.allocate();
  EXPECT_EQ(address(a) % 128, 0U);
  EXPECT_EQ(address(b) % 128, 0U);
  slab.release(*a);
  slab.release(*b);
}

TEST(FramePool, ServesEverySize) {
  FramePool pool(std::size_t{8} << 20);
  std::vector<std::pair<void*, std::size_t>> frames;
  for (std::size_t size = 0; size <= FramePool::kLargestFrame; ++size) {
    void* const frame = pool.allocate(size);
    ASSERT_NE(frame, nullptr);
    ASSERT_EQ(address(frame) % alignof(std::max_align_t), 0U);
    std::memset(frame, 0x5a, size);
    frames.emplace_back(frame, size);
    if (frames.size() == 100) {
      for (const auto& [held, held_size] : frames) pool.release(held, held_size);
      frames.clear();
    }
  }
  for (const auto& [held, held_size] : frames) pool.release(held, held_size);
  EXPECT_EQ(pool.stats().allocations, FramePool::kLargestFrame + 1);
  EXPECT_EQ(pool.stats().fallbacks, 0U);
  EXPECT_EQ(pool.stats().live, 0U);
  EXPECT_EQ(pool.stats().peak, 100U);
}

TEST(FramePool, SendsLargeFramesToTheHeap) {
  FramePool pool(std::size_t{1} << 20);
  void* const frame = pool.allocate(FramePool::kLargestFrame + 1);
  ASSERT_NE(frame, nullptr);
  std::memset(frame, 1, FramePool::kLargestFrame + 1);
  EXPECT_EQ(pool.stats().fallbacks, 1U);
  EXPECT_EQ(pool.stats().bytes, 0U);
  EXPECT_EQ(pool.stats().live, 1U);
  pool.release(frame, FramePool::kLargestFrame + 1);
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(FramePool, KeepsItsLimitAndCountsWhatWentElsewhere) {
  constexpr std::size_t kLimit = 10'000;
  FramePool pool(kLimit);
  std::vector<void*> frames;
  for (int i = 0; i < 50; ++i) {
    frames.push_back(pool.allocate(1000));
    ASSERT_NE(frames.back(), nullptr);
    ASSERT_LE(pool.stats().bytes, kLimit);
  }
  EXPECT_EQ(pool.stats().fallbacks, 50U - kLimit / 1024);
  Random(test::seed()).shuffle(frames);
  for (void* frame : frames) pool.release(frame, 1000);
  EXPECT_EQ(pool.stats().live, 0U);
  EXPECT_EQ(pool.stats().peak, 50U);
  void* const again = pool.allocate(1000);
  EXPECT_EQ(pool.stats().fallbacks, 50U - kLimit / 1024) << "free room is used first";
  pool.release(again, 1000);
}

TEST(FramePool, SharesItsLimitAmongAllSizes) {
  constexpr std::size_t kLimit = 100'000;
  FramePool pool(kLimit);
  Random random(test::seed());
  std::vector<std::pair<void*, std::size_t>> frames;
  for (int i = 0; i < 500; ++i) {
    const std::size_t size = random.between<std::size_t>(1, FramePool::kLargestFrame);
    frames.emplace_back(pool.allocate(size), size);
    ASSERT_NE(frames.back().first, nullptr);
    ASSERT_LE(pool.stats().bytes, kLimit);
    std::memset(frames.back().first, 0x5a, size);
  }
  EXPECT_GT(pool.stats().fallbacks, 0U);
  random.shuffle(frames);
  for (const auto& [frame, size] : frames) pool.release(frame, size);
  EXPECT_EQ(pool.stats().live, 0U);
}

/// Frames of one size that come first don't take what frames of another size need.
TEST(FramePool, LetsNoSizeTakeWhatTheOthersMayNeed) {
  for (const std::size_t limit :
       {std::size_t{1} << 14, std::size_t{1} << 20, std::size_t{1} << 26}) {
    FramePool small(limit);
    void* const first = small.allocate(64);
    EXPECT_LE(small.stats().bytes, limit / 16) << "a chunk for one frame";
    small.release(first, 64);

    FramePool pool(limit);
    std::vector<std::pair<void*, std::size_t>> frames;
    const auto take = [&](std::size_t size) { frames.emplace_back(pool.allocate(size), size); };
    while (pool.stats().fallbacks == 0) take(512);  // all that this size can have
    EXPECT_GE(pool.stats().bytes, limit / 4 * 3);
    const std::uint64_t before = pool.stats().fallbacks;
    for (const std::size_t size : {64U, 80U, 192U, 256U, 704U, 2048U, 4096U}) {
      if (limit / 256 >= size) take(size);
    }
    EXPECT_EQ(pool.stats().fallbacks, before) << limit;
    EXPECT_LE(pool.stats().bytes, limit);
    for (const auto& [frame, size] : frames) pool.release(frame, size);
  }
}

TEST(FramePool, ReservesAtStart) {
  PINION_TEST_NEEDS_OWN_NEW();
  FramePool pool(100'000);
  EXPECT_TRUE(pool.reserve(200, 100));
  EXPECT_EQ(pool.stats().bytes, 20'800U);
  EXPECT_TRUE(pool.reserve(208, 10)) << "is there already";
  EXPECT_EQ(pool.stats().bytes, 20'800U);
  EXPECT_FALSE(pool.reserve(256, 1000)) << "beyond the limit";
  EXPECT_FALSE(pool.reserve(FramePool::kLargestFrame + 1, 1));
  largest_chunk = 0;
  EXPECT_FALSE(pool.reserve(1000, 10));
  std::vector<void*> frames;
  for (int i = 0; i < 100; ++i) frames.push_back(pool.allocate(195));
  largest_chunk = ~std::size_t{0};
  EXPECT_EQ(pool.stats().fallbacks, 0U) << "needed no heap";
  for (void* frame : frames) pool.release(frame, 195);
}

TEST(FramePool, TakesNothingFromTheHeapOnceWarm) {
  FramePool pool(std::size_t{1} << 20);
  std::vector<std::pair<void*, std::size_t>> frames;
  std::size_t warm_bytes = 0;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t size = 64; size <= 2048; size += 64) {
      frames.emplace_back(pool.allocate(size), size);
    }
    for (const auto& [frame, size] : frames) pool.release(frame, size);
    frames.clear();
    if (round == 0) warm_bytes = pool.stats().bytes;
  }
  EXPECT_EQ(pool.stats().bytes, warm_bytes);
  EXPECT_EQ(pool.stats().fallbacks, 0U);
}

TEST(SlabDeathTest, RefusesToDieWithLiveObjects) {
  EXPECT_DEATH(
      {
        RawSlab slab({.object_size = 8, .limit = 1});
        (void)slab.allocate();
      },
      "live_ == 0");
  EXPECT_DEATH(
      {
        FramePool pool(0);
        (void)pool.allocate(100);
      },
      "live_fallbacks_ == 0");
}

TEST(SlabDeathTest, RefusesBadOptions) {
  EXPECT_DEATH(RawSlab({.object_size = 0, .limit = 1}), "object_size != 0");
  EXPECT_DEATH(RawSlab({.object_size = 8, .alignment = 24, .limit = 1}), "is_power_of_two");
}

#ifdef PINION_TEST_HAS_ASAN
TEST(SlabDeathTest, LetsAddressSanitizerSeeUseAfterRelease) {
  Slab<Counted> slab(4);
  Counted* const first = slab.allocate(1);
  Counted* const second = slab.allocate(2);
  slab.release(*first);
  EXPECT_DEATH(first->value = 3, "use-after-poison");
  EXPECT_DEATH((second + 2)->value = 3, "use-after-poison") << "never handed out";
  Counted* const again = slab.allocate(4);
  EXPECT_EQ(again, first);
  slab.release(*second);
  slab.release(*again);
}
#endif

#ifndef PINION_NO_DCHECK
TEST(SlabDeathTest, RefusesAForeignPointer) {
  RawSlab slab({.object_size = 8, .limit = 2});
  RawSlab other({.object_size = 8, .limit = 2});
  void* const own = slab.allocate();
  void* const foreign = other.allocate();
  EXPECT_DEATH(slab.release(foreign), "owns");
  EXPECT_DEATH(slab.release(static_cast<std::byte*>(own) + 4), "owns");
  slab.release(own);
  EXPECT_DEATH(slab.release(own), "live_ != 0");
  other.release(foreign);

  Slab<Counted> typed(2);
  Counted* const one = typed.allocate(1);
  Counted stray(1);
  EXPECT_DEATH(typed.release(stray), "owns");
  typed.release(*one);
}

TEST(SlabDeathTest, RefusesToReleaseTwiceInARow) {
  RawSlab slab({.object_size = 8, .limit = 2});
  void* const a = slab.allocate();
  void* const b = slab.allocate();
  slab.release(a);
  EXPECT_DEATH(slab.release(a), "object != free_");
  slab.release(b);
}
#endif

}  // namespace
}  // namespace pinion

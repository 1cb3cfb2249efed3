#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <pinion/lib/assert.h>
#include <pinion/lib/bits.h>
#include <pinion/lib/export.h>

/// Memory for many objects of one size: RawSlab (bytes), Slab<T> (objects), and FramePool (a
/// RawSlab per size class, for coroutine frames).
///
/// Ownership:  a slab owns its chunks and gives none back before it dies. It must outlive what it
///             handed out: dying with live objects is refused by an assertion.
/// Threading:  one lcore, no locks. Release where it was allocated.
/// Cost:       allocate and release O(1), the last one released is the next one handed out. A chunk
///             is taken from the heap only when the free ones are used up; each doubles the
///             capacity, or adds what the heap still has. reserve() takes the memory at start.
///             Fresh memory is touched object by object, so that what is never used costs no page.
/// Errors:     full, or out of memory: nullptr. A pointer that is not the slab's, and the object
///             released last released again, are refused by DCHECKs, for which release() walks
///             over the slab's few chunks unless PINION_NO_DCHECK is defined; another object
///             released twice isn't noticed. Under AddressSanitizer, free objects are poisoned.

namespace pinion {

struct SlabOptions {
  std::size_t object_size = 0;
  std::size_t alignment = alignof(std::max_align_t);
  std::size_t limit = 0;  ///< The most objects at once.
};

class PINION_EXPORT RawSlab {
 public:
  explicit RawSlab(const SlabOptions& options) noexcept;
  RawSlab(const RawSlab&) = delete;
  RawSlab& operator=(const RawSlab&) = delete;
  ~RawSlab();

  /// Memory for one object; nullptr when `limit` are live or the heap is used up.
  [[nodiscard]] void* allocate() noexcept {
    FreeObject* const object = free_;
    if (object == nullptr) [[unlikely]] {
      return allocate_fresh();
    }
    unpoison(object);
    free_ = object->next;
    count_one_more();
    return object;
  }

  /// Takes back what allocate() handed out.
  void release(void* object) noexcept {
    PINION_ASSERT(live_ != 0);
    PINION_DCHECK(owns(object));
    PINION_DCHECK(object != free_);
    free_ = ::new (object) FreeObject{free_};
    --live_;
    poison(object);
  }

  /// Makes room for `objects` at once, as one chunk. False, and nothing changes, when that is
  /// beyond the limit or the heap is used up.
  [[nodiscard]] bool reserve(std::size_t objects) noexcept;

  /// Whether allocate() has ever handed out `object`, be it live or free now.
  [[nodiscard]] bool owns(const void* object) const noexcept;

  [[nodiscard]] std::size_t live() const noexcept { return live_; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

  /// From one object to the next: the object's size and what its alignment adds.
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }

 private:
  /// Stands in the memory of a free object.
  struct FreeObject {
    FreeObject* next;
  };
  struct Chunk;

  friend class FramePool;

  void count_one_more() noexcept {
    ++live_;
    peak_ = std::max(peak_, live_);
  }
  /// Free objects are poisoned if the library, whoever calls it, was built for that.
  void poison(void* object) const noexcept {
    if (poisons_) [[unlikely]] {
      poison_object(object);
    }
  }
  void unpoison(void* object) const noexcept {
    if (poisons_) [[unlikely]] {
      unpoison_object(object);
    }
  }
  void poison_object(void* object) const noexcept;
  void unpoison_object(void* object) const noexcept;
  [[nodiscard]] void* allocate_fresh() noexcept;

  bool grow(std::size_t objects) noexcept;
  std::size_t grow_by_up_to(std::size_t objects) noexcept;
  std::byte* take_fresh() noexcept;

  const std::size_t stride_;
  const std::size_t alignment_;
  const std::size_t limit_;
  const bool poisons_;
  FreeObject* free_ = nullptr;
  Chunk* chunks_ = nullptr;  ///< Newest, and as a rule largest, first.
  std::size_t capacity_ = 0;
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
};

/// A slab of `T`. Objects are constructed by allocate() and destroyed by release(); a constructor
/// that throws ends the process.
template <class T>
class Slab {
 public:
  explicit Slab(std::size_t limit) noexcept
      : raw_({.object_size = sizeof(T), .alignment = alignof(T), .limit = limit}) {}

  /// A new object; nullptr when the slab is full.
  template <class... Arguments>
  [[nodiscard]] T* allocate(Arguments&&... arguments) noexcept {
    void* const memory = raw_.allocate();
    if (memory == nullptr) return nullptr;
    return std::construct_at(static_cast<T*>(memory), std::forward<Arguments>(arguments)...);
  }

  void release(T& object) noexcept {
    std::destroy_at(&object);
    raw_.release(&object);
  }

  [[nodiscard]] bool reserve(std::size_t objects) noexcept { return raw_.reserve(objects); }

  [[nodiscard]] std::size_t live() const noexcept { return raw_.live(); }
  [[nodiscard]] std::size_t peak() const noexcept { return raw_.peak(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return raw_.capacity(); }
  [[nodiscard]] std::size_t limit() const noexcept { return raw_.limit(); }

 private:
  RawSlab raw_;
};

struct FramePoolStats {
  std::uint64_t allocations = 0;  ///< Since the start, fallbacks included.
  std::uint64_t fallbacks = 0;    ///< Of these, went to the heap: too large, or the pool was full.
  std::size_t live = 0;           ///< Frames at the moment, fallbacks included.
  std::size_t peak = 0;           ///< The most there were at once.
  std::size_t bytes = 0;          ///< Taken by the pool's own frames, live or free.
};

/// Memory for coroutine frames: size classes in steps of 16 bytes from 64 to 640, then of 64 to
/// 1024, and four more up to 4096, under one limit in bytes. A larger frame, or one for which there
/// is no room under the limit, comes from the heap and is counted. A class grows by 1/16 of the
/// limit at most, so that none takes what it may never need, and each is left 1/256 of the limit,
/// whatever the others take. Nothing is taken at start but what reserve() is told.
class PINION_EXPORT FramePool {
 public:
  static constexpr std::size_t kLargestFrame = 4096;

  explicit FramePool(std::size_t limit_bytes) noexcept;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool();

  /// `size` bytes, aligned to 16 at least; nullptr only when the heap is used up.
  [[nodiscard]] void* allocate(std::size_t size) noexcept;

  /// Makes room for `frames` of `size` bytes at once, as one chunk. False, and nothing changes,
  /// when that is beyond the limit, less what is left to the other classes, or the heap is used up.
  [[nodiscard]] bool reserve(std::size_t size, std::size_t frames) noexcept;

  /// How much of the pool's memory `size` bytes take; 0 when they come from the heap in any case.
  [[nodiscard]] std::size_t room_for(std::size_t size) noexcept;

  /// Takes back what allocate(size) gave.
  void release(void* frame, std::size_t size) noexcept;

  [[nodiscard]] const FramePoolStats& stats() const noexcept { return stats_; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }

 private:
  static constexpr auto kClassSizes = [] {
    std::array<std::size_t, 47> sizes{};
    std::size_t size = 64;
    for (std::size_t& entry : sizes) {
      entry = size;
      size += size < 640 ? 16 : size < 1024 ? 64 : std::bit_floor(size) / 2;
    }
    return sizes;
  }();
  static_assert(kClassSizes.back() == kLargestFrame);

  RawSlab* slab_for(std::size_t size) noexcept;
  bool make_room(RawSlab& slab) noexcept;
  std::size_t affordable(const RawSlab& slab) const noexcept;

  const std::size_t limit_bytes_;
  std::array<std::optional<RawSlab>, kClassSizes.size()> slabs_;
  std::size_t live_fallbacks_ = 0;
  FramePoolStats stats_;
};

}  // namespace pinion

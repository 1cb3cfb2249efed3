#include <pinion/lib/slab.h>

#include <algorithm>
#include <limits>
#include <new>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

#if defined(__SANITIZE_ADDRESS__)
#define PINION_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PINION_HAS_ASAN 1
#endif
#endif
#ifndef PINION_HAS_ASAN
#define PINION_HAS_ASAN 0
#endif

namespace pinion {
namespace {

constexpr std::size_t kFirstChunkBytes = 16384;

/// A chunk doubles what is there already.
std::size_t chunk_objects(std::size_t capacity, std::size_t stride) noexcept {
  return std::max({capacity, kFirstChunkBytes / stride, std::size_t{1}});
}

/// How much of a FramePool's limit one chunk may take at most, and how much of it each size class
/// may take in any case.
constexpr std::size_t kPoolPerChunk = 16;
constexpr std::size_t kPoolPerClass = 256;

std::uintptr_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

/// Stands at the start of a chunk's memory. Objects in [begin, fresh) were handed out at least
/// once.
struct RawSlab::Chunk {
  Chunk* older;
  std::byte* begin;
  std::byte* fresh;
  std::byte* end;
};

RawSlab::RawSlab(const SlabOptions& options) noexcept
    : stride_(round_up_to_multiple(std::max(options.object_size, sizeof(FreeObject)),
                                   std::max(options.alignment, alignof(FreeObject)))),
      alignment_(std::max(options.alignment, alignof(std::max_align_t))),
      limit_(options.limit),
      poisons_(PINION_HAS_ASAN != 0) {
  PINION_ASSERT(options.object_size != 0);
  PINION_ASSERT(is_power_of_two(options.alignment));
}

RawSlab::~RawSlab() {
  PINION_ASSERT(live_ == 0);
  while (chunks_ != nullptr) {
    Chunk* const chunk = chunks_;
    chunks_ = chunk->older;
    ASAN_UNPOISON_MEMORY_REGION(chunk->begin, static_cast<std::size_t>(chunk->end - chunk->begin));
    ::operator delete(chunk, std::align_val_t{alignment_});
  }
}

void* RawSlab::allocate_fresh() noexcept {
  if (live_ == capacity_ && grow_by_up_to(chunk_objects(capacity_, stride_)) == 0) return nullptr;
  void* const object = take_fresh();
  unpoison(object);
  count_one_more();
  return object;
}

void RawSlab::poison_object(void* object) const noexcept {
  ASAN_POISON_MEMORY_REGION(object, stride_);
}

void RawSlab::unpoison_object(void* object) const noexcept {
  ASAN_UNPOISON_MEMORY_REGION(object, stride_);
}

bool RawSlab::reserve(std::size_t objects) noexcept {
  if (objects <= capacity_) return true;
  return objects <= limit_ && grow(objects - capacity_);
}

bool RawSlab::owns(const void* object) const noexcept {
  const std::uintptr_t address = address_of(object);
  for (const Chunk* chunk = chunks_; chunk != nullptr; chunk = chunk->older) {
    const std::uintptr_t begin = address_of(chunk->begin);
    if (address >= begin && address < address_of(chunk->fresh)) {
      return (address - begin) % stride_ == 0;
    }
  }
  return false;
}

/// Adds a chunk of so many objects; false for none, and when there is no memory.
bool RawSlab::grow(std::size_t objects) noexcept {
  const std::size_t header = round_up_to_multiple(sizeof(Chunk), alignment_);
  constexpr auto kMostBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (objects == 0 || objects > (kMostBytes - header) / stride_) return false;
  const std::size_t bytes = objects * stride_;
  void* const memory = ::operator new(header + bytes, std::align_val_t{alignment_}, std::nothrow);
  if (memory == nullptr) return false;
  std::byte* const begin = static_cast<std::byte*>(memory) + header;
  chunks_ = ::new (memory) Chunk{chunks_, begin, begin, begin + bytes};
  capacity_ += objects;
  ASAN_POISON_MEMORY_REGION(begin, bytes);
  return true;
}

/// Adds a chunk of so many objects, or of half as many until the heap has it. Returns how many; 0
/// when nothing could be added.
std::size_t RawSlab::grow_by_up_to(std::size_t objects) noexcept {
  objects = std::min(objects, limit_ - capacity_);
  while (objects != 0 && !grow(objects)) objects /= 2;
  return objects;
}

/// The first object that was never handed out. There is one when nothing is free and not everything
/// is live.
std::byte* RawSlab::take_fresh() noexcept {
  Chunk* chunk = chunks_;
  while (chunk->fresh == chunk->end) chunk = chunk->older;
  PINION_DCHECK(chunk->fresh != chunk->end);
  return std::exchange(chunk->fresh, chunk->fresh + stride_);
}

namespace {

constexpr std::size_t kClassStep = 16;

/// For each size in steps of 16 bytes, the class that holds it.
template <std::size_t N>
consteval auto class_table(const std::array<std::size_t, N>& sizes) {
  std::array<std::uint8_t, FramePool::kLargestFrame / kClassStep + 1> table{};
  std::uint8_t index = 0;
  for (std::size_t step = 0; step < table.size(); ++step) {
    while (sizes[index] < step * kClassStep) ++index;
    table[step] = index;
  }
  return table;
}

}  // namespace

FramePool::FramePool(std::size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {
  for (std::size_t index = 0; index < kClassSizes.size(); ++index) {
    const std::size_t size = kClassSizes[index];
    slabs_[index].emplace(SlabOptions{.object_size = size, .limit = limit_bytes / size});
  }
}

FramePool::~FramePool() {
  PINION_ASSERT(live_fallbacks_ == 0);
}

void* FramePool::allocate(std::size_t size) noexcept {
  void* frame = nullptr;
  if (RawSlab* const slab = slab_for(size); slab != nullptr && make_room(*slab)) {
    frame = slab->allocate();
  } else {
    frame = ::operator new(size, std::nothrow);
    if (frame == nullptr) return nullptr;
    ++live_fallbacks_;
    ++stats_.fallbacks;
  }
  ++stats_.allocations;
  ++stats_.live;
  stats_.peak = std::max(stats_.peak, stats_.live);
  return frame;
}

void FramePool::release(void* frame, std::size_t size) noexcept {
  RawSlab* const slab = slab_for(size);
  if (slab != nullptr && (live_fallbacks_ == 0 || slab->owns(frame))) {
    slab->release(frame);
  } else {
    PINION_ASSERT(live_fallbacks_ != 0);
    --live_fallbacks_;
    ::operator delete(frame);
  }
  --stats_.live;
}

/// The slab of the smallest class that holds `size`; nullptr when none does.
RawSlab* FramePool::slab_for(std::size_t size) noexcept {
  static constexpr auto kClassOf = class_table(kClassSizes);
  if (size > kLargestFrame) return nullptr;
  return &*slabs_[kClassOf[(size + kClassStep - 1) / kClassStep]];
}

std::size_t FramePool::room_for(std::size_t size) noexcept {
  const RawSlab* const slab = slab_for(size);
  return slab == nullptr ? 0 : slab->stride();
}

bool FramePool::reserve(std::size_t size, std::size_t frames) noexcept {
  RawSlab* const slab = slab_for(size);
  if (slab == nullptr) return false;
  if (frames <= slab->capacity()) return true;
  const std::size_t missing = frames - slab->capacity();
  if (missing > affordable(*slab) || !slab->reserve(frames)) return false;
  stats_.bytes += missing * slab->stride();
  return true;
}

/// How many objects more `slab` may have: what the limit leaves, but for what each of the other
/// classes may take in any case.
std::size_t FramePool::affordable(const RawSlab& slab) const noexcept {
  std::size_t taken = stats_.bytes;
  for (const std::optional<RawSlab>& other : slabs_) {
    if (&*other == &slab) continue;
    const std::size_t kept = limit_bytes_ / kPoolPerClass / other->stride();
    taken += (kept - std::min(kept, other->capacity())) * other->stride();
  }
  return (limit_bytes_ - std::min(limit_bytes_, taken)) / slab.stride();
}

/// Whether `slab` has room for one more, or could be given some under the pool's limit.
bool FramePool::make_room(RawSlab& slab) noexcept {
  if (slab.live() < slab.capacity()) return true;
  if (limit_bytes_ - stats_.bytes < slab.stride()) return false;
  const std::size_t most = std::max<std::size_t>(limit_bytes_ / kPoolPerChunk / slab.stride(), 1);
  const std::size_t objects = std::min(chunk_objects(slab.capacity(), slab.stride()), most);
  const std::size_t added = slab.grow_by_up_to(std::min(objects, affordable(slab)));
  stats_.bytes += added * slab.stride();
  return added != 0;
}

}  // namespace pinion

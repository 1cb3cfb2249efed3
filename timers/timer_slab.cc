#include <pinion/timers/timer_slab.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <utility>

namespace pinion::detail {
namespace {

/// The numbers of living tables, one bit each. Given in turn, so that the number of a table that
/// died comes up again as late as possible.
class TableNumbers {
 public:
  std::uint64_t take() noexcept {
    for (std::uint64_t tries = 0; tries < kCount; ++tries) {
      const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed) % kCount;
      if (number != 0 && (word(number).fetch_or(bit(number)) & bit(number)) == 0) return number;
    }
    return 0;
  }
  void give_back(std::uint64_t number) noexcept { word(number).fetch_and(~bit(number)); }

 private:
  static constexpr std::uint64_t kCount = std::uint64_t{1} << kTimerTagBits;

  static std::uint64_t bit(std::uint64_t number) noexcept {
    return std::uint64_t{1} << (number % 64);
  }
  std::atomic<std::uint64_t>& word(std::uint64_t number) noexcept { return taken_[number / 64]; }

  std::atomic<std::uint64_t> next_{1};
  std::array<std::atomic<std::uint64_t>, kCount / 64> taken_{};
};

constinit TableNumbers table_numbers;

constexpr std::size_t kFirstRecords = 64;

}  // namespace

TimerSlab::TimerSlab(const TimerSlabOptions& options) noexcept
    : on_fire_(options.on_fire),
      owner_(options.owner),
      limit_(std::min(options.limit, options.space.most_chunks * kTimersPerChunk)),
      space_(options.space),
      tag_(table_numbers.take()) {
  PINION_ASSERT(tag_ != 0);  // more than 16,383 tables at once
  PINION_ASSERT(space_.last_generation >= 1);
  PINION_ASSERT(space_.last_generation <= TimerIdSpace{}.last_generation);
  PINION_ASSERT(space_.most_chunks <= TimerIdSpace{}.most_chunks);
}

TimerSlab::~TimerSlab() {
  for (std::size_t chunk = 0; chunk < chunk_count_; ++chunk) {
    if (records_[chunk].slots != nullptr) free_chunk(records_[chunk]);
  }
  table_numbers.give_back(tag_);
}

std::uint64_t TimerSlab::id_of(std::size_t index, std::uint32_t generation) const noexcept {
  return tag_ << kTimerTagShift | std::uint64_t{generation} << kTimerIndexBits | index;
}

void TimerSlab::retire(TimerSlot& slot) noexcept {
  slot.id = id_of(index_of(slot.id), 0);
  --capacity_;
  ++retired_;
}

TimerError TimerSlab::why_not(TimerId id) const noexcept {
  const std::uint32_t generation = generation_of(id.bits());
  const std::size_t index = index_of(id.bits());
  if (id.bits() >> kTimerTagShift != tag_) return TimerError::invalid_id;
  if (generation == 0 || generation > space_.last_generation) return TimerError::invalid_id;
  if (index / kTimersPerChunk >= chunk_count_) return TimerError::invalid_id;
  const ChunkRecord& record = records_[index / kTimersPerChunk];
  std::uint32_t next = 0;
  if (record.slots != nullptr) {
    next = generation_of(record.slots[index % kTimersPerChunk].id);
  } else if (record.generations != nullptr) {
    next = record.generations[index % kTimersPerChunk];
  }
  const bool given = next == 0 || generation < next;
  return given ? TimerError::not_found : TimerError::invalid_id;
}

bool TimerSlab::reserve(std::size_t timers) noexcept {
  const bool allowed = timers <= limit_;
  const std::size_t before = capacity_;
  while (capacity_ < std::min(timers, limit_) && grow()) {
  }
  if (capacity_ != before) sort_free();
  return allowed && capacity_ >= timers;
}

/// Adds a chunk: the first released one, or a new one. False when there is no memory, or no index.
bool TimerSlab::grow() noexcept {
  const std::size_t chunk = next_chunk();
  if (chunk == chunk_count_ && !make_record()) return false;
  void* const memory =
      ::operator new(kChunkBytes, std::align_val_t{alignof(TimerSlot)}, std::nothrow);
  if (memory == nullptr) return false;
  if (chunk == chunk_count_) {
    ++chunk_count_;
  } else {
    --released_;
  }
  fill(chunk, memory);
  return true;
}

std::size_t TimerSlab::next_chunk() noexcept {
  if (released_ == 0) return chunk_count_;
  while (records_[first_released_].generations == nullptr) ++first_released_;
  return first_released_;
}

/// Makes room for one more record. False when there is no memory, or no index.
bool TimerSlab::make_record() noexcept {
  if (chunk_count_ == space_.most_chunks) return false;
  if (chunk_count_ < record_count_) return true;
  const std::size_t count = std::max(2 * record_count_, kFirstRecords);
  std::unique_ptr<ChunkRecord[]> records(new (std::nothrow) ChunkRecord[count]);
  if (records == nullptr) return false;
  std::move(records_.get(), records_.get() + chunk_count_, records.get());
  records_ = std::move(records);
  record_count_ = count;
  return true;
}

void TimerSlab::fill(std::size_t chunk, void* memory) noexcept {
  ChunkRecord& record = records_[chunk];
  auto* const header = ::new (memory) ChunkHeader{owner_};
  record.slots = reinterpret_cast<TimerSlot*>(header + 1);
  for (std::size_t i = kTimersPerChunk; i-- > 0;) {
    const std::uint32_t generation = record.generations == nullptr ? 1 : record.generations[i];
    const std::uint64_t id = id_of(chunk * kTimersPerChunk + i, generation);
    TimerSlot* const slot = ::new (&record.slots[i]) TimerSlot(on_fire_, id);
    if (generation == 0) continue;
    ++capacity_;
    push_free(*slot);
  }
  record.generations.reset();
}

std::size_t TimerSlab::compact() noexcept {
  std::size_t bytes = 0;
  for (std::size_t chunk = 0; chunk < chunk_count_; ++chunk) {
    const TimerSlot* const slots = records_[chunk].slots;
    if (slots == nullptr) continue;
    if (std::any_of(slots, slots + kTimersPerChunk, [](auto& slot) { return slot.armed(); })) {
      continue;
    }
    if (let_go(chunk)) bytes += kChunkBytes;
  }
  sort_free();
  return bytes;
}

/// Gives a chunk without live timers back to the heap, and notes its generations. False when there
/// is no memory for that.
bool TimerSlab::let_go(std::size_t chunk) noexcept {
  ChunkRecord& record = records_[chunk];
  const auto usable = static_cast<std::size_t>(
      std::count_if(record.slots, record.slots + kTimersPerChunk,
                    [](const TimerSlot& slot) { return generation_of(slot.id) != 0; }));
  if (usable == 0) {
    ++used_up_;
  } else {
    record.generations.reset(new (std::nothrow) std::uint32_t[kTimersPerChunk]);
    if (record.generations == nullptr) return false;
    std::transform(record.slots, record.slots + kTimersPerChunk, record.generations.get(),
                   [](const TimerSlot& slot) { return generation_of(slot.id); });
    ++released_;
    first_released_ = std::min(first_released_, chunk);
  }
  capacity_ -= usable;
  free_chunk(record);
  return true;
}

void TimerSlab::free_chunk(ChunkRecord& record) noexcept {
  std::destroy_n(record.slots, kTimersPerChunk);
  ::operator delete(reinterpret_cast<ChunkHeader*>(record.slots) - 1,
                    std::align_val_t{alignof(TimerSlot)});
  record.slots = nullptr;
}

void TimerSlab::sort_free() noexcept {
  free_ = nullptr;
  for (std::size_t chunk = chunk_count_; chunk-- > 0;) {
    TimerSlot* const slots = records_[chunk].slots;
    if (slots == nullptr) continue;
    for (std::size_t i = kTimersPerChunk; i-- > 0;) {
      if (!slots[i].armed() && generation_of(slots[i].id) != 0) push_free(slots[i]);
    }
  }
}

TimerSlabUse TimerSlab::use() const noexcept {
  const std::size_t chunks = chunk_count_ - released_ - used_up_;
  return {.live = live_,
          .free = capacity_ - live_,
          .retired = retired_,
          .chunks = chunks,
          .released_chunks = released_,
          .used_up_chunks = used_up_,
          .chunk_bytes = chunks * kChunkBytes,
          .index_bytes = record_count_ * sizeof(ChunkRecord) + released_ * kGenerationBytes};
}

std::string TimerSlab::check() const {
  std::size_t live = 0;
  std::size_t usable = 0;
  std::size_t chunks = 0;
  std::size_t released = 0;
  for (std::size_t chunk = 0; chunk < chunk_count_; ++chunk) {
    const ChunkRecord& record = records_[chunk];
    if (record.generations != nullptr) {
      ++released;
      if (record.slots != nullptr) return "slab: a chunk in memory that counts as released";
    }
    if (record.slots == nullptr) continue;
    ++chunks;
    for (std::size_t i = 0; i < kTimersPerChunk; ++i) {
      const TimerSlot& slot = record.slots[i];
      const std::uint32_t generation = generation_of(slot.id);
      const bool right = slot.id == id_of(chunk * kTimersPerChunk + i, generation);
      if (!right || generation > space_.last_generation) return "slab: a slot's id is not its own";
      if (slot.armed() && generation == 0) return "slab: a slot that is used up is armed";
      if (slot.armed()) ++live;
      if (generation != 0) ++usable;
    }
  }
  if (released != released_ || chunks + released + used_up_ != chunk_count_) {
    return "slab: the chunks are counted wrong";
  }
  if (live != live_) return "slab: live() is not what is armed";
  if (live_ > limit_) return "slab: more live timers than the limit";
  if (usable != capacity_) return "slab: capacity() is not what can be used";
  std::size_t free = 0;
  for (const TimerSlot* slot = free_; slot != nullptr; slot = slot->next_free) {
    if (slot->armed() || generation_of(slot->id) == 0) return "slab: a free slot that is not";
    if (++free > usable) return "slab: the free slots run in a circle";
  }
  return free + live == usable ? std::string() : "slab: a slot is lost";
}

}  // namespace pinion::detail

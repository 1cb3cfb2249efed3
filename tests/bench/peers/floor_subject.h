#pragma once

#include <memory>

#include "peers/subject.h"

/// Not a timer structure: what the memory alone costs. Each operation stores a deadline in the
/// entry that it was told, and nothing else; nothing ever fires.

namespace pinion::bench {

class FloorSubject {
 public:
  static constexpr const char* kName = "floor";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 20'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  FloorSubject(std::size_t capacity, Tick) : entries_(std::make_unique<Entry[]>(capacity)) {}

  void arm(std::uint32_t index, Tick deadline) { entries_[index].deadline = deadline; }
  void extend(std::uint32_t index, Tick deadline) { entries_[index].deadline = deadline; }
  void cancel(std::uint32_t index) { entries_[index].deadline = kNeverTick; }
  void advance(Tick target) { now_ = target; }
  Tick next_expiry() const { return now_; }

 private:
  struct alignas(kObjectAlignment) Entry {
    Tick deadline;
  };

  Tick now_ = 0;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pinion::bench

#pragma once

#include <memory>

#include <pinion/timers/wheel_core.h>

#include "peers/subject.h"

/// Pinion's own wheel, through its public interface in ticks.

namespace pinion::bench {

class PinionWheel {
 public:
  static constexpr const char* kName = "pinion";
  static constexpr bool kLazyExtend = true;
  static constexpr std::size_t kLargestInFull = 20'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  PinionWheel(std::size_t capacity, Tick start)
      : wheel_(start), entries_(std::make_unique<Entry[]>(capacity)) {
    for (std::size_t i = 0; i < capacity; ++i) {
      entries_[i].index = static_cast<std::uint32_t>(i);
    }
  }

  void arm(std::uint32_t index, Tick deadline) { wheel_.arm(entries_[index], deadline); }
  void extend(std::uint32_t index, Tick deadline) { wheel_.extend(entries_[index], deadline); }
  void cancel(std::uint32_t index) { wheel_.cancel(entries_[index]); }
  void touch(std::uint32_t index) { touch_object(entries_[index]); }
  void advance(Tick target) { wheel_.advance(target); }
  Tick next_expiry() const { return wheel_.next_expiry(); }

 private:
  struct alignas(kObjectAlignment) Entry : TimerEntry {
    Entry() : TimerEntry(&on_fire) {}
    std::uint32_t index = 0;
  };

  static void on_fire(TimerEntry& entry) { fired_sink.fired(static_cast<Entry&>(entry).index); }

  WheelCore wheel_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pinion::bench

#pragma once

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>

#include <pinion/timers/timer_table.h>

#include "peers/subject.h"

/// Pinion's TimerTable, its memory reserved at start. The objects keep ids; the entries are the
/// table's.

namespace pinion::bench {

class TableTimers {
 public:
  static constexpr const char* kName = "table";
  static constexpr bool kLazyExtend = true;
  static constexpr std::size_t kLargestInFull = 10'000'000;
  static constexpr std::size_t kLargestAtAll = 10'000'000;

  TableTimers(std::size_t capacity, Tick start)
      : table_(instant(start), capacity), entries_(std::make_unique<Entry[]>(capacity)) {
    if (!table_.reserve(capacity)) std::abort();
  }

  void arm(std::uint32_t index, Tick deadline) {
    entries_[index].id = table_.schedule(instant(deadline), index).value_or(TimerId());
  }
  void extend(std::uint32_t index, Tick deadline) {
    static_cast<void>(table_.reschedule(entries_[index].id, instant(deadline)));
  }
  void cancel(std::uint32_t index) { table_.cancel(entries_[index].id); }

  std::size_t live() const { return table_.live(); }

  void touch(std::uint32_t index) { touch_object(entries_[index]); }
  void advance(Tick target) {
    const Instant now = instant(target);
    do {
      const std::size_t count = table_.poll(now, expired_.size(), expired_);
      for (std::size_t i = 0; i < count; ++i) {
        fired_sink.fired(static_cast<std::uint32_t>(expired_[i].value));
      }
    } while (table_.next_deadline() <= now);
  }

  Tick next_expiry() const { return TimingWheel::tick_after(table_.next_deadline()); }

 private:
  struct alignas(kObjectAlignment) Entry {
    TimerId id;
  };

  static Instant instant(Tick tick) { return TimingWheel::instant_of(tick); }

  TimerTable table_;
  std::unique_ptr<Entry[]> entries_;
  std::array<ExpiredTimer, 256> expired_;
};

}  // namespace pinion::bench

#include <algorithm>

#include <pinion/timers/wheel_core.h>

/// check(): a dumb scan, list by list and entry by entry. What next_expiry() must be is reckoned
/// from what the scan found, with no function of the code that is checked.

namespace pinion {

struct WheelCore::Checker {
  const WheelCore& wheel;
  const char* failure = nullptr;
  std::uint64_t entries = 0;
  Tick earliest_place = kNeverTick;  ///< Of what is in the levels.
  Tick earliest_scan = kNeverTick;   ///< Of the overflow lists and the scan under way.

  bool require(bool condition, const char* what) noexcept {
    if (!condition && failure == nullptr) failure = what;
    return condition;
  }

  /// Walks one circle; `fits` judges each entry. Stops at the first failure, so that a broken
  /// circle ends the walk.
  template <class Fits>
  std::uint64_t walk(const Link& head, Fits fits) noexcept {
    std::uint64_t length = 0;
    const Link* before = &head;
    for (const Link* at = head.next; at != &head; before = at, at = at->next) {
      if (!require(at != nullptr && at->prev == before, "links: prev is not the inverse of next")) {
        return length;
      }
      const TimerEntry& entry = static_cast<const TimerEntry&>(*at);
      if (!require(entry.owner_ == &wheel, "entry: linked but owned by another wheel or none")) {
        return length;
      }
      if (!require(entry.deadline_ >= entry.place_, "entry: its place is past its deadline")) {
        return length;
      }
      fits(entry);
      if (failure != nullptr) return length;
      ++length;
    }
    require(head.prev == before, "links: the head's prev is not the last entry");
    entries += length;
    return length;
  }

  /// One level. Most slots are empty: those are looked at without a branch per list.
  void level(unsigned number) noexcept {
    const unsigned shift = number * kSlotBits;
    const Tick furthest = number == 0 ? kSlots - 1 : kSlots;
    for (unsigned index = 0; index < kSlots; ++index) {
      const Link* const heads = &wheel.heads_[(number * kSlots + index) * kSubLists];
      bool empty = true;
      for (const Link* head = heads; head != heads + kSubLists; ++head) {
        empty &= head->next == head && head->prev == head;
      }
      const bool bit = (wheel.occupied_[number] >> index & 1) != 0;
      if (!require(bit != empty, "level: an occupancy bit is wrong") || empty) continue;
      const auto fits = [&](const TimerEntry& entry) {
        const Tick position = entry.place_ >> shift;
        require(position << shift == entry.place_, "level: the place is not a slot's first tick");
        require(position % kSlots == index, "level: the slot is not that of the place");
        const bool current = wheel.event_open_ && entry.place_ == wheel.now_;
        const Tick ahead = position - (wheel.now_ >> shift);
        require(current || (ahead >= 1 && ahead <= furthest),
                "level: the place is too far or past");
        earliest_place = std::min(earliest_place, entry.place_);
      };
      for (const Link* head = heads; head != heads + kSubLists; ++head) {
        const bool used = walk(*head, fits) != 0;
        require(!used || number != 0 || head == heads, "level 0: a second list in a slot");
      }
    }
  }

  void overflow() noexcept {
    for (unsigned list = 0; list < kOverflowLists; ++list) {
      const Tick watermark = wheel.watermark_[list];
      const std::uint64_t length =
          walk(wheel.heads_[kOverflowHeads + list], [&](const TimerEntry& entry) {
            require(watermark <= entry.place_, "overflow: watermark too late");
            require(entry.place_ % kOverflowGrain == 0, "overflow: place off the grain");
          });
      require((length == 0) == (watermark == kNeverTick), "overflow: watermark of an empty list");
      earliest_scan = std::min(earliest_scan, watermark);
    }
    require(earliest_scan == wheel.overflow_due_, "overflow: the smallest watermark is wrong");
    const std::uint64_t scanned = walk(wheel.scanned_, [&](const TimerEntry& entry) {
      require(entry.place_ >= wheel.scan_by_, "overflow: a scan that ends too late");
    });
    if (scanned != 0) earliest_scan = std::min(earliest_scan, wheel.scan_by_);
    require(earliest_scan > wheel.now_ || (wheel.event_open_ && earliest_scan == wheel.now_),
            "overflow: a scan that should have ended");
    walk(wheel.never_, [&](const TimerEntry& entry) {
      require(entry.place_ == kNeverTick, "never: an entry that has a deadline");
    });
  }

  void times() noexcept {
    walk(wheel.firing_, [&](const TimerEntry& entry) {
      require(entry.place_ == wheel.now_, "firing: an entry of another tick");
    });
    require(wheel.armed_ - wheel.cancelled_ - wheel.fired_ == entries,
            "count: armed_count() is not what is linked");
    require(wheel.floor_ >= wheel.now_, "time: now() is before the time of the links");
    const bool advancing = wheel.destroyed_ != nullptr;
    require(advancing || wheel.floor_ == wheel.now_, "time: now() is not the time of the links");
    if (wheel.event_open_ || wheel.firing_.next != &wheel.firing_) {
      require(wheel.next_work_ <= wheel.now_, "next work: due work would be left");
      return;
    }
    const Tick event = std::min(earliest_place, earliest_scan);
    require(wheel.next_expiry() == event, "next expiry: not the earliest place");
    require(wheel.next_work_ <= event, "next work: after the next event");
    const Tick block = wheel.now_ / kSlots;
    require(block == kNeverTick / kSlots || wheel.next_work_ <= (block + 1) * kSlots,
            "next work: after the next multiple of 64");
  }
};

std::string WheelCore::check() const {
  Checker checker{.wheel = *this};
  for (unsigned level = 0; level < kLevels && checker.failure == nullptr; ++level) {
    checker.level(level);
  }
  if (checker.failure == nullptr) checker.overflow();
  if (checker.failure == nullptr) checker.times();
  return checker.failure == nullptr ? std::string() : std::string(checker.failure);
}

}  // namespace pinion

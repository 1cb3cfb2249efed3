#pragma once

#include <map>
#include <memory>

#include "peers/subject.h"

/// std::multimap from deadline to entry: what is written first.
///
/// An entry keeps its iterator. extend takes the node out, changes its key and puts it back, which
/// spares the allocator; arm and cancel allocate and free through the default one, whose nodes lie
/// in the order of arming.

namespace pinion::bench {

class MultimapTimers {
 public:
  static constexpr const char* kName = "multimap";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 1'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  MultimapTimers(std::size_t capacity, Tick) : entries_(std::make_unique<Entry[]>(capacity)) {
    for (std::size_t i = 0; i < capacity; ++i) {
      entries_[i].callback = &on_fire;
      entries_[i].index = static_cast<std::uint32_t>(i);
    }
  }

  void arm(std::uint32_t index, Tick deadline) {
    entries_[index].place = queue_.emplace(deadline, &entries_[index]);
  }

  void extend(std::uint32_t index, Tick deadline) {
    auto node = queue_.extract(entries_[index].place);
    if (node.empty()) return;
    node.key() = deadline;
    entries_[index].place = queue_.insert(std::move(node));
  }

  void cancel(std::uint32_t index) { queue_.erase(entries_[index].place); }

  std::size_t live() const { return queue_.size(); }

  void touch(std::uint32_t index) { touch_object(entries_[index]); }
  void advance(Tick target) {
    while (!queue_.empty() && queue_.begin()->first <= target) {
      Entry& entry = *queue_.begin()->second;
      queue_.erase(queue_.begin());
      entry.callback(entry);
    }
  }

  Tick next_expiry() const { return queue_.empty() ? kNeverTick : queue_.begin()->first; }

 private:
  struct Entry;
  using Queue = std::multimap<Tick, Entry*>;
  struct alignas(kObjectAlignment) Entry {
    Queue::iterator place;
    void (*callback)(Entry&);
    std::uint32_t index;
  };

  static void on_fire(Entry& entry) { fired_sink.fired(entry.index); }

  std::unique_ptr<Entry[]> entries_;
  Queue queue_;
};

}  // namespace pinion::bench

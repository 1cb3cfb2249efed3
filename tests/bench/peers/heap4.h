#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "peers/subject.h"

/// A 4-ary indexed heap: what a careful engineer writes instead of a wheel.
///
/// A node is a deadline and a pointer, so that sifting compares within the array; the four children
/// of a node share one cache line. An entry knows its node, so that cancel is a removal and extend
/// a change of key in place, sifted down. The lazy one has the wheel's trick: extend only stores
/// the deadline, and a node is sifted down to it when it comes to the root.

namespace pinion::bench {

template <bool kLazy>
class BasicHeap4 {
 public:
  static constexpr const char* kName = kLazy ? "heap4_lazy" : "heap4";
  static constexpr bool kLazyExtend = kLazy;
  static constexpr std::size_t kLargestInFull = 20'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  BasicHeap4(std::size_t capacity, Tick start);
  ~BasicHeap4();
  BasicHeap4(const BasicHeap4&) = delete;
  BasicHeap4& operator=(const BasicHeap4&) = delete;

  void arm(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
    if constexpr (kLazy) entry.deadline = deadline;
    sift_up(end_++, {deadline, &entry});
  }

  void extend(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
    if constexpr (kLazy) {
      entry.deadline = deadline;
      return;
    }
    const Node node{deadline, &entry};
    if (deadline >= nodes_[entry.place].deadline) {
      sift_down(entry.place, node);
    } else {
      sift_up(entry.place, node);
    }
  }

  void cancel(std::uint32_t index) {
    const std::size_t place = entries_[index].place;
    const Node last = nodes_[--end_];
    if (place == end_) return;
    if (place > kRoot && last.deadline < nodes_[parent(place)].deadline) {
      sift_up(place, last);
    } else {
      sift_down(place, last);
    }
  }

  void advance(Tick target) {
    while (end_ > kRoot && nodes_[kRoot].deadline <= target) {
      Entry& entry = *nodes_[kRoot].entry;
      if (kLazy && entry.deadline > nodes_[kRoot].deadline) {
        sift_down(kRoot, {entry.deadline, &entry});
        continue;
      }
      const Node last = nodes_[--end_];
      if (end_ > kRoot) sift_down(kRoot, last);
      entry.callback(entry);
    }
  }

  Tick next_expiry() const { return end_ > kRoot ? nodes_[kRoot].deadline : kNeverTick; }

 private:
  struct alignas(kObjectAlignment) Entry {
    std::size_t place;
    Tick deadline;  ///< the lazy one's; the other's is in the node
    void (*callback)(Entry&);
    std::uint32_t index;
  };
  struct Node {
    Tick deadline;
    Entry* entry;
  };

  /// The root sits at 3, so that the children of p, 4 (p - 2) and on, start on a cache line.
  static constexpr std::size_t kRoot = 3;
  static constexpr std::size_t parent(std::size_t place) { return place / 4 + 2; }
  static constexpr std::size_t first_child(std::size_t place) { return 4 * (place - 2); }

  static void on_fire(Entry& entry) { fired_sink.fired(entry.index); }

  void put(std::size_t place, Node node) {
    nodes_[place] = node;
    node.entry->place = place;
  }

  void sift_up(std::size_t place, Node node) {
    while (place > kRoot) {
      const std::size_t above = parent(place);
      if (nodes_[above].deadline <= node.deadline) break;
      put(place, nodes_[above]);
      place = above;
    }
    put(place, node);
  }

  void sift_down(std::size_t place, Node node) {
    for (std::size_t child = first_child(place); child < end_; child = first_child(place)) {
      const std::size_t stop = std::min(child + 4, end_);
      std::size_t least = child;
      for (std::size_t i = child + 1; i < stop; ++i) {
        least = nodes_[i].deadline < nodes_[least].deadline ? i : least;
      }
      if (nodes_[least].deadline >= node.deadline) break;
      put(place, nodes_[least]);
      place = least;
    }
    put(place, node);
  }

  std::size_t end_ = kRoot;
  Node* nodes_;
  std::unique_ptr<Entry[]> entries_;
};

using Heap4 = BasicHeap4<false>;
using Heap4Lazy = BasicHeap4<true>;

template <bool kLazy>
BasicHeap4<kLazy>::BasicHeap4(std::size_t capacity, Tick)
    : nodes_(static_cast<Node*>(
          ::operator new((capacity + kRoot) * sizeof(Node), std::align_val_t{kObjectAlignment}))),
      entries_(std::make_unique<Entry[]>(capacity)) {
  for (std::size_t i = 0; i < capacity; ++i) {
    entries_[i].callback = &on_fire;
    entries_[i].index = static_cast<std::uint32_t>(i);
  }
  std::fill_n(nodes_, capacity + kRoot, Node{});
}

template <bool kLazy>
BasicHeap4<kLazy>::~BasicHeap4() {
  ::operator delete(nodes_, std::align_val_t{kObjectAlignment});
}

}  // namespace pinion::bench

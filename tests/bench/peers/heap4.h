#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "peers/subject.h"

/// A 4-ary indexed heap: what a careful engineer writes instead of a wheel.
///
/// A node is a deadline and a pointer, so that sifting compares within the array; the four children
/// of a node share one cache line. An entry knows its node, so that cancel is a removal and extend
/// a change of key in place, sifted down.

namespace pinion::bench {

class Heap4 {
 public:
  static constexpr const char* kName = "heap4";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 20'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  Heap4(std::size_t capacity, Tick start);
  ~Heap4();
  Heap4(const Heap4&) = delete;
  Heap4& operator=(const Heap4&) = delete;

  void arm(std::uint32_t index, Tick deadline) { sift_up(end_++, {deadline, &entries_[index]}); }

  void extend(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
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
      const Node last = nodes_[--end_];
      if (end_ > kRoot) sift_down(kRoot, last);
      entry.callback(entry);
    }
  }

  Tick next_expiry() const { return end_ > kRoot ? nodes_[kRoot].deadline : kNeverTick; }

 private:
  struct alignas(kObjectAlignment) Entry {
    std::size_t place;
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

inline Heap4::Heap4(std::size_t capacity, Tick)
    : nodes_(static_cast<Node*>(
          ::operator new((capacity + kRoot) * sizeof(Node), std::align_val_t{kObjectAlignment}))),
      entries_(std::make_unique<Entry[]>(capacity)) {
  for (std::size_t i = 0; i < capacity; ++i) {
    entries_[i].callback = &on_fire;
    entries_[i].index = static_cast<std::uint32_t>(i);
  }
  std::fill_n(nodes_, capacity + kRoot, Node{});
}

inline Heap4::~Heap4() {
  ::operator delete(nodes_, std::align_val_t{kObjectAlignment});
}

}  // namespace pinion::bench

#pragma once

#include <atomic>
#include <cstddef>

#include <pinion/lib/assert.h>

/// An intrusive queue from any number of producer threads to one consumer (Vyukov's): the mailbox
/// of an lcore.
///
/// Ownership:  elements belong to the caller and carry their own link. From push() until pop()
///             returns it, an element must stay alive and must not be pushed again; after that
///             nobody else touches it, and it may be destroyed or pushed at once. What is left in a
///             queue that dies is left alone. The queue must outlive every push().
/// Threading:  push() from any thread, pop() and empty() from the consumer's only.
/// Cost:       push() is wait-free: two locked instructions. pop() has none, but for one when it
///             takes the last element. Nothing allocates; never full.
/// Order:      the elements of one producer come out in the order of its pushes.
/// Errors:     pushing an element that is still queued is refused by a DCHECK (best effort: two
///             threads that do it at the same moment may both pass).
///
/// Memory order:
/// - What a producer wrote before push(x) is visible to the consumer once pop() returned x.
/// - A producer that stops between the two steps of push() hides what was pushed behind it: pop()
///   gives nullptr although push() of a later element has returned. The elements appear when that
///   producer goes on.
/// - No wake-up is lost, in that case neither, when consumer and producers keep to this:
///     consumer: a seq_cst store or exchange sets "asleep"; then pop(); sleeps only on nullptr
///     producer: push(); then a seq_cst load of "asleep"; wakes when it is set
///   Every link to an element is stored and loaded seq_cst. A pop() that gives nullptr has read a
///   null link after "asleep" was set; so in the single total order that link's store comes later,
///   and the load of "asleep" by its producer later still: that producer wakes the consumer.

namespace pinion {

/// The link of an element; a base of it.
class MpscNode {
 public:
  MpscNode() noexcept : next_(this) {}
  MpscNode(const MpscNode&) = delete;
  MpscNode& operator=(const MpscNode&) = delete;

 private:
  template <class T>
  friend class MpscQueue;

  /// The element behind this one; null at the end; this node itself while in no queue.
  std::atomic<MpscNode*> next_;
};

template <class T>
class MpscQueue {
 public:
  MpscQueue() noexcept { stub_.next_.store(nullptr, std::memory_order_relaxed); }
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;

  /// Appends `item`. Tells whether the queue was empty just before (while another push() is under
  /// way, it may say so too often): a figure for statistics. Whether the consumer must be woken is
  /// told by the consumer's own flag, see above.
  bool push(T& item) noexcept {
    MpscNode& node = item;
    PINION_DCHECK(node.next_.load(std::memory_order_relaxed) == &node);
    return append(node) == &stub_;
  }

  /// Takes the oldest element; nullptr when there is none that can be taken now.
  T* pop() noexcept {
    return pop_between([] {});
  }

  /// Whether nothing is queued, not even an element whose push() has only begun.
  [[nodiscard]] bool empty() const noexcept { return first_ == &stub_ && last_.load() == &stub_; }

 private:
  static constexpr std::size_t kCacheLine = 64;

  /// The tests' way to stop a producer between the two steps of push(), and pop() at the places
  /// where it writes what producers write.
  template <class U>
  friend class MpscQueueProbe;

  template <class Between>
  T* pop_between(Between between) noexcept {
    MpscNode* first = first_;
    MpscNode* second = first->next_.load();
    if (first == &stub_) {
      if (second == nullptr) return nullptr;
      first_ = first = second;
      second = first->next_.load();
    }
    if (second == nullptr) {
      // The last element can go only when something stands behind it: the stub.
      if (last_.load() != first) return nullptr;
      between();
      MpscNode* const before = enter(stub_);
      between();
      link(*before, stub_);
      second = first->next_.load();
      if (second == nullptr) return nullptr;
    }
    first_ = second;
    first->next_.store(first, std::memory_order_relaxed);
    return static_cast<T*>(first);
  }

  /// The first step: makes `node` the last one. What was last before comes back.
  MpscNode* enter(MpscNode& node) noexcept {
    node.next_.store(nullptr, std::memory_order_relaxed);
    return last_.exchange(&node);
  }

  /// The second step: the consumer can go from `before` to `node`.
  static void link(MpscNode& before, MpscNode& node) noexcept { before.next_.store(&node); }

  /// Both steps.
  MpscNode* append(MpscNode& node) noexcept {
    MpscNode* const before = enter(node);
    link(*before, node);
    return before;
  }

  /// Written by the producers.
  alignas(kCacheLine) std::atomic<MpscNode*> last_{&stub_};
  /// The consumer's; producers write the stub's link now and then.
  alignas(kCacheLine) MpscNode* first_ = &stub_;
  MpscNode stub_;
};

}  // namespace pinion

#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include <pinion/lib/assert.h>

/// An intrusive, circular, doubly linked list.
///
/// Ownership:  elements belong to the caller and carry their own links (ListNode as a base). A list
///             only links them. An element must be taken out before it dies; a list that dies
///             unlinks what it still holds.
/// Threading:  one thread, no locks.
/// Cost:       every operation O(1) but clear() and the list's destructor, O(elements). Nothing
///             allocates.
/// Errors:     linking an element that is linked already, erasing one that isn't, and an element
///             that dies linked are refused by DCHECKs.

namespace pinion {

/// The two links of an element, or the head of a circle. An element that is in no circle has null
/// links; a head that is alone points at itself.
struct ListNode {
  ListNode* next = nullptr;
  ListNode* prev = nullptr;

  ListNode() noexcept = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { PINION_DCHECK(next == nullptr || next == this); }

  [[nodiscard]] bool linked() const noexcept { return next != nullptr; }

  /// Makes this node the head of an empty circle.
  void make_head() noexcept { next = prev = this; }

  /// Whether this head is alone in its circle.
  [[nodiscard]] bool alone() const noexcept { return next == this; }

  /// Links this node into the circle of `place`, just before it.
  void link_before(ListNode& place) noexcept {
    PINION_DCHECK(!linked());
    prev = place.prev;
    next = &place;
    place.prev->next = this;
    place.prev = this;
  }

  /// Takes this node out of its circle.
  void unlink() noexcept {
    PINION_DCHECK(linked());
    next->prev = prev;
    prev->next = next;
    next = prev = nullptr;
  }

  /// Moves every node of the circle that `head` heads to just before this node, in order. `head` is
  /// alone afterwards.
  void take_before(ListNode& head) noexcept {
    if (head.alone()) return;
    head.next->prev = prev;
    head.prev->next = this;
    prev->next = head.next;
    prev = head.prev;
    head.make_head();
  }
};

/// Links of its own for each `Tag`, for an element that is in several lists at once.
template <class Tag>
struct TaggedListNode : ListNode {};

/// A list of `T`, which derives from ListNode, or from TaggedListNode<Tag> when a tag is given.
/// While iterating, any element may be erased but the one the iterator stands on:
///
///   for (auto at = list.begin(); at != list.end();) {
///     Item& item = *at++;
///     if (item.done()) list.erase(item);
///   }
template <class T, class Tag = void>
class List {
  using Node = std::conditional_t<std::is_void_v<Tag>, ListNode, TaggedListNode<Tag>>;

 public:
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    Iterator() noexcept = default;

    [[nodiscard]] T& operator*() const noexcept { return element(*node_); }
    [[nodiscard]] T* operator->() const noexcept { return &element(*node_); }

    Iterator& operator++() noexcept {
      node_ = node_->next;
      return *this;
    }
    Iterator operator++(int) noexcept {
      const Iterator before = *this;
      node_ = node_->next;
      return before;
    }
    Iterator& operator--() noexcept {
      node_ = node_->prev;
      return *this;
    }
    Iterator operator--(int) noexcept {
      const Iterator before = *this;
      node_ = node_->prev;
      return before;
    }

    friend bool operator==(Iterator, Iterator) noexcept = default;

   private:
    friend class List;
    explicit Iterator(ListNode* node) noexcept : node_(node) {}
    ListNode* node_ = nullptr;
  };

  List() noexcept { head_.make_head(); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return head_.alone(); }

  void push_back(T& item) noexcept { node(item).link_before(head_); }
  void push_front(T& item) noexcept { node(item).link_before(*head_.next); }

  /// Takes out the first element; nullptr when there is none.
  T* pop_front() noexcept {
    if (empty()) return nullptr;
    T& first = front();
    node(first).unlink();
    return &first;
  }

  [[nodiscard]] T& front() const noexcept {
    PINION_DCHECK(!empty());
    return element(*head_.next);
  }
  [[nodiscard]] T& back() const noexcept {
    PINION_DCHECK(!empty());
    return element(*head_.prev);
  }

  /// Whether `item` is in a list of this kind, whichever one.
  [[nodiscard]] static bool linked(const T& item) noexcept {
    return static_cast<const Node&>(item).linked();
  }

  /// Takes `item` out of the list it is in, whichever one.
  static void erase(T& item) noexcept { node(item).unlink(); }

  /// Moves every element of `other` to the end of this list, in order.
  void splice(List& other) noexcept {
    PINION_DCHECK(&other != this);
    head_.take_before(other.head_);
  }

  /// Unlinks every element.
  void clear() noexcept {
    while (pop_front() != nullptr) {
    }
  }

  [[nodiscard]] Iterator begin() const noexcept { return Iterator(head_.next); }
  [[nodiscard]] Iterator end() const noexcept { return Iterator(const_cast<ListNode*>(&head_)); }

 private:
  static ListNode& node(T& item) noexcept { return static_cast<Node&>(item); }
  static T& element(ListNode& node) noexcept { return static_cast<T&>(static_cast<Node&>(node)); }

  ListNode head_;
};

}  // namespace pinion

#pragma once

#include <array>
#include <bit>
#include <memory>

#include "peers/subject.h"

/// The baseline: a hierarchical wheel as it is usually written, written well.
///
/// Five levels of 64 slots, one circular doubly linked list per slot, an occupancy word per level.
/// The level is the highest 6-bit digit in which the deadline differs from now (XOR), the slot is
/// that digit of the deadline; beyond 64^5 ticks an unsorted overflow list. advance() goes from
/// event to event; at a boundary the slot is re-placed whole (eager cascade). cancel and extend
/// re-link at once. Its contract is that of ours: arming an armed entry places it again, and cancel
/// says whether there was anything to cancel, so an entry knows whether it is armed. That it must
/// be read for this before it is written costs arm a cache miss, ours as well as this one.

namespace pinion::bench {

class PlainWheel {
 public:
  static constexpr const char* kName = "plain_wheel";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 20'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  PlainWheel(std::size_t capacity, Tick start);
  PlainWheel(const PlainWheel&) = delete;
  PlainWheel& operator=(const PlainWheel&) = delete;

  void arm(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
    if (entry.next != nullptr) [[unlikely]]
      unlink(entry);
    place(entry, deadline);
  }

  void extend(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
    if (entry.next != nullptr) [[likely]]
      unlink(entry);
    place(entry, deadline);
  }

  bool cancel(std::uint32_t index) {
    Entry& entry = entries_[index];
    if (entry.next == nullptr) return false;
    unlink(entry);
    entry.next = nullptr;
    return true;
  }

  void advance(Tick target) {
    if (target > now_) run_to(target);
  }

  Tick next_expiry() const { return next_event(); }

 private:
  static constexpr unsigned kBits = 6;
  static constexpr unsigned kLevels = 5;
  static constexpr unsigned kSlots = 1u << kBits;

  struct Link {
    Link* next;
    Link* prev;
  };
  struct alignas(kObjectAlignment) Entry : Link {
    Tick deadline;
    void (*callback)(Entry&);
    std::uint32_t index;
  };

  static void on_fire(Entry& entry) { fired_sink.fired(entry.index); }

  void place(Entry& entry, Tick deadline) {
    entry.deadline = deadline > now_ ? deadline : now_ + 1;
    place(entry);
  }

  void place(Entry& entry) {
    const Tick differs = entry.deadline ^ now_;
    const unsigned level = (63u - static_cast<unsigned>(std::countl_zero(differs | 1))) / kBits;
    Link* head = &overflow_;
    if (level < kLevels) {
      const unsigned slot = static_cast<unsigned>(entry.deadline >> (kBits * level)) % kSlots;
      occupied_[level] |= std::uint64_t{1} << slot;
      head = &slots_[level * kSlots + slot];
    }
    entry.next = head;
    entry.prev = head->prev;
    head->prev->next = &entry;
    head->prev = &entry;
  }

  void unlink(Entry& entry) {
    Link* next = entry.next;
    Link* prev = entry.prev;
    next->prev = prev;
    prev->next = next;
    if (next == prev) clear_if_slot(next);
  }

  /// The last entry of a list has gone: if that list is a slot, its bit goes too.
  void clear_if_slot(const Link* head) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(head) - reinterpret_cast<std::uintptr_t>(slots_.data());
    const std::size_t slot = offset / sizeof(Link);
    if (slot < slots_.size() && head->next == head) {
      occupied_[slot / kSlots] &= ~(std::uint64_t{1} << (slot % kSlots));
    }
  }

  Tick next_event() const;
  void run_to(Tick target);
  void cascade(unsigned level);
  void take(Link& head, Link& into);
  void fire_slot();
  void refill();

  Tick now_;
  std::array<std::uint64_t, kLevels> occupied_{};
  std::array<Link, kLevels * kSlots> slots_;
  Link overflow_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pinion::bench

#pragma once

#include <cstddef>
#include <cstdint>

#include <pinion/lib/export.h>

/// What is linked into a timing wheel: an entry that the caller owns.
///
/// Ownership:  the caller's, wherever it likes: on the stack, on a coroutine frame, or a member. A
///             wheel only links it. It doesn't move; an entry that dies armed unlinks itself, and
///             a wheel that dies disarms its entries.
/// Threading:  that of its wheel.
/// Cost:       48 bytes; the destructor of an unarmed entry is one compare.
///
/// An object with one timer may derive from it. One with several has a small type for each, which
/// knows its owner:
///
///   struct Connection {
///     struct Idle : pinion::TimerEntry {
///       explicit Idle(Connection& its) : TimerEntry(&Idle::on_fire), connection(its) {}
///       static void on_fire(TimerEntry& entry) { static_cast<Idle&>(entry).connection.close(); }
///       Connection& connection;
///     } idle{*this};
///   };

namespace pinion {

/// A point on a wheel's axis.
using Tick = std::uint64_t;

/// The deadline that never comes: an entry armed with it is linked but never fires.
inline constexpr Tick kNeverTick = ~Tick{0};

class WheelCore;

namespace detail {

/// The links of an entry, or the head of a circle of entries. Unlike pinion::ListNode it leaves the
/// links of what it unlinks as they are: TimerEntry::owner_ says whether they mean anything.
struct TimerLink {
  TimerLink* next;
  TimerLink* prev;

  void make_head() noexcept { next = prev = this; }
  [[nodiscard]] bool alone() const noexcept { return next == this; }

  /// Makes `link` the last of the circle that this head heads. The order of the stores keeps the
  /// compiler from gathering the two links in a vector register, which costs more than it saves.
  void append(TimerLink& link) noexcept {
    TimerLink* const last = prev;
    link.prev = last;
    last->next = &link;
    link.next = this;
    prev = &link;
  }

  /// Moves the whole circle of `other` to this head, which is alone before.
  void take_all(TimerLink& other) noexcept {
    if (other.alone()) return;
    next = other.next;
    prev = other.prev;
    next->prev = this;
    prev->next = this;
    other.make_head();
  }
};

}  // namespace detail

class TimerEntry : private detail::TimerLink {
 public:
  /// Called when the entry fires, with the entry unarmed and unlinked: it may be armed again,
  /// or destroyed.
  using Callback = void (*)(TimerEntry& entry);

  explicit TimerEntry(Callback callback) noexcept : TimerLink{}, callback_(callback) {}
  TimerEntry(const TimerEntry&) = delete;
  TimerEntry& operator=(const TimerEntry&) = delete;
  ~TimerEntry() {
    if (owner_ != nullptr) disarm();
  }

  /// Whether it is in a wheel, waiting to fire.
  [[nodiscard]] bool armed() const noexcept { return owner_ != nullptr; }

  /// The tick it fires at while armed; afterwards the one it last had.
  [[nodiscard]] Tick deadline() const noexcept { return deadline_; }

 private:
  friend class WheelCore;

  /// Takes it out of the wheel that it is armed on.
  PINION_EXPORT void disarm() noexcept;

  Tick deadline_ = kNeverTick;
  Tick place_ = kNeverTick;  ///< When its list comes up; never past the deadline.
  Callback callback_;
  WheelCore* owner_ = nullptr;  ///< The wheel it is armed on; null when it isn't.
};

static_assert(sizeof(TimerEntry) <= 48);

}  // namespace pinion

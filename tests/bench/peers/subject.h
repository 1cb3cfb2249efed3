#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The one interface that every timer structure is measured behind.
///
/// A subject owns an array of `capacity` objects, each with its kind of timer inside, aligned to a
/// cache line as a member of a connection would be, and is told their index. So the entry that an
/// operation touches is where the caller says: the harness visits them in random order. Time is in
/// ticks and only moves through advance(). A timer fires in the first advance() whose target is at
/// or past its deadline, through a function pointer that the entry (or the library's handle)
/// carries.

namespace pinion::bench {

using Tick = std::uint64_t;
inline constexpr Tick kNeverTick = ~Tick{0};

/// Where every subject's callback ends.
struct FiredSink {
  std::uint64_t count = 0;
  std::vector<std::uint32_t>* log = nullptr;  ///< when set: which ones

  void fired(std::uint32_t index) {
    ++count;
    if (log != nullptr) log->push_back(index);
  }
};

inline FiredSink fired_sink;

inline constexpr std::size_t kObjectAlignment = 64;

/// Brings an object to the cache, for a writer: whoever arms a timer for it is at work on it.
template <class Object>
void touch_object(Object& object) {
  auto* const first = reinterpret_cast<volatile unsigned char*>(&object);
  *first = *first;
}

/// arm: of an entry that is not armed. extend: of one that is, to a later deadline. cancel: of one
/// that is. next_expiry: the tick of the first expiry or an earlier one; kNeverTick for none.
template <class S>
concept Subject = requires(S subject, std::size_t capacity, std::uint32_t index, Tick tick) {
  S(capacity, tick);
  { S::kName } -> std::convertible_to<const char*>;
  { S::kLazyExtend } -> std::convertible_to<bool>;            ///< an extend's work may come later
  { S::kLargestInFull } -> std::convertible_to<std::size_t>;  ///< beyond it one run only
  { S::kLargestAtAll } -> std::convertible_to<std::size_t>;   ///< beyond it hopeless
  subject.arm(index, tick);
  subject.extend(index, tick);
  subject.cancel(index);
  subject.advance(tick);
  { subject.next_expiry() } -> std::same_as<Tick>;
};

}  // namespace pinion::bench

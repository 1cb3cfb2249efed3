#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <pinion/lib/assert.h>
#include <pinion/lib/time.h>

/// Small records in an array, linked by their indexes: what SYN-RECEIVED and TIME-WAIT are kept in.
///
/// Ownership:  the pool owns its records, all taken at start; a queue only links them. A record has
///             members `prev` and `next` of the index type, which are the pool's and its queue's.
/// Threading:  one lcore.
/// Cost:       every operation O(1).
/// Errors:     full: kNone.

namespace pinion {

template <class Record>
class RecordPool {
 public:
  using Index = decltype(Record::next);
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  explicit RecordPool(std::size_t limit) noexcept : records_(limit) {
    PINION_ASSERT(limit >= 1);
    PINION_ASSERT(limit <= kNone);
  }

  [[nodiscard]] Index allocate() noexcept {
    if (free_ == kNone && fresh_ == records_.size()) return kNone;
    ++size_;
    if (free_ == kNone) return static_cast<Index>(fresh_++);
    return std::exchange(free_, records_[free_].next);
  }
  void release(Index index) noexcept {
    PINION_ASSERT(size_ != 0);
    --size_;
    records_[index].next = std::exchange(free_, index);
  }

  [[nodiscard]] Record& operator[](Index index) noexcept {
    PINION_DCHECK(index < fresh_);
    return records_[index];
  }
  [[nodiscard]] const Record& operator[](Index index) const noexcept {
    PINION_DCHECK(index < fresh_);
    return records_[index];
  }
  [[nodiscard]] Index index_of(const Record& record) const noexcept {
    return static_cast<Index>(&record - records_.data());
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t limit() const noexcept { return records_.size(); }

 private:
  std::vector<Record> records_;
  std::size_t fresh_ = 0;  ///< No record from here on was ever handed out.
  std::size_t size_ = 0;
  Index free_ = kNone;
};

/// A queue of records of one pool, first in, first out, from whose middle any may leave.
template <class Record>
class RecordQueue {
  using Pool = RecordPool<Record>;
  using Index = typename Pool::Index;

 public:
  [[nodiscard]] Index front() const noexcept { return front_; }  ///< kNone when it is empty.

  void push_back(Pool& pool, Index index) noexcept {
    pool[index].prev = back_;
    pool[index].next = Pool::kNone;
    (back_ == Pool::kNone ? front_ : pool[back_].next) = index;
    back_ = index;
  }
  void erase(Pool& pool, Index index) noexcept {
    const Record& record = pool[index];
    (record.prev == Pool::kNone ? front_ : pool[record.prev].next) = record.next;
    (record.next == Pool::kNone ? back_ : pool[record.next].prev) = record.prev;
  }

 private:
  Index front_ = Pool::kNone;
  Index back_ = Pool::kNone;
};

/// When a record is due: milliseconds of the clock, as far as 32 bits go. Late by less than 2 ms,
/// never early.
class RecordTime {
 public:
  constexpr RecordTime() noexcept = default;

  [[nodiscard]] static constexpr RecordTime after(Instant now, std::uint32_t delay_ms) noexcept {
    RecordTime time;
    const std::int64_t rounded_up = floor_ms(now + kAlmostOneMs);
    time.ms_ = static_cast<std::uint32_t>(rounded_up) + delay_ms;
    return time;
  }

  [[nodiscard]] constexpr bool passed(Instant now) const noexcept { return ahead(now) <= 0; }

  /// The same as an Instant, if it is within 24 days of `now`.
  [[nodiscard]] constexpr Instant near(Instant now) const noexcept {
    return Instant{std::chrono::milliseconds{floor_ms(now) + ahead(now)}};
  }

 private:
  static constexpr std::chrono::nanoseconds kAlmostOneMs{999'999};

  static constexpr std::int64_t floor_ms(Instant now) noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
  }
  [[nodiscard]] constexpr std::int32_t ahead(Instant now) const noexcept {
    return static_cast<std::int32_t>(ms_ - static_cast<std::uint32_t>(floor_ms(now)));
  }

  std::uint32_t ms_ = 0;
};

}  // namespace pinion

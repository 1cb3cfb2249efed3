#pragma once

#include <boost/asio/detail/timer_queue.hpp>
#include <boost/asio/detail/wait_op.hpp>
#include <cstdint>
#include <memory>

#include "peers/subject.h"

/// Boost.Asio's timer_queue, the binary heap behind basic_waitable_timer.
///
/// Its own header is used, with time traits whose now() is set by hand, as one scheduler thread
/// would use it but without its mutex. One wait operation per timer is kept and used again: no
/// handler is allocated, and a cancelled wait is dropped without calling back, both of which a
/// program that uses asio::steady_timer would pay for on top.

namespace pinion::bench {

struct AsioManualTime {
  using time_type = Tick;
  using duration_type = std::int64_t;

  struct Milliseconds {
    std::int64_t count;
    std::int64_t ticks() const { return count; }
    std::int64_t total_milliseconds() const { return count; }
    std::int64_t total_microseconds() const { return count * 1'000; }
  };

  static time_type now() { return current; }
  static duration_type subtract(time_type a, time_type b) {
    return static_cast<std::int64_t>(a - b);
  }
  static bool less_than(time_type a, time_type b) { return a < b; }
  static Milliseconds to_posix_duration(duration_type duration) { return {duration}; }

  static inline time_type current = 0;
};

class AsioTimers {
 public:
  static constexpr const char* kName = "asio";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 1'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  AsioTimers(std::size_t capacity, Tick start) : entries_(std::make_unique<Entry[]>(capacity)) {
    AsioManualTime::current = start;
    for (std::size_t i = 0; i < capacity; ++i) {
      entries_[i].wait.index = static_cast<std::uint32_t>(i);
    }
  }

  void arm(std::uint32_t index, Tick deadline) {
    Entry& entry = entries_[index];
    queue_.enqueue_timer(deadline, entry.timer, &entry.wait);
  }

  void extend(std::uint32_t index, Tick deadline) {
    cancel(index);
    arm(index, deadline);
  }

  void cancel(std::uint32_t index) {
    Operations cancelled;
    queue_.cancel_timer(entries_[index].timer, cancelled);
    cancelled.pop();
  }

  void advance(Tick target) {
    AsioManualTime::current = target;
    Operations ready;
    queue_.get_ready_timers(ready);
    while (Operation* operation = ready.front()) {
      ready.pop();
      operation->complete(this, boost::system::error_code(), 0);
    }
  }

  Tick next_expiry() const {
    if (queue_.empty()) return kNeverTick;
    constexpr long kMost = 0x7fff'ffff'ffff;
    return AsioManualTime::current + static_cast<Tick>(queue_.wait_duration_msec(kMost));
  }

 private:
  using Queue = boost::asio::detail::timer_queue<AsioManualTime>;
  using Operation = boost::asio::detail::operation;
  using Operations = boost::asio::detail::op_queue<Operation>;

  struct Wait : boost::asio::detail::wait_op {
    Wait() : wait_op(&on_complete) {}
    std::uint32_t index = 0;
  };
  struct alignas(kObjectAlignment) Entry {
    Queue::per_timer_data timer;
    Wait wait;
  };

  /// A null owner means that the queue is being destroyed.
  static void on_complete(void* owner, Operation* base, const boost::system::error_code&,
                          std::size_t) {
    if (owner != nullptr) fired_sink.fired(static_cast<Wait*>(base)->index);
  }

  std::unique_ptr<Entry[]> entries_;
  Queue queue_;
};

}  // namespace pinion::bench

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "peers/heap4.h"

/// The timeouts of an echo server that brings no timers: three entries a connection in the 4-ary
/// heap, in milliseconds of the monotonic clock, rounded up.

namespace pinion::bench {

enum class Timeout : std::uint8_t { read, write, idle };

class HeapTimeouts {
 public:
  static constexpr std::uint32_t kKinds = 3;

  explicit HeapTimeouts(std::size_t connections)
      : heap_(connections * kKinds, 0), armed_(connections * kKinds) {
    fired_sink.log = &fired_;
  }
  HeapTimeouts(const HeapTimeouts&) = delete;
  HeapTimeouts& operator=(const HeapTimeouts&) = delete;
  ~HeapTimeouts() { fired_sink.log = nullptr; }

  /// Reads the clock; once for each batch of events.
  void read_clock() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    now_ = static_cast<Tick>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  }

  /// Arms it or puts it off.
  void start(std::uint32_t connection, Timeout kind, std::chrono::milliseconds delay) {
    const std::uint32_t index = index_of(connection, kind);
    const Tick deadline = now_ + 1 + static_cast<Tick>(delay.count());
    if (armed_[index] != 0) {
      heap_.extend(index, deadline);
    } else {
      armed_[index] = 1;
      heap_.arm(index, deadline);
    }
  }

  void stop(std::uint32_t connection, Timeout kind) {
    const std::uint32_t index = index_of(connection, kind);
    if (armed_[index] == 0) return;
    armed_[index] = 0;
    heap_.cancel(index);
  }

  void stop_all(std::uint32_t connection) {
    for (const Timeout kind : {Timeout::read, Timeout::write, Timeout::idle}) {
      stop(connection, kind);
    }
  }

  /// The connections of which a timeout has passed, one for each such timeout.
  const std::vector<std::uint32_t>& expire() {
    fired_.clear();
    heap_.advance(now_);
    for (std::uint32_t& index : fired_) {
      armed_[index] = 0;
      index /= kKinds;
    }
    return fired_;
  }

  /// Until the first one; -1 when there is none.
  [[nodiscard]] int wait_ms() const {
    const Tick next = heap_.next_expiry();
    if (next == kNeverTick) return -1;
    return next <= now_ ? 0 : static_cast<int>(next - now_);
  }

 private:
  static std::uint32_t index_of(std::uint32_t connection, Timeout kind) {
    return connection * kKinds + static_cast<std::uint32_t>(kind);
  }

  Heap4 heap_;
  std::vector<std::uint8_t> armed_;
  std::vector<std::uint32_t> fired_;
  Tick now_ = 0;
};

}  // namespace pinion::bench

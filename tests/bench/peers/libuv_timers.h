#pragma once

#include <uv.h>

#include <memory>

#include "peers/subject.h"

/// libuv's timers: a pointer-based binary heap ordered by timeout and start number.
///
/// The loop's time is a public field and is set by hand. uv_run() would read the clock and enter
/// the kernel, so advance() calls the very function that it calls, uv__run_timers, which the static
/// library offers to the linker; next_expiry() likewise. extend is uv_timer_start on a running
/// timer, which stops it first.

extern "C" {
void uv__run_timers(uv_loop_t* loop);
int uv__next_timeout(const uv_loop_t* loop);
}

namespace pinion::bench {

class LibuvTimers {
 public:
  static constexpr const char* kName = "libuv";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 1'000'000;
  static constexpr std::size_t kLargestAtAll = 20'000'000;

  LibuvTimers(std::size_t capacity, Tick start);
  ~LibuvTimers();
  LibuvTimers(const LibuvTimers&) = delete;
  LibuvTimers& operator=(const LibuvTimers&) = delete;

  void arm(std::uint32_t index, Tick deadline) {
    uv_timer_start(&entries_[index].timer, &on_fire, deadline - loop_.time, 0);
  }

  void extend(std::uint32_t index, Tick deadline) { arm(index, deadline); }

  void cancel(std::uint32_t index) { uv_timer_stop(&entries_[index].timer); }

  void advance(Tick target) {
    loop_.time = target;
    uv__run_timers(&loop_);
  }

  Tick next_expiry() const {
    const int timeout = uv__next_timeout(&loop_);
    return timeout < 0 ? kNeverTick : loop_.time + static_cast<Tick>(timeout);
  }

 private:
  struct alignas(kObjectAlignment) Entry {
    uv_timer_t timer;
    std::uint32_t index;
  };

  static void on_fire(uv_timer_t* timer) {
    fired_sink.fired(reinterpret_cast<Entry*>(timer)->index);
  }

  uv_loop_t loop_;
  void* own_handles_end_ = nullptr;  ///< the last of the handles that the loop made for itself
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace pinion::bench

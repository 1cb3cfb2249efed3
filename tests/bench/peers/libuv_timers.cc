#include "peers/libuv_timers.h"

#include <cstdio>
#include <cstdlib>

namespace pinion::bench {

LibuvTimers::LibuvTimers(std::size_t capacity, Tick start)
    : entries_(std::make_unique<Entry[]>(capacity)) {
  if (uv_loop_init(&loop_) != 0) {
    std::fputs("error: libuv: can't make a loop\nfix: ulimit -n 1024\n", stderr);
    std::exit(1);
  }
  loop_.time = start;
  own_handles_end_ = loop_.handle_queue[1];
  for (std::size_t i = 0; i < capacity; ++i) {
    uv_timer_init(&loop_, &entries_[i].timer);
    entries_[i].index = static_cast<std::uint32_t>(i);
  }
}

/// The handles' memory goes away with this object, so they are cut off the loop's queue at once
/// rather than closed one by one, which at 10,000,000 would take longer than the measurement.
LibuvTimers::~LibuvTimers() {
  loop_.timer_heap.min = nullptr;
  loop_.timer_heap.nelts = 0;
  loop_.active_handles = 0;
  static_cast<void**>(own_handles_end_)[0] = &loop_.handle_queue;
  loop_.handle_queue[1] = own_handles_end_;
  uv_loop_close(&loop_);
}

}  // namespace pinion::bench

#pragma once

#include <pinion/eventloop/loop.h>

/// Tasks that the tests of compositions run side by side.

namespace pinion::test {

/// Gives `value` after `delay`, or its opposite when it is cancelled.
inline Task<int> after(Delay delay, int value) {
  const Wake wake = co_await sleep_for(delay);
  co_return wake == Wake::elapsed ? value : -value;
}

/// Counts how often one was made and destroyed.
struct Counted {
  Counted() noexcept { ++made; }
  Counted(const Counted&) noexcept { ++made; }
  Counted& operator=(const Counted&) noexcept = default;
  ~Counted() { ++gone; }

  static void reset() noexcept { made = gone = 0; }

  inline static int made = 0;
  inline static int gone = 0;
};

/// A sleep that doesn't care about cancellation.
class StubbornSleep : public Wait, private TimerEntry {
 public:
  explicit StubbornSleep(Delay delay) noexcept
      : Wait([](Wait&) noexcept {}),
        TimerEntry([](TimerEntry& entry) { static_cast<StubbornSleep&>(entry).resume(); }),
        delay_(delay) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    loop_of(frame.promise()).arm_after(*this, delay_);
    begin(frame);
  }
  void await_resume() const noexcept {}

 private:
  Delay delay_;
};

}  // namespace pinion::test

#pragma once

#include <coroutine>

#include <pinion/eventloop/wait.h>

/// Lets one task wait until another one opens the gate. An opening that nobody waits for is kept,
/// once.
///
/// Ownership: dies with nobody waiting. Threading: one lcore. Cost: no allocation, a hand-over
/// through the ready list.

namespace pinion::apps {

class Gate {
 public:
  class [[nodiscard]] Awaiter : public Wait {
   public:
    explicit Awaiter(Gate& gate) noexcept : Wait(&on_cancel), gate_(gate) {}
    ~Awaiter() {
      if (gate_.waiter_ == this) gate_.waiter_ = nullptr;
    }
    [[nodiscard]] bool await_ready() const noexcept {
      const bool open = gate_.open_;
      gate_.open_ = false;
      return open;
    }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
      gate_.waiter_ = this;
      begin(frame);
    }
    Wake await_resume() const noexcept { return wake_; }

   private:
    friend class Gate;
    static void on_cancel(Wait& wait) noexcept {
      auto& self = static_cast<Awaiter&>(wait);
      self.gate_.waiter_ = nullptr;
      self.wake_ = Wake::cancelled;
      self.resume();
    }

    Gate& gate_;
    Wake wake_ = Wake::elapsed;
  };

  /// `co_await gate.wait()`
  Awaiter wait() noexcept { return Awaiter(*this); }

  void open() noexcept {
    if (waiter_ == nullptr) {
      open_ = true;
      return;
    }
    Awaiter& waiter = *waiter_;
    waiter_ = nullptr;
    waiter.resume();
  }

  /// Forgets an opening that nobody waited for.
  void reset() noexcept { open_ = false; }

 private:
  Awaiter* waiter_ = nullptr;
  bool open_ = false;
};

}  // namespace pinion::apps

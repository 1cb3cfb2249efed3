#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/message.h>
#include <pinion/lib/time.h>

/// Figures of all lcores, for a thread that prints them: no lcore ever waits for a terminal.

namespace pinion::apps {

/// Collects a copy of each lcore's figures by asking it with a message.
///
/// Ownership:  the desk outlives the loops' runs and its own collector.
/// Threading:  join() on the lcores, collect() on one other thread.
/// Cost:       for an lcore, one copy of its figures per question.
/// Full:       an lcore that doesn't answer within kPatience is shown with its last figures.
template <class Figures>
class FiguresDesk {
 public:
  explicit FiguresDesk(std::size_t lcores) {
    for (std::size_t i = 0; i < lcores; ++i) seats_.push_back(std::make_unique<Seat>());
  }

  /// An lcore's seat at the desk. It takes the last figures when it dies, on the lcore, after the
  /// loop has run for the last time.
  class Membership {
   public:
    Membership(FiguresDesk& desk, std::size_t lcore) : desk_(desk), lcore_(lcore) {}
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    ~Membership() { desk_.leave(lcore_); }

   private:
    FiguresDesk& desk_;
    std::size_t lcore_;
  };

  /// From now on `fill` answers for `lcore`.
  [[nodiscard]] std::unique_ptr<Membership> join(std::size_t lcore, Loop& loop,
                                                 std::function<void(Figures&)> fill) {
    Seat& seat = *seats_[lcore];
    const std::lock_guard lock(mutex_);
    seat.loop = &loop;
    seat.fill = std::move(fill);
    seat.state = State::present;
    return std::make_unique<Membership>(*this, lcore);
  }

  /// The newest figures of every lcore.
  [[nodiscard]] const std::vector<Figures>& collect() {
    copies_.resize(seats_.size());
    {
      const std::lock_guard lock(mutex_);
      for (const auto& seat : seats_) {
        if (seat->state != State::present) continue;
        seat->state = State::asked;
        seat->loop->post(*seat);
      }
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      while (seats_[i]->state == State::asked && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(kGlance);
      }
      const std::lock_guard lock(mutex_);
      if (seats_[i]->state != State::asked) copies_[i] = seats_[i]->answer;
    }
    return copies_;
  }

 private:
  enum class State : std::uint8_t { absent, present, asked, left };

  struct Seat : Message {
    Seat() : Message(&on_question) {}
    static void on_question(Message& message) noexcept {
      auto& seat = static_cast<Seat&>(message);
      if (seat.state != State::asked) return;  // It has left meanwhile, with its last figures.
      seat.fill(seat.answer);
      seat.state = State::present;
    }

    Loop* loop = nullptr;
    std::function<void(Figures&)> fill;
    Figures answer{};  ///< The lcore's while it is asked, otherwise the collector's.
    std::atomic<State> state = State::absent;
  };

  void leave(std::size_t lcore) {
    Seat& seat = *seats_[lcore];
    const std::lock_guard lock(mutex_);
    seat.fill(seat.answer);
    seat.state = State::left;
  }

  static constexpr std::chrono::milliseconds kPatience{200};
  static constexpr std::chrono::microseconds kGlance{200};

  std::mutex mutex_;  ///< Between the collector and an lcore that comes or goes.
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<Figures> copies_;
};

/// Calls a function every so often on a thread of its own, until it is destroyed.
class Ticker {
 public:
  Ticker(std::chrono::nanoseconds period, std::function<void()> tick) {
    // Signals are for the thread that waits for them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this, period, tick = std::move(tick)](const std::stop_token& stop) {
      run(period, tick, stop);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  void run(std::chrono::nanoseconds period, const std::function<void()>& tick,
           const std::stop_token& stop) {
    auto next = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    for (;;) {
      next += period;
      if (wake_.wait_until(lock, stop, next, [&stop] { return stop.stop_requested(); })) return;
      tick();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace pinion::apps

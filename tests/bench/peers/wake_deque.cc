#include "peers/wake_deque.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <mutex>

namespace pinion::bench {
namespace {

class DequeChannel final : public WakeChannel {
 public:
  DequeChannel(Arrivals& arrivals, int target_cpu, DequeTarget target)
      : arrivals_(arrivals),
        target_(target),
        eventfd_(eventfd(0, EFD_CLOEXEC | (target == DequeTarget::sleeps ? 0 : EFD_NONBLOCK))) {
    thread_ = start_on(target_cpu, [this] { run(); });
  }
  ~DequeChannel() override {
    if (thread_.joinable()) end();
    close(eventfd_);
  }

  void send(std::size_t messages) override {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = queue_.empty();
      for (std::size_t i = 0; i < messages; ++i) queue_.push_back(++sent_);
      filled_.store(true, std::memory_order_release);
    }
    if (was_empty && target_ != DequeTarget::polls_deque) ring();
  }

  WakeCounts end() override {
    const std::uint64_t rung = rung_;
    stop_.store(true);
    ring();
    thread_.join();
    return {.sender_calls = rung,
            .target_calls = reads_,
            .sleeps = target_ == DequeTarget::sleeps ? reads_ : 0};
  }

 private:
  void run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      if (target_ == DequeTarget::polls_deque) {
        if (!filled_.load(std::memory_order_acquire)) continue;
      } else {
        std::uint64_t rung = 0;
        ++reads_;
        if (read(eventfd_, &rung, sizeof rung) < 0) continue;
      }
      take_all();
    }
  }

  void take_all() {
    {
      const std::lock_guard lock(mutex_);
      taken_.swap(queue_);
      filled_.store(false, std::memory_order_relaxed);
    }
    for (; !taken_.empty(); taken_.pop_front()) arrivals_.note();
  }

  void ring() {
    const std::uint64_t one = 1;
    ++rung_;
    static_cast<void>(!write(eventfd_, &one, sizeof one));
  }

  Arrivals& arrivals_;
  DequeTarget target_;
  int eventfd_;
  std::uint64_t sent_ = 0;
  std::uint64_t rung_ = 0;
  alignas(64) std::mutex mutex_;
  std::deque<std::uint64_t> queue_;
  std::atomic<bool> filled_{false};  ///< What who polls looks at, without the lock.
  std::atomic<bool> stop_{false};
  alignas(64) std::deque<std::uint64_t> taken_;
  std::uint64_t reads_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<WakeChannel> make_deque_channel(Arrivals& arrivals, int target_cpu,
                                                DequeTarget target) {
  return std::make_unique<DequeChannel>(arrivals, target_cpu, target);
}

}  // namespace pinion::bench

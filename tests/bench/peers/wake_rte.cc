#include "peers/wake_rte.h"

#include <rte_pause.h>
#include <rte_ring.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

namespace pinion::bench {
namespace {

constexpr unsigned kBurst = 64;

class RteChannel final : public WakeChannel {
 public:
  RteChannel(Arrivals& arrivals, int target_cpu, bool spins)
      : arrivals_(arrivals), spins_(spins), eventfd_(eventfd(0, EFD_CLOEXEC)) {
    const auto bytes = static_cast<std::size_t>(rte_ring_get_memsize(kSlots));
    ring_ = static_cast<rte_ring*>(::operator new(bytes, std::align_val_t{RTE_CACHE_LINE_SIZE}));
    if (rte_ring_init(ring_, "wake", kSlots, RING_F_SC_DEQ) != 0) std::abort();
    thread_ = start_on(target_cpu, [this] { run(); });
  }
  ~RteChannel() override {
    if (thread_.joinable()) end();
    close(eventfd_);
    ::operator delete(ring_, std::align_val_t{RTE_CACHE_LINE_SIZE});
  }

  void send(std::size_t messages) override {
    std::array<void*, kWindow> objects;
    for (std::size_t i = 0; i < messages; ++i) objects[i] = this;
    rte_ring_enqueue_bulk(ring_, objects.data(), static_cast<unsigned>(messages), nullptr);
    if (spins_) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!sleeps_.load(std::memory_order_relaxed)) return;
    if (sleeps_.exchange(false)) wake();
  }

  WakeCounts end() override {
    const std::uint64_t rung = rung_;
    stop_.store(true);
    wake();
    thread_.join();
    return {.sender_calls = rung, .target_calls = reads_, .sleeps = announced_};
  }

 private:
  /// As the window of messages, since it is to hold that many and one slot stays empty.
  static constexpr unsigned kSlots = 2 * kWindow;

  void run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      std::array<void*, kBurst> objects;
      const unsigned taken = rte_ring_dequeue_burst(ring_, objects.data(), kBurst, nullptr);
      for (unsigned i = 0; i < taken; ++i) arrivals_.note();
      if (taken > 0) continue;
      if (spins_) {
        rte_pause();
      } else {
        sleep();
      }
    }
  }

  void sleep() {
    ++announced_;
    sleeps_.exchange(true);
    if (!rte_ring_empty(ring_) && sleeps_.exchange(false)) return;
    std::uint64_t rung = 0;
    ++reads_;
    static_cast<void>(!read(eventfd_, &rung, sizeof rung));
  }

  void wake() {
    const std::uint64_t one = 1;
    ++rung_;
    static_cast<void>(!write(eventfd_, &one, sizeof one));
  }

  Arrivals& arrivals_;
  bool spins_;
  int eventfd_;
  rte_ring* ring_ = nullptr;
  std::uint64_t rung_ = 0;
  alignas(64) std::atomic<bool> sleeps_{false};
  std::atomic<bool> stop_{false};
  alignas(64) std::uint64_t reads_ = 0;
  std::uint64_t announced_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<WakeChannel> make_rte_channel(Arrivals& arrivals, int target_cpu, bool spins) {
  return std::make_unique<RteChannel>(arrivals, target_cpu, spins);
}

}  // namespace pinion::bench

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/log.h>

/// How a loop comes to its end: stop, drain, and what becomes of the tasks that are left.

namespace pinion {
namespace {

/// How long the kernel may take to end the operations that are left.
constexpr Delay kQuiesceBound = std::chrono::milliseconds{200};

/// How often what handlers start while the loop ends is ended in its turn.
constexpr int kLastRounds = 100;

/// Tells that a clock stands, as one does that is set by hand, while cancelled tasks have their
/// time to end: by the kernel's clock, since turns may sleep, and sooner after many turns.
class StandingClock {
 public:
  explicit StandingClock(Delay allowed) noexcept : allowed_(allowed) {}

  /// Once in a turn.
  bool has_stood_too_long(Instant now) noexcept {
    if (std::exchange(last_, now) != now) {
      turns_ = 0;
      since_ = Kernel::now();
      return false;
    }
    const bool many_turns = ++turns_ >= kManyTurns;
    return Kernel::now() - since_ >= (many_turns ? std::min(allowed_, kLongForTurns) : allowed_);
  }

 private:
  using Kernel = std::chrono::steady_clock;
  static constexpr unsigned kManyTurns = 10'000;
  static constexpr Delay kLongForTurns = std::chrono::milliseconds{20};  // A metronome may stall.

  const Delay allowed_;
  Kernel::time_point since_ = Kernel::now();
  Instant last_ = kNever;
  unsigned turns_ = 0;
};

}  // namespace

void Loop::stop() noexcept {
  request(kStopRequest);
}

void Loop::request_drain() noexcept {
  request(kDrainRequest);
}

/// What it leaves may end the loop's run before it is through: it counts as a caller meanwhile, for
/// whom the destructor waits.
void Loop::request(std::uint32_t what) noexcept {
  requesting_.fetch_add(1, std::memory_order_relaxed);
  requests_.fetch_or(what, std::memory_order_seq_cst);
  if (mailbox_.must_ring()) ring_eventfd();
  requesting_.fetch_sub(1, std::memory_order_release);
}

void Loop::nudge() noexcept {
  requesting_.fetch_add(1, std::memory_order_relaxed);
  if (mailbox_.must_ring()) ring_eventfd();
  requesting_.fetch_sub(1, std::memory_order_release);
}

bool Loop::take_requests() noexcept {
  if (requests_.load(std::memory_order_relaxed) == 0) return false;
  const std::uint32_t requests = requests_.exchange(0, std::memory_order_seq_cst);
  if ((requests & kStopRequest) != 0) stopping_ = true;
  if ((requests & kDrainRequest) != 0) begin_drain();
  return true;
}

void Loop::add_drainable(Drainable& drainable) noexcept {
  drainables_.push_back(drainable);
  if (drain_ != Drain::no) tell(drainable, &Drainable::on_drain);
  if (drain_ == Drain::expired || drain_ == Drain::given_up) {
    tell(drainable, &Drainable::on_drain_expired);
  }
}

void Loop::remove_drainable(Drainable& drainable) noexcept {
  List<Drainable>::erase(drainable);
}

void Loop::begin_drain() noexcept {
  if (drain_ != Drain::no) return;
  drain_ = Drain::waiting;
  if (options_.drain_timeout != kNoTimeout) arm_after(drain_timer_, options_.drain_timeout);
  tell_all(&Drainable::on_drain);
}

void Loop::DrainTimer::on_timer(TimerEntry& self) noexcept {
  static_cast<DrainTimer&>(self).loop.expire_drain();
}

void Loop::expire_drain() noexcept {
  if (drain_ == Drain::expired) {
    drain_ = Drain::given_up;
    return;
  }
  drain_ = Drain::expired;
  arm_after(drain_timer_, options_.wind_down);
  tell_all(&Drainable::on_drain_expired);
}

bool Loop::finished() {
  if (stopping_ || drain_ == Drain::given_up) return true;
  return drain_ != Drain::no && all_drained();
}

void Loop::wind_down() {
  destroy_unstarted_tasks();
  cancel_tasks();
  // A second stop() cuts it short, and so does a clock that stands still.
  StandingClock clock(options_.wind_down);
  run_until([&] { return stats_.tasks_live == 0 || stopping_ || clock.has_stood_too_long(now_); },
            options_.wind_down);
  handle_messages();
  destroy_unstarted_tasks();  // Those that a handler spawned just now.
  if (stats_.tasks_live == 0) return;
  const std::int64_t allowed_ms = options_.wind_down.count() / 1'000'000;
  if (calls_in_flight_ > 0) {
    log_warn("{} calls to other loops have no answer ({} ms to get it); keeping {} cancelled tasks",
             calls_in_flight_, allowed_ms, stats_.tasks_live);
    return;
  }
  log_warn("{} cancelled tasks haven't ended ({} ms to do so); destroying them", stats_.tasks_live,
           allowed_ms);
  if (ring_->quiesce(kQuiesceBound)) {
    destroy_tasks();
    return;
  }
  log_error("{} operations didn't end, so that {} tasks can't be destroyed", ring_->in_flight(),
            stats_.tasks_live);
}

/// Ends what still lives: tasks, then operations, since connections and listeners that nobody
/// refers to any more free themselves at their operations' last completions. What the handlers post
/// is handled, and what they start is ended in its turn.
void Loop::finish() {
  if (over_) return;
  stopping_ = false;  // That ended the run; another stop() shortens this.
  if (current_or_null() == this) {
    wind_down();
  } else {
    destroy_tasks();  // None of them has ever run.
  }
  for (int round = 0; round < kLastRounds; ++round) {
    if (!ring_->quiesce(kQuiesceBound) || calls_in_flight_ > 0) break;
    destroy_tasks();  // Those that a handler spawned meanwhile.
    if (handle_messages() == 0 && ring_->in_flight() == 0) return;
  }
  over_ = true;
  if (!mailbox_.empty()) log_error("the loop ends with messages that were posted without end");
  if (ring_->in_flight() == 0) return;
  log_error("the loop ends with {} operations in flight", ring_->in_flight());
}

std::uint64_t Loop::own_operations() const noexcept {
  std::uint64_t count = doorbell_.in_flight();
  for (const PollerSlot& slot : pollers_) count += slot.in_flight();
  return count;
}

/// The kernel may still write into the frames of the tasks that are left. They stay where they are,
/// with what they refer to, and can be found there.
void Loop::leave_tasks_alone() {
  struct Left {
    std::unique_ptr<FramePool> frames;
    std::unique_ptr<Slab<detail::TaskContext>> contexts;
    Left* older;
  };
  static std::atomic<Left*> newest{nullptr};
  Left* const left = new Left{std::move(frames_), std::move(contexts_), newest.load()};
  while (!newest.compare_exchange_weak(left->older, left)) {
  }
  live_tasks_.clear();
}

}  // namespace pinion

#include <pinion/eventloop/loop.h>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace pinion {
namespace {

thread_local Loop* current_loop = nullptr;

/// An idle turn takes less than 1 us, with an interrupt a few more. What takes longer is looked
/// into, for the price of a system call; by a clock that moves in steps, beyond one of these too.
constexpr Delay kLongestIdleTurn = std::chrono::microseconds{20};

Result<> check_options(const LoopOptions& options) {
  const std::array<std::pair<const char*, std::size_t>, 6> positive = {{
      {"message_budget", options.message_budget},
      {"completion_budget", options.completion_budget},
      {"poll_budget", options.poll_budget},
      {"ready_budget", options.ready_budget},
      {"timer_budget", options.timer_budget},
      {"max_tasks", options.max_tasks},
  }};
  for (const auto& [name, value] : positive) {
    if (value == 0) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is 0", name),
                  fmt::format("set LoopOptions::{} to 1 or more", name));
    }
  }
  const std::array<std::pair<const char*, Delay>, 6> not_negative = {{
      {"overlong_turn", options.overlong_turn},
      {"spin_max", options.spin_max},
      {"doze_max", options.doze_max},
      {"task_slice", options.task_slice},
      {"drain_timeout", options.drain_timeout},
      {"wind_down", options.wind_down},
  }};
  for (const auto& [name, value] : not_negative) {
    if (value < Delay{}) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is {} ns", name, value.count()),
                  fmt::format("set LoopOptions::{} to 0 or more", name));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Loop>> Loop::create(LoopOptions options, TimeSource& time) {
  if (Result<> checked = check_options(options); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  const Result<SubmissionRules> submission = options.submission.resolve();
  if (!submission) return tl::unexpected(submission.error());
  auto ring = Ring::create(options.ring);
  if (!ring) return tl::unexpected(std::move(ring.error()));
  const int doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (doorbell < 0) {
    return tl::unexpected(
        errno_error(errno, "no descriptor for the loop's doorbell", "ulimit -n 65536"));
  }
  return std::unique_ptr<Loop>(new Loop(options, *submission, time, std::move(*ring), doorbell));
}

Loop::Loop(const LoopOptions& options, const SubmissionRules& submission, TimeSource& time,
           std::unique_ptr<Ring> ring, int doorbell_fd)
    : options_(options),
      time_(time),
      ring_(std::move(ring)),
      frames_(std::make_unique<FramePool>(options.frame_pool_bytes)),
      doorbell_fd_(doorbell_fd),
      wheel_(time.now()),
      now_(time.now()),
      longest_idle_turn_(
          std::chrono::nanoseconds{kLongestIdleTurn.count() + time.resolution().count()}),
      contexts_(std::make_unique<Slab<detail::TaskContext>>(options.max_tasks)),
      idle_controller_(options.idle, spin_max()),
      drain_timer_(*this),
      submission_(submission, stats_.submission) {
  ring_->note_in(running_);
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    queues_[i].loop = this;
    queues_[i].stats = &stats_.groups[i];
    queues_[i].bit = std::uint32_t{1} << i;
  }
  queues_.front().shares = TaskGroup::kStandardShares;
  stats_.groups.front() = {.name = "default", .shares = TaskGroup::kStandardShares};
}

Delay Loop::spin_max() const noexcept {
  return options_.spin_max.count() > 0 ? options_.spin_max : default_spin_max();
}

Loop::~Loop() {
  PINION_ASSERT(detail::running_task == nullptr || detail::running_task->queue->loop != this);
  // It sleeps: a thread of a higher priority on the caller's CPU would never let it go on.
  constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 20'000};
  while (requesting_.load(std::memory_order_acquire) > 0) nanosleep(&kMoment, nullptr);
  if (current_loop == this || !adopted_) {
    finish();
  } else {
    // Here nothing can be cancelled: only the loop's thread may use the ring.
    const bool left_nothing_in_flight = ring_->in_flight() == own_operations();
    PINION_ASSERT(left_nothing_in_flight);
    over_ = true;
    destroy_tasks();  // None of them has ever run.
  }
  if (current_loop == this) {
    current_loop = nullptr;
    prctl(PR_SET_TIMERSLACK, timer_slack_before_);
  }
  const bool every_call_is_answered = calls_in_flight_ == 0;
  PINION_ASSERT(every_call_is_answered);
  if (stats_.tasks_live > 0) {
    leave_tasks_alone();
  } else {
    release_contexts();
  }
  ring_->abandon(doorbell_);
  for (PollerSlot& slot : pollers_) ring_->abandon(slot);
  ring_.reset();
  close(doorbell_fd_);
}

Loop& Loop::current() noexcept {
  PINION_ASSERT(current_loop != nullptr);
  return *current_loop;
}

Loop* Loop::current_or_null() noexcept {
  return current_loop;
}

Result<> Loop::adopt_thread() {
  if (adopted_) {
    PINION_ASSERT(current_loop == this);  // The loop runs on one thread only.
    return {};
  }
  PINION_ASSERT(current_loop == nullptr);  // A thread has one loop.
  if (Result<> enabled = ring_->enable(); !enabled) return enabled;
  adopted_ = true;
  current_loop = this;
  // Otherwise the kernel ends a sleep up to 50 us late, to save wake-ups.
  timer_slack_before_ = static_cast<unsigned long>(prctl(PR_GET_TIMERSLACK));
  prctl(PR_SET_TIMERSLACK, 1UL);
  preemptions_ = count_preemptions();
  return {};
}

Ending Loop::run() {
  const Result<> adopted = adopt_thread();
  PINION_ASSERT(adopted.has_value());
  call_gate_.open();
  for (work(); !finished(); work()) rest();
  submit_rest();
  const Ending ending = stopping_                  ? Ending::stopped
                        : drain_ == Drain::waiting ? Ending::drained
                                                   : Ending::drain_expired;
  stopping_ = false;
  wind_down();
  end_calls();
  stopping_ = false;
  spent_ = Spent::elsewhere;
  return ending;
}

bool Loop::run_until(bool (*done)(void*) noexcept, void* context, Delay bound) {
  const Result<> adopted = adopt_thread();
  PINION_ASSERT(adopted.has_value());
  read_clock();
  const Instant limit = saturating_add(now_, bound);
  const Instant outer = std::exchange(park_limit_, std::min(park_limit_, limit));
  const auto goes_on = [&] { return !done(context) && now_ < limit && !stopping_; };
  if (goes_on()) {
    for (work(); goes_on(); work()) rest();
    submit_rest();
  }
  park_limit_ = outer;
  spent_ = Spent::elsewhere;
  return done(context);
}

std::size_t Loop::turn() {
  const Result<> adopted = adopt_thread();
  PINION_ASSERT(adopted.has_value());
  read_clock();
  const std::size_t done = run_phases();
  if (!holds(done > 0 && has_more())) submit();
  spent_ = done > 0 ? Spent::busy : Spent::idle;
  return done;
}

/// Whether the next turn is known to have something to do.
bool Loop::has_more() const noexcept {
  return ready_count_ > 0 || ring_->ready() || !mailbox_.empty();
}

/// A turn but for its last phase: rest() follows, or submit().
void Loop::work() {
  read_clock();
  if (run_phases() > 0) {
    spent_ = Spent::busy;
    was_idle_ = false;
    doze_ = {};
    return;
  }
  spent_ = Spent::idle;
  begin_idling();
}

void Loop::begin_idling() noexcept {
  if (was_idle_) return;
  was_idle_ = true;
  idle_since_ = now_;
}

void Loop::read_clock() noexcept {
  const bool long_ago = spent_ == Spent::parked || spent_ == Spent::elsewhere;
  note_clock(long_ago ? time_.fresh() : time_.now());
}

void Loop::note_clock(Instant reading) noexcept {
  const Instant read = std::max(now_, reading);  // A clock that steps back is ignored.
  const Delay elapsed = saturating_sub(read, now_);
  const auto nanoseconds = static_cast<std::uint64_t>(elapsed.count());
  now_ = read;
  switch (spent_) {
    case Spent::elsewhere:
      return;
    case Spent::idle:
      stats_.idle_ns += nanoseconds;
      if (elapsed > longest_idle_turn_) [[unlikely]]
        note_long_idle_turn(elapsed);
      return;
    case Spent::parked:
      stats_.parked_ns += nanoseconds;
      return;
    case Spent::busy:
      stats_.busy_ns += nanoseconds;
      break;
  }
  if (elapsed > options_.overlong_turn) [[unlikely]]
    note_overlong_turn(elapsed, running_.look());
}

std::size_t Loop::run_phases() {
  if (--turns_to_timed_ > 0) [[likely]]
    return run_phases<false>();
  turns_to_timed_ = LoopStats::kTurnsPerTimed;
  phase_began_ = now_;
  return run_phases<true>();
}

template <bool kTimed>
std::size_t Loop::ended(Phase phase, std::size_t did) noexcept {
  if constexpr (kTimed) time_phase(phase, did);
  return did;
}

template <bool kTimed>
std::size_t Loop::run_phases() {
  ++stats_.turns;
  ran_ = 0;
  std::size_t done = take_requests() ? 1 : 0;
  std::size_t arrived = ended<kTimed>(Phase::messages, handle_messages());
  // What has arrived goes before the timers that are due. Without any, what arrives meanwhile comes
  // with the call that submits this turn's operations, and has none of its own.
  const Reap reap = wheel_.has_work(now_) ? Reap::all : Reap::some;
  const std::size_t completions =
      ended<kTimed>(Phase::completions, ring_->poll(options_.completion_budget, reap));
  stats_.completions += completions;
  ran_ += static_cast<std::uint32_t>(completions);
  arrived += completions;
  arrived += ended<kTimed>(Phase::pollers, poll_pollers());
  if (arrived > 0 && was_idle_) {
    const Delay gap = saturating_sub(now_, idle_since_);
    if (idle_controller_.on_arrival(gap, spent_ == Spent::parked)) ++stats_.spins_given_up;
  }
  done += arrived;
  done += ended<kTimed>(Phase::tasks, run_ready());
  done += ended<kTimed>(Phase::timers, fire_timers());
  return done;
}

std::size_t Loop::fire_timers() {
  if (!wheel_.has_work(now_)) return wheel_.advance(now_, options_.timer_budget);
  // Work may be there when nothing is due: the wheel spreads that of its cascades over such turns.
  const Instant due = wheel_.next_expiry();
  if (due <= now_) note_running("timers", nullptr, nullptr);
  const std::size_t fired = wheel_.advance(now_, options_.timer_budget);
  if (fired > 0) {
    stats_.timers_fired += fired;
    stats_.timer_lateness.record(static_cast<std::uint64_t>(saturating_sub(now_, due).count()));
  }
  return fired;
}

Instant Loop::fresh_now() noexcept {
  return std::max(now_, time_.fresh());
}

void Loop::note_running(const char* kind, const char* name, const void* code) noexcept {
  running_.note(kind, name, code);
  ++ran_;
}

void Loop::post(Message& message) noexcept {
  if (!mailbox_.push(message)) return;
  // A thread with a ring of its own rings from there, in the system call that submits what it
  // queued.
  Loop* const here = current_loop;
  if (here != nullptr && here != this && here->ring_->ring_doorbell(ring_->fd())) return;
  ring_eventfd();
}

void Loop::add_poller(Poller& poller) noexcept {
  PINION_ASSERT(on_the_loops_thread());
  for (std::size_t i = 0; i < kMaxPollers; ++i) {
    PollerSlot& slot = pollers_[i];
    // A slot whose last poll has not come back yet is not free.
    if (slot.poller != nullptr || slot.in_flight() > 0) continue;
    slot.poller = &poller;
    slot.failed = false;
    slot.poll_again_at = {};
    poller_count_ = std::max(poller_count_, i + 1);
    return;
  }
  const bool there_is_a_slot_left = false;
  PINION_ASSERT(there_is_a_slot_left);
}

void Loop::remove_poller(Poller& poller) noexcept {
  for (std::size_t i = 0; i < poller_count_; ++i) {
    PollerSlot& slot = pollers_[i];
    if (slot.poller != &poller) continue;
    slot.poller = nullptr;
    slot.prepared = false;
    if (slot.in_flight() == 0) continue;
    ring_->cancel(slot);
    // Its descriptor, which the kernel holds until then, may be closed next, and its name be wanted
    // again.
    if (current_loop == this) ring_->submit();
  }
}

}  // namespace pinion

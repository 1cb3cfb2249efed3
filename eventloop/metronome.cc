#include <pinion/eventloop/metronome.h>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>

#include <pinion/lib/assert.h>

namespace pinion {
namespace {

Result<> check(const MetronomeOptions& options, std::size_t lcores) {
  const auto microseconds = [](Delay delay) { return delay.count() / 1000; };
  if (options.resolution < MetronomeOptions::kFinest ||
      options.resolution > MetronomeOptions::kCoarsest) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a metronome can't beat each {} us", microseconds(options.resolution)),
        fmt::format("a resolution from {} to {} us", microseconds(MetronomeOptions::kFinest),
                    microseconds(MetronomeOptions::kCoarsest)));
  }
  if (options.widest < options.resolution || options.widest > MetronomeOptions::kWidest) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a metronome's beats can't widen to {} us", microseconds(options.widest)),
        fmt::format("from its resolution, {} us, to {} us", microseconds(options.resolution),
                    microseconds(MetronomeOptions::kWidest)));
  }
  if (lcores == 0 || lcores > Metronome::kMaxLcores) {
    return fail(ErrorCode::invalid_argument, fmt::format("a metronome for {} lcores", lcores),
                fmt::format("1 to {} lcores", Metronome::kMaxLcores));
  }
  return {};
}

/// Shared by all, since it holds nothing.
MonotonicTime kernel_time;

}  // namespace

Result<std::unique_ptr<Metronome>> Metronome::start(const MetronomeOptions& options,
                                                    std::size_t lcores) {
  if (Result<> checked = check(options, lcores); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  std::unique_ptr<Metronome> metronome(new Metronome(options, lcores));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(
      &metronome->thread_, nullptr,
      [](void* argument) -> void* {
        static_cast<Metronome*>(argument)->run();
        return nullptr;
      },
      metronome.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return metronome;
  metronome->stopping_ = true;  // Nobody is there to be joined.
  return tl::unexpected(errno_error(error, "cannot start the metronome's thread", "ulimit -u"));
}

Metronome::~Metronome() {
  if (stopping_) return;
  const bool a_clock_is_left = board_.in_use();
  PINION_ASSERT(!a_clock_is_left);
  stopping_.store(true, std::memory_order_release);
  board_.knock();
  pthread_join(thread_, nullptr);
}

void Metronome::run() noexcept {
  pthread_setname_np(pthread_self(), "pinion-clock");
  // Otherwise the kernel ends each wait up to 50 us late.
  prctl(PR_SET_TIMERSLACK, 1UL);
  while (true) {
    const std::uint32_t knocks = board_.knocks();
    if (stopping_.load(std::memory_order_acquire)) return;
    board_.wait(knocks, board_.beat(MonotonicTime::read()));
  }
}

MetronomeTime::MetronomeTime(detail::MetronomeBoard& board, std::size_t index, TimeSource* real)
    : board_(board),
      slot_(board.take(index)),
      real_(real != nullptr ? *real : kernel_time),
      latest_(real_.now()) {}

MetronomeTime::~MetronomeTime() {
  slot_.wake();
  slot_.sleep(kNever, -1);
  slot_.taken = false;
}

Instant MetronomeTime::fresh() noexcept {
  ++kernel_readings_;
  latest_ = std::max(latest_, real_.now());
  const bool trust = saturating_sub(latest_, slot_.published()) <= board_.trusted_lag();
  left_ = trust ? trusted_ : 1;
  return latest_;
}

/// The slot has shown the same for a while, or wasn't trusted the last time.
Instant MetronomeTime::look_up() noexcept {
  const Instant read = fresh();
  if (left_ > 1) {
    trusted_ = std::min(2 * trusted_, kMostTrusted);
    left_ = trusted_;
    return read;
  }
  trusted_ = kLeastTrusted;
  if (++doubts_ % kReadingsToResume == 0) {
    slot_.wake();
    board_.resume();
  }
  return read;
}

Delay MetronomeTime::error_bound() const noexcept {
  return std::max(board_.stats().recent_gap, board_.options().resolution);
}

}  // namespace pinion

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <pinion/lib/log.h>

#include "runtime_parts.h"

/// The runtime's own thread: it starts lcores, hands signals and requests on to them, and sees to
/// their common end.

namespace pinion {
namespace {

/// A question that came when nobody could answer it any more must not end the process.
void drop_questions() noexcept {
  sigset_t question;
  sigemptyset(&question);
  sigaddset(&question, SIGUSR1);
  const timespec none{};
  while (sigtimedwait(&question, nullptr, &none) == SIGUSR1) {
  }
}

}  // namespace

Runtime::SignalMask::~SignalMask() {
  if (asks_) drop_questions();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Runtime::SignalMask::block_for_new_threads() noexcept {
  sigset_t all;
  sigfillset(&all);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&all, signal);
  }
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

void Runtime::SignalMask::block_only(const sigset_t& handled) noexcept {
  // In one step: one that is pending must not slip through in between.
  sigset_t mask;
  sigorset(&mask, &before_, &handled);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  // What the caller held stays pending for him.
  asks_ = sigismember(&handled, SIGUSR1) == 1 && sigismember(&before_, SIGUSR1) == 0;
}

Runtime::Supervisor::Supervisor(Runtime& runtime, const Setup& setup, const sigset_t& handled,
                                int signal_fd)
    : runtime_(runtime),
      setup_(setup),
      handled_(handled),
      signal_fd_(signal_fd),
      inquiry_(runtime.wake_fd_) {}

Result<RunReport> Runtime::Supervisor::run() {
  mask_.block_for_new_threads();
  Result<> started = start_.clocks.prepare(runtime_.options_);
  if (started) started = start_threads();
  mask_.block_only(handled_);
  inquiry_.add(start_.clocks.metronome());
  for (const auto& thread : threads_) {
    if (started) thread->phase.store(Thread::Phase::serving, std::memory_order_relaxed);
    know(*thread);
  }
  start_.decide(started ? Start::Verdict::go : Start::Verdict::give_up);
  if (started) supervise();
  const RunReport report = end();
  if (!started) return tl::unexpected(std::move(started.error()));
  return report;
}

/// From now on it is asked for reports. One that comes back is known already.
void Runtime::Supervisor::know(Thread& thread) {
  if (std::exchange(thread.known, true)) return;
  inquiry_.add(thread.lcore);
}

/// Starts and sets up all lcores; threads_ holds those that were started, whatever happened.
Result<> Runtime::Supervisor::start_threads() {
  Result<> result;
  for (const unsigned cpu : runtime_.options_.cpus) {
    if (result = start_thread(new_thread(cpu)); !result) {
      threads_.pop_back();
      break;
    }
  }
  start_.wait_for_verdict(threads_.size());
  for (const auto& thread : threads_) {
    if (thread->error && result) result = tl::unexpected(std::move(*thread->error));
  }
  return result;
}

Runtime::Thread& Runtime::Supervisor::new_thread(unsigned cpu) {
  const auto index = static_cast<unsigned>(threads_.size());
  threads_.push_back(std::make_unique<Thread>(runtime_, start_, setup_, index, cpu));
  return *threads_.back();
}

Result<> Runtime::Supervisor::start_thread(Thread& thread) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(thread.lcore.cpu(), &cpus);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
  if (error == 0) {
    error = pthread_create(
        &thread.handle, &attributes,
        [](void* argument) -> void* {
          run_thread(*static_cast<Thread*>(argument));
          return nullptr;
        },
        &thread);
  }
  pthread_attr_destroy(&attributes);
  if (error == 0) return {};
  return tl::unexpected(errno_error(
      error, fmt::format("cannot start a thread on CPU {}", thread.lcore.cpu()), "ulimit -u"));
}

void Runtime::Supervisor::supervise() {
  while (somebody_serves()) {
    act_on_requests();
    tell_results();
    begin_adding();
    if (somebody_serves()) wait();
  }
}

bool Runtime::Supervisor::somebody_serves() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const auto& thread) { return thread->live(); });
}

void Runtime::Supervisor::act_on_requests() {
  if (runtime_.drain_requested_.exchange(false, std::memory_order_acquire)) drain();
  if (runtime_.stop_requested_.exchange(false, std::memory_order_acquire)) stop();
  if (runtime_.report_requested_.exchange(false, std::memory_order_acquire)) inquiry_.ask();
  take_requests();
}

void Runtime::Supervisor::drain() {
  draining_ = true;
  for (const auto& thread : threads_) {
    if (thread->look() == Thread::Phase::serving) thread->lcore.loop().request_drain();
  }
}

void Runtime::Supervisor::stop() {
  stopping_ = true;
  for (const auto& thread : threads_) {
    if (thread->look() == Thread::Phase::serving) thread->lcore.loop().stop();
  }
}

void Runtime::Supervisor::wait() {
  std::array<pollfd, 2> waits = {{{signal_fd_, POLLIN, 0}, {runtime_.wake_fd_, POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), inquiry_.progress());
  std::uint64_t count = 0;
  static_cast<void>(!read(runtime_.wake_fd_, &count, sizeof(count)));
  take_signal();
}

void Runtime::Supervisor::take_signal() {
  signalfd_siginfo info{};
  if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
  if (info.ssi_signo == SIGUSR1) {
    inquiry_.ask();
    return;
  }
  last_signal_ = static_cast<int>(info.ssi_signo);
  const bool again = draining_;
  again ? stop() : drain();
  log_info("SIG{}: {}", sigabbrev_np(last_signal_),
           again ? "stopping now" : "draining; a second signal stops at once");
}

void Runtime::Supervisor::take_requests() {
  for (Request& request : runtime_.take_requests()) {
    if (request.adds) {
      additions_.push_back(std::move(request));
    } else {
      begin_draining(request);
    }
  }
}

void Runtime::Supervisor::begin_draining(Request& request) {
  Thread* const thread =
      request.number < threads_.size() ? threads_[request.number].get() : nullptr;
  if (thread == nullptr || thread->look() != Thread::Phase::serving) {
    if (!request.drained) return;
    request.drained(fail(ErrorCode::not_found, fmt::format("no lcore {} serves", request.number),
                         "choose one that was started or added, and set up, and not drained yet"));
    return;
  }
  if (request.drained) thread->drained.push_back(std::move(request.drained));
  // Its thread reads it once its loop has ended; drained with all others it doesn't matter.
  thread->drains_alone.store(true, std::memory_order_release);
  thread->lcore.loop().request_drain();
}

void Runtime::Supervisor::begin_adding() {
  while (adding_ == nullptr && !additions_.empty()) {
    Request request = std::move(additions_.front());
    additions_.erase(additions_.begin());
    add(request);
  }
}

Result<> Runtime::Supervisor::check_addition(unsigned cpu) const {
  if (draining_ || stopping_) {
    return fail(ErrorCode::cancelled, "the runtime is coming to its end");
  }
  const bool taken = std::any_of(threads_.begin(), threads_.end(), [cpu](const auto& thread) {
    return thread->live() && thread->lcore.cpu() == cpu;
  });
  return check_cpu(runtime_.options_, cpu, taken);
}

/// On a loop that is left from an lcore that was drained, or on a new thread.
void Runtime::Supervisor::add(Request& request) {
  if (const Result<> checked = check_addition(request.number); !checked) {
    if (request.added) request.added(tl::unexpected(checked.error()));
    return;
  }
  if (Thread* const back = retired_on(request.number)) {
    tell_drained(*back);  // Of the life before.
    adding_ = back;
    back->added = std::move(request.added);
    back->error.reset();
    back->phase.store(Thread::Phase::starting, std::memory_order_relaxed);
    back->order.store(Thread::Order::serve, std::memory_order_release);
    back->lcore.loop().request(Loop::kLookRequest);
    return;
  }
  Thread& thread = new_thread(request.number);
  thread.late = true;
  thread.ending = Ending::drained;  // What counts if it never serves.
  mask_.block_for_new_threads();
  const Result<> started = start_thread(thread);
  mask_.block_only(handled_);
  if (!started) {
    threads_.pop_back();
    if (request.added) request.added(tl::unexpected(started.error()));
    return;
  }
  adding_ = &thread;
  thread.added = std::move(request.added);
}

Runtime::Thread* Runtime::Supervisor::retired_on(unsigned cpu) const {
  for (const auto& thread : threads_) {
    if (thread->look() == Thread::Phase::retired && thread->lcore.cpu() == cpu) {
      return thread.get();
    }
  }
  return nullptr;
}

/// Who asked hears what became of it.
void Runtime::Supervisor::tell_results() {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = *threads_[i];
    const Thread::Phase phase = thread.look();
    if (phase == Thread::Phase::retired || phase == Thread::Phase::ended) {
      tell_drained(thread);
    }
  }
  if (adding_ != nullptr && adding_->look() != Thread::Phase::starting) {
    settle(*std::exchange(adding_, nullptr));
  }
}

/// An addition has come to its end, good or bad.
void Runtime::Supervisor::settle(Thread& thread) {
  const Added added = std::exchange(thread.added, {});
  const unsigned index = thread.lcore.index();
  if (thread.error) {
    const Error error = std::move(*thread.error);
    thread.error.reset();
    if (thread.look() == Thread::Phase::failed) {
      pthread_join(thread.handle, nullptr);
      threads_.pop_back();  // One is added at a time: it is the last.
    }
    if (added) added(tl::unexpected(error));
    return;
  }
  know(thread);
  if (draining_) thread.lcore.loop().request_drain();
  if (stopping_) thread.lcore.loop().stop();
  if (added) added(index);
}

/// Tells those who asked for the drain of this lcore how it ended.
void Runtime::Supervisor::tell_drained(Thread& thread) {
  for (const Drained& drained : std::exchange(thread.drained, {})) drained(thread.ending);
}

RunReport Runtime::Supervisor::end() {
  // One that was added has come to an end, good or bad, since somebody last looked.
  if (adding_ != nullptr) settle(*std::exchange(adding_, nullptr));
  RunReport report{.ending = Ending::drained, .signal = last_signal_};
  start_.release(threads_.size());
  for (const auto& thread : threads_) {
    if (thread->look() != Thread::Phase::retired) continue;
    // The loop may die as soon as its thread knows: it waits for whoever counts as a caller.
    Loop& loop = thread->lcore.loop();
    loop.requesting_.fetch_add(1, std::memory_order_relaxed);
    thread->order.store(Thread::Order::end, std::memory_order_release);
    loop.request(Loop::kLookRequest);
    loop.requesting_.fetch_sub(1, std::memory_order_release);
  }
  for (const auto& thread : threads_) {
    pthread_join(thread->handle, nullptr);
    if (thread->ending == Ending::stopped) report.ending = Ending::stopped;
    if (thread->ending == Ending::drain_expired && report.ending == Ending::drained) {
      report.ending = Ending::drain_expired;
    }
  }
  inquiry_.progress();  // What was answered at the very end.
  tell_results();
  for (Request& late : runtime_.take_requests()) refuse(late);
  for (Request& left : std::exchange(additions_, {})) refuse(left);
  return report;
}

}  // namespace pinion

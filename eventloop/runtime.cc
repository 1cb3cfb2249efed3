#include <pinion/eventloop/runtime.h>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>

#include <pinion/lib/log.h>
#include <pinion/timers/time_source.h>

#include "inquiry.h"

namespace pinion {
namespace {

constexpr std::size_t kMaxLcores = CPU_SETSIZE;

/// How many turns a loop has to handle what others posted when they came to their end.
constexpr int kLastTurns = 100;

/// How often they do: a message that was posted at the end, an answer, and an answer to that.
constexpr int kLastMeetings = 3;

Result<cpu_set_t> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return tl::unexpected(errno_error(errno, "cannot read which CPUs this process may use"));
  }
  return set;
}

std::string to_list(const cpu_set_t& set) {
  std::string list;
  for (std::size_t cpu = 0; cpu < kMaxLcores; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    std::size_t last = cpu;
    while (last + 1 < kMaxLcores && CPU_ISSET(last + 1, &set)) ++last;
    list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
    if (last > cpu) list += fmt::format("-{}", last);
    cpu = last;
  }
  return list;
}

/// Several lcores on one CPU, if that is allowed: none may spin without end while another waits.
Result<> check_sharing(const RuntimeOptions& options, unsigned cpu) {
  if (!options.allow_shared_cpus) {
    return fail(ErrorCode::invalid_argument, fmt::format("two lcores on CPU {}", cpu),
                "give each lcore a CPU of its own, or allow them to share (allow_shared_cpus)");
  }
  if (options.loop.idle == IdlePolicy::spin) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("lcores that never sleep would take CPU {} from each other", cpu),
                "idle policy park or adaptive, or a CPU for each lcore");
  }
  return {};
}

void warn_of_sharing(const std::vector<unsigned>& cpus, const cpu_set_t& shared) {
  const auto count = std::count_if(cpus.begin(), cpus.end(),
                                   [&](unsigned cpu) { return CPU_ISSET(cpu, &shared) != 0; });
  if (count == 0) return;
  log_warn("{} lcores share CPU {}: each waits while another runs", count, to_list(shared));
}

Result<> check_cpus(const RuntimeOptions& options) {
  const std::vector<unsigned>& cpus = options.cpus;
  const Result<cpu_set_t> allowed = allowed_cpus();
  if (!allowed) return tl::unexpected(allowed.error());
  if (cpus.empty()) {
    return fail(ErrorCode::invalid_argument, "no CPU given for any lcore",
                fmt::format("choose from {}", to_list(*allowed)));
  }
  cpu_set_t taken;
  cpu_set_t shared;
  CPU_ZERO(&taken);
  CPU_ZERO(&shared);
  for (const unsigned cpu : cpus) {
    if (cpu >= kMaxLcores || !CPU_ISSET(cpu, &*allowed)) {
      return fail(
          ErrorCode::invalid_argument, fmt::format("this process may not use CPU {}", cpu),
          fmt::format("choose from {}, or widen the set with taskset or the cgroup's cpuset",
                      to_list(*allowed)));
    }
    if (CPU_ISSET(cpu, &taken)) {
      if (Result<> checked = check_sharing(options, cpu); !checked) return checked;
      CPU_SET(cpu, &shared);
    }
    CPU_SET(cpu, &taken);
  }
  warn_of_sharing(cpus, shared);
  return {};
}

Result<std::unique_ptr<TimeSource>> make_clock(ClockChoice choice) {
  if (choice != ClockChoice::monotonic) {
    Result<TscTime> tsc = TscTime::create();
    if (tsc) return std::make_unique<TscTime>(*tsc);
    if (choice == ClockChoice::tsc) return tl::unexpected(tsc.error());
  }
  return std::make_unique<MonotonicTime>();
}

}  // namespace

/// What the threads wait for together.
struct Runtime::Start {
  enum class Verdict : std::uint8_t { open, go, give_up };

  void wait_for_verdict(std::size_t expected) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return set_up == expected; });
  }
  Verdict arrive_and_wait() {
    std::unique_lock lock(mutex);
    ++set_up;
    changed.notify_all();
    changed.wait(lock, [&] { return verdict != Verdict::open; });
    return verdict;
  }
  void decide(Verdict decision) {
    const std::scoped_lock lock(mutex);
    verdict = decision;
    lcores = set_up;
    changed.notify_all();
  }
  void wait_for_release() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return released; });
  }
  void release() {
    const std::scoped_lock lock(mutex);
    released = true;
    changed.notify_all();
  }

  /// Waits until every lcore has come here as often as this one.
  void meet() {
    std::unique_lock lock(mutex);
    const std::size_t meeting = arrivals++ / lcores;
    changed.notify_all();
    changed.wait(lock, [&] { return arrivals / lcores > meeting; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t set_up = 0;
  std::size_t lcores = 0;    // Known with the verdict.
  std::size_t arrivals = 0;  // At all meetings.
  Verdict verdict = Verdict::open;
  bool released = false;
  std::atomic<std::size_t> ended{0};
};

struct Runtime::Thread {
  Thread(Runtime& owner, Start& together, const Setup& how, unsigned index, unsigned cpu)
      : runtime(owner), start(together), setup(how), lcore(index, cpu) {}

  Runtime& runtime;
  Start& start;
  const Setup& setup;
  Lcore lcore;
  pthread_t handle{};
  std::optional<Error> error;  // Set before the thread arrives.
  Ending ending = Ending::stopped;
};

/// Blocks signals on this thread and restores the mask in the end.
class Runtime::SignalMask {
 public:
  SignalMask() noexcept { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask() {
    if (asks_) drop_questions();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  /// Whatever arrives from outside, for the threads that are started meanwhile. What a thread does
  /// itself (a wild pointer) still ends the process.
  void block_for_new_threads() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&all, signal);
    }
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
  }

  /// Those that the runtime acts on, on top of what was blocked before.
  void block_only(const sigset_t& handled) noexcept {
    // In one step: one that is pending must not slip through in between.
    sigset_t mask;
    sigorset(&mask, &before_, &handled);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    // What the caller held stays pending for him.
    asks_ = sigismember(&handled, SIGUSR1) == 1 && sigismember(&before_, SIGUSR1) == 0;
  }

 private:
  /// A question that came when nobody could answer it any more must not end the process.
  static void drop_questions() noexcept {
    sigset_t question;
    sigemptyset(&question);
    sigaddset(&question, SIGUSR1);
    const timespec none{};
    while (sigtimedwait(&question, nullptr, &none) == SIGUSR1) {
    }
  }

  sigset_t before_{};
  bool asks_ = false;  // SIGUSR1 is blocked for the runtime alone.
};

void Lcore::destroy_kept() noexcept {
  reports_.clear();
  while (!kept_.empty()) {
    const Kept last = kept_.back();
    kept_.pop_back();
    last.destroy(last.object);
  }
}

Result<std::vector<unsigned>> first_cpus(std::size_t count) {
  const Result<cpu_set_t> allowed = allowed_cpus();
  if (!allowed) return tl::unexpected(allowed.error());
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < kMaxLcores && cpus.size() < count; ++cpu) {
    if (CPU_ISSET(cpu, &*allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() == count && count > 0) return cpus;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} lcores asked for, {} CPUs to run them on", count, cpus.size()),
              fmt::format("choose 1 to {} lcores", CPU_COUNT(&*allowed)));
}

Result<std::unique_ptr<Runtime>> Runtime::create(RuntimeOptions options) {
  if (Result<> checked = check_cpus(options); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) {
    return tl::unexpected(errno_error(errno, "no descriptor for the runtime", "ulimit -n 65536"));
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(options), wake_fd));
}

Runtime::Runtime(RuntimeOptions options, int wake_fd) noexcept
    : options_(std::move(options)), wake_fd_(wake_fd) {}

Runtime::~Runtime() {
  close(wake_fd_);
}

void Runtime::request_drain() noexcept {
  drain_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::request_stop() noexcept {
  stop_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::request_report() noexcept {
  report_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::wake() noexcept {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then run() is awake.
  static_cast<void>(!write(wake_fd_, &one, sizeof(one)));
}

Result<RunReport> Runtime::run(const Setup& setup) {
  sigset_t handled;
  sigemptyset(&handled);
  if (options_.handle_signals) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&handled, signal);
  }
  const int signal_fd = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd < 0) {
    return tl::unexpected(errno_error(errno, "no descriptor for signals", "ulimit -n 65536"));
  }
  SignalMask mask;
  mask.block_for_new_threads();
  Start start;
  detail::Inquiry inquiry(wake_fd_);  // Its messages live as long as the loops.
  std::vector<std::unique_ptr<Thread>> threads;
  Result<> started = start_threads(threads, start, setup);
  mask.block_only(handled);

  RunReport report{.ending = Ending::drained, .signal = 0};
  start.decide(started ? Start::Verdict::go : Start::Verdict::give_up);
  for (const auto& thread : threads) inquiry.add(thread->lcore);
  if (started) report.signal = supervise(threads, start, inquiry, signal_fd);
  start.release();
  for (const auto& thread : threads) {
    pthread_join(thread->handle, nullptr);
    if (thread->ending == Ending::stopped) report.ending = Ending::stopped;
    if (thread->ending == Ending::drain_expired && report.ending == Ending::drained) {
      report.ending = Ending::drain_expired;
    }
  }
  inquiry.progress();  // What was answered at the very end.
  close(signal_fd);
  if (!started) return tl::unexpected(std::move(started.error()));
  return report;
}

/// Starts and sets up all lcores. `threads` holds those that were started, whatever happened.
Result<> Runtime::start_threads(std::vector<std::unique_ptr<Thread>>& threads, Start& start,
                                const Setup& setup) {
  Result<> result;
  for (unsigned index = 0; index < options_.cpus.size() && result; ++index) {
    auto thread = std::make_unique<Thread>(*this, start, setup, index, options_.cpus[index]);
    result = start_thread(*thread);
    if (result) threads.push_back(std::move(thread));
  }
  start.wait_for_verdict(threads.size());
  for (const auto& thread : threads) {
    if (thread->error && result) result = tl::unexpected(std::move(*thread->error));
  }
  return result;
}

Result<> Runtime::start_thread(Thread& thread) {
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

void Runtime::run_thread(Thread& thread) {
  const std::string name = fmt::format("pinion-{}", thread.lcore.index());
  pthread_setname_np(pthread_self(), name.c_str());
  std::unique_ptr<TimeSource> time;
  std::unique_ptr<Loop> loop;
  if (Result<> ready = set_up(thread, time, loop); !ready) thread.error = ready.error();
  const bool serves = thread.start.arrive_and_wait() == Start::Verdict::go;
  if (serves) {
    thread.ending = loop->run();
    thread.lcore.ended_.store(true, std::memory_order_release);
    thread.start.ended.fetch_add(1, std::memory_order_release);
    thread.runtime.wake();
    // Other lcores may still post to this loop.
    thread.start.wait_for_release();
  }
  thread.lcore.destroy_kept();
  // What is kept may post when it dies, and so may what ends with a loop; and be answered. No loop
  // goes before all that is over.
  thread.start.meet();
  for (int turns = 0; serves && turns < kLastTurns && loop->turn() > 0; ++turns) {
  }
  for (int meeting = 0; meeting < kLastMeetings; ++meeting) {
    if (loop != nullptr) loop->finish();
    thread.start.meet();
  }
  if (loop != nullptr) loop->over_ = true;
}

Result<> Runtime::set_up(Thread& thread, std::unique_ptr<TimeSource>& time,
                         std::unique_ptr<Loop>& loop) {
  const RuntimeOptions& options = thread.runtime.options_;
  Result<std::unique_ptr<TimeSource>> clock = make_clock(options.clock);
  if (!clock) return tl::unexpected(std::move(clock.error()));
  time = std::move(*clock);
  Result<std::unique_ptr<Loop>> created = Loop::create(options.loop, *time);
  if (!created) return tl::unexpected(std::move(created.error()));
  loop = std::move(*created);
  thread.lcore.loop_ = loop.get();
  if (Result<> adopted = loop->adopt_thread(); !adopted) return adopted;
  return thread.setup(thread.lcore);
}

/// Hands signals and requests on to the loops until all have ended. Returns the last signal.
int Runtime::supervise(std::vector<std::unique_ptr<Thread>>& threads, const Start& start,
                       detail::Inquiry& inquiry, int signal_fd) {
  int last_signal = 0;
  bool draining = false;
  const auto drain = [&] {
    draining = true;
    for (const auto& thread : threads) thread->lcore.loop().request_drain();
  };
  const auto stop = [&] {
    for (const auto& thread : threads) thread->lcore.loop().stop();
  };
  while (start.ended.load(std::memory_order_acquire) < threads.size()) {
    if (drain_requested_.exchange(false, std::memory_order_acquire)) drain();
    if (stop_requested_.exchange(false, std::memory_order_acquire)) stop();
    if (report_requested_.exchange(false, std::memory_order_acquire)) inquiry.ask();
    std::array<pollfd, 2> waits = {{{signal_fd, POLLIN, 0}, {wake_fd_, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), inquiry.progress());
    std::uint64_t count = 0;
    static_cast<void>(!read(wake_fd_, &count, sizeof(count)));
    signalfd_siginfo info{};
    if (read(signal_fd, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
    if (info.ssi_signo == SIGUSR1) {
      inquiry.ask();
      continue;
    }
    last_signal = static_cast<int>(info.ssi_signo);
    const bool again = draining;
    again ? stop() : drain();
    log_info("SIG{}: {}", sigabbrev_np(last_signal),
             again ? "stopping now" : "draining; a second signal stops at once");
  }
  return last_signal;
}

}  // namespace pinion

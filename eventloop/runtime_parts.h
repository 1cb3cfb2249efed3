#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pinion/eventloop/runtime.h>

#include "clocks.h"
#include "inquiry.h"

/// What a running Runtime is made of: its threads, what they wait for together, and who looks after
/// them (supervisor.cc). What a thread does is in lcore_thread.cc.
///
/// Ownership:  all of it lives in Runtime::run(), and ends with it.
/// Threading:  Start by all threads; Thread by its own and the runtime's, as said at its members;
///             the rest by the runtime's.

namespace pinion {

/// CPUs that lcores may run on, and who has them: what create() and add_lcore() check.
[[nodiscard]] Result<> check_cpu(const RuntimeOptions& options, unsigned cpu, bool taken);

/// What the threads wait for together.
struct Runtime::Start {
  enum class Verdict : std::uint8_t { open, go, give_up };

  void wait_for_verdict(std::size_t expected);
  Verdict arrive_and_wait();
  void decide(Verdict decision);
  void wait_for_release();
  /// Lets `count` threads come to their end.
  void release(std::size_t count);
  /// Waits until every lcore has come here as often as this one.
  void meet();

  detail::Clocks clocks;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t set_up = 0;
  std::size_t lcores = 0;    // That meet: known with the verdict to give up, or with the release.
  std::size_t arrivals = 0;  // At all meetings.
  Verdict verdict = Verdict::open;
  bool released = false;
};

struct Runtime::Thread {
  enum class Phase : std::uint8_t {
    starting,  ///< Being set up.
    serving,   ///< Its loop runs.
    ended,     ///< Its loop has, by itself or with all others: it waits for the release.
    retired,   ///< Its loop handles messages and waits for an order: see `ending` and `error`.
    failed,    ///< There is no loop, the thread has come to its end.
  };
  enum class Order : std::uint8_t { none, serve, end };

  Thread(Runtime& owner, Start& together, const Setup& how, unsigned index, unsigned cpu)
      : runtime(owner), start(together), setup(how), lcore(index, cpu) {}

  /// By the thread: what it wrote before is for the runtime's thread to read.
  void enter(Phase reached) noexcept {
    phase.store(reached, std::memory_order_release);
    runtime.wake();
  }
  [[nodiscard]] Phase look() const noexcept { return phase.load(std::memory_order_acquire); }
  [[nodiscard]] bool live() const noexcept {
    const Phase now = look();
    return now == Phase::starting || now == Phase::serving;
  }

  Runtime& runtime;
  Start& start;
  const Setup& setup;
  Lcore lcore;
  pthread_t handle{};
  bool late = false;           // Was added: waits for nobody.
  bool known = false;          // Is asked for reports. The runtime's thread's.
  std::optional<Error> error;  // Of the set-up. The thread's while it is starting.
  Ending ending = Ending::stopped;
  std::atomic<Phase> phase{Phase::starting};
  std::atomic<Order> order{Order::none};  // For a retired one.
  std::atomic<bool> drains_alone{false};  // Told before its loop is told to drain.
  std::vector<Drained> drained;           // The runtime's thread's.
  Added added;                            // The same.
};

/// Blocks signals on this thread and restores the mask in the end.
class Runtime::SignalMask {
 public:
  SignalMask() noexcept { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask();

  /// Whatever arrives from outside, for the threads that are started meanwhile. What a thread does
  /// itself (a wild pointer) still ends the process.
  void block_for_new_threads() noexcept;

  /// Those that the runtime acts on, on top of what was blocked before.
  void block_only(const sigset_t& handled) noexcept;

 private:
  sigset_t before_{};
  bool asks_ = false;  // SIGUSR1 is blocked for the runtime alone.
};

/// Starts the threads, and hands signals and requests on to them until none serves.
class Runtime::Supervisor {
 public:
  Supervisor(Runtime& runtime, const Setup& setup, const sigset_t& handled, int signal_fd);

  Result<RunReport> run();

 private:
  void know(Thread& thread);
  Result<> start_threads();
  Thread& new_thread(unsigned cpu);
  Result<> start_thread(Thread& thread);
  void supervise();
  bool somebody_serves() const;
  void act_on_requests();
  void wait();
  void take_signal();
  void drain();
  void stop();

  // Lcores that come and go.
  void take_requests();
  void begin_adding();
  Result<> check_addition(unsigned cpu) const;
  void add(Request& request);
  void begin_draining(Request& request);
  void tell_results();
  void settle(Thread& thread);
  static void tell_drained(Thread& thread);
  Thread* retired_on(unsigned cpu) const;

  RunReport end();

  Runtime& runtime_;
  const Setup& setup_;
  const sigset_t& handled_;
  int signal_fd_;
  SignalMask mask_;
  Start start_;
  detail::Inquiry inquiry_;  // Its messages live as long as the loops.
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Request> additions_;  // That wait for their turn.
  Thread* adding_ = nullptr;
  bool draining_ = false;
  bool stopping_ = false;
  int last_signal_ = 0;
};

}  // namespace pinion

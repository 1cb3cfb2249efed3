#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/metronome_board.h>
#include <pinion/eventloop/snapshot.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>

/// Lcores: threads pinned to a CPU each, each with its own clock, loop and shard of the program.
///
///   auto runtime = pinion::Runtime::create({.cpus = *pinion::first_cpus(2)});
///   auto report = (*runtime)->run([](pinion::Lcore& lcore) -> pinion::Result<> {
///     lcore.loop().spawn(serve());
///     return {};
///   });
///
/// Ownership:  the runtime owns threads, loops, and what is given to Lcore::keep(). All of it lives
///             and dies on its lcore's thread. No loop dies before every loop has ended, with its
///             tasks and operations, every kept object is gone, and what all these posted to other
///             lcores has been handled and answered: whatever runs on lcores may post to others to
///             the end. What still answers answers is cut off.
/// At run time: add_lcore() starts one more, drain_lcore() drains one alone: its listeners close,
///             its connections finish or are reset, what it kept dies, and its CPU is free. Its
///             loop stays to the end of run() and still handles messages, asleep otherwise; an
///             lcore that is added on that CPU later goes on with it, under the same index.
/// Threading:  run() on one thread, which waits for signals meanwhile. request_drain(),
///             request_stop() and request_report() from any thread and from signal handlers;
///             add_lcore() and drain_lcore() from any thread.
/// Signals:    SIGTERM, SIGINT and SIGUSR1 are blocked while run() runs, and the mask is restored.
///             The first SIGTERM or SIGINT drains every loop; the second stops them at once.
///             SIGUSR1 logs a report of each lcore: what LoopStats, RingStats and WheelStats hold,
///             and what Lcore::add_report() added; of a loop that has ended, only that it has.
///             Before and after run() it ends a process that hasn't blocked or ignored it; one that
///             comes during run() doesn't, even when it is too late for an answer. Lcores, and
///             threads that they start, block every signal but those of faults. Threads that were
///             started before run() have to block all three: the kernel hands a signal to any
///             thread that doesn't, and there it ends the process.
/// Errors:     a CPU that doesn't exist or isn't allowed, a clock that can't be had, and whatever a
///             set-up returns: run() gives the first, after everything that was set up is gone.
///             Nothing serves before every lcore is set up.

namespace pinion {

namespace detail {
class Inquiry;
}

/// One thread of the runtime, as its set-up sees it.
class Lcore {
 public:
  Lcore(const Lcore&) = delete;
  Lcore& operator=(const Lcore&) = delete;

  /// From 0 on, in the order of RuntimeOptions::cpus, then of add_lcore().
  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] unsigned cpu() const noexcept { return cpu_; }
  [[nodiscard]] Loop& loop() noexcept { return *loop_; }

  /// Lets a report of this lcore end in what `write` adds. Called on this thread, which it holds up
  /// meanwhile; for the last time before what is kept dies.
  void add_report(std::function<void(ReportText&)> write) { reports_.push_back(std::move(write)); }

  /// Keeps an object until every loop has ended, or this lcore was drained alone. It dies on this
  /// thread, before the loop and after what was kept later.
  template <class T>
  T& keep(std::unique_ptr<T> object) {
    T& kept = *object;
    kept_.push_back({object.release(), [](void* pointer) { delete static_cast<T*>(pointer); }});
    return kept;
  }

 private:
  friend class Runtime;
  friend class detail::Inquiry;
  struct Kept {
    void* object;
    void (*destroy)(void*);
  };

  Lcore(unsigned index, unsigned cpu) noexcept : index_(index), cpu_(cpu) {}
  void destroy_kept() noexcept;
  void write_reports(ReportText& text);

  unsigned index_;
  unsigned cpu_;
  Loop* loop_ = nullptr;
  std::atomic<bool> ended_{false};  // The loop won't turn again but to die.
  std::vector<Kept> kept_;
  std::vector<std::function<void(ReportText&)>> reports_;
};

enum class ClockChoice : std::uint8_t {
  automatic,  ///< The CPU's counter where it can be trusted; otherwise the kernel's clock, or a
              ///< metronome where reading that is a system call.
  tsc,        ///< The CPU's counter, or an error.
  monotonic,  ///< The kernel's CLOCK_MONOTONIC.
  metronome,  ///< The same as one more thread shows it: metronome.h.
};

struct RuntimeOptions {
  std::vector<unsigned> cpus = {};  ///< One lcore for each; see first_cpus().
  LoopOptions loop = {};
  ClockChoice clock = ClockChoice::automatic;
  MetronomeOptions metronome = {};  ///< Where the clock is one.
  bool handle_signals = true;

  /// Whether `cpus` may name a CPU twice: more lcores than CPUs, which is for tests and for hosts
  /// with less than they should have. Not with IdlePolicy::spin.
  bool allow_shared_cpus = false;
};

struct RunReport {
  Ending ending =
      Ending::stopped;  ///< stopped if any loop was; otherwise drain_expired if any's did.
  int signal = 0;       ///< The last one that was acted on; 0 when none was.

  /// 0 after a drain, whether or not it expired, and after request_stop(); 128 + the signal's
  /// number when a second signal ended it.
  [[nodiscard]] int exit_code() const noexcept {
    return ending == Ending::stopped && signal != 0 ? 128 + signal : 0;
  }
};

/// The first `count` CPUs that this process may use.
[[nodiscard]] PINION_EXPORT Result<std::vector<unsigned>> first_cpus(std::size_t count);

class Runtime {
 public:
  /// Sets up one lcore, on its thread, whose loop is current.
  using Setup = std::function<Result<>(Lcore&)>;

  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Runtime>> create(
      RuntimeOptions options);
  PINION_EXPORT ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Starts the lcores, sets each up, then runs their loops until all have ended.
  [[nodiscard]] PINION_EXPORT Result<RunReport> run(const Setup& setup);

  /// Drains every loop, or stops it; what was asked for before run() holds when the loops start.
  PINION_EXPORT void request_drain() noexcept;
  PINION_EXPORT void request_stop() noexcept;

  /// Logs what SIGUSR1 does.
  PINION_EXPORT void request_report() noexcept;

  /// What an lcore's index is, or why it doesn't serve.
  using Added = std::function<void(Result<unsigned>)>;
  /// How an lcore that was drained alone ended, or why it wasn't drained.
  using Drained = std::function<void(Result<Ending>)>;

  /// Starts an lcore on `cpu` and sets it up as run() does the others; they go on meanwhile, and
  /// after a set-up that fails. One after the other; before run(), when it runs. `done` is told on
  /// run()'s thread, when that ends at the latest, or by the destructor; it may call what any
  /// thread may.
  PINION_EXPORT void add_lcore(unsigned cpu, Added done = {});

  /// Drains one lcore alone. `done` is told when what it kept is gone, or that its loop has ended
  /// by itself at that moment. The last one's drain ends run().
  PINION_EXPORT void drain_lcore(unsigned index, Drained done = {});

  /// The lcores that run() begins with.
  [[nodiscard]] std::size_t lcore_count() const noexcept { return options_.cpus.size(); }

 private:
  struct Request {
    unsigned number = 0;  // A CPU to add an lcore on, or the index of the one to drain.
    Added added = {};
    Drained drained = {};
    bool adds = false;
  };
  struct Thread;
  struct Start;
  class SignalMask;
  class Supervisor;

  Runtime(RuntimeOptions options, int wake_fd) noexcept;

  static void run_thread(Thread& thread);
  static Result<> make_loop(Thread& thread, std::unique_ptr<TimeSource>& time,
                            std::unique_ptr<Loop>& loop);
  static bool first_set_up(Thread& thread, Loop* loop, const Result<>& made);
  static void live(Thread& thread, Loop& loop, bool serves);
  static bool serve(Thread& thread, Loop& loop);
  static bool serve_again(Thread& thread, Loop& loop);
  static void retire(Thread& thread, Loop& loop);
  static void await_answers(Loop& loop);
  static void end(Thread& thread, Loop* loop);
  void request(Request request);
  static void refuse(Request& request);
  std::vector<Request> take_requests();
  void wake() noexcept;

  RuntimeOptions options_;
  int wake_fd_;
  std::mutex requests_mutex_;
  std::vector<Request> requests_;
  std::atomic<bool> drain_requested_{false};
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> report_requested_{false};
};

}  // namespace pinion

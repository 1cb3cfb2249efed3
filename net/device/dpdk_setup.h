#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <mutex>

#include <sched.h>

#include "dpdk_log.h"

/// What surrounds the calls that set something of DPDK up or take it down: what they would do to
/// the thread and the process is undone, or doesn't happen.

namespace pinion::detail {

/// The calling thread's CPUs and signal mask, put back in the end. Meanwhile every signal is
/// blocked, so that threads that DPDK starts take none of the program's.
class ThreadAsItWas {
 public:
  ThreadAsItWas() noexcept;
  ~ThreadAsItWas();
  ThreadAsItWas(const ThreadAsItWas&) = delete;
  ThreadAsItWas& operator=(const ThreadAsItWas&) = delete;

 private:
  cpu_set_t cpus_{};
  bool has_cpus_ = false;
  sigset_t mask_{};
};

/// While it lives, every real-time signal looks as if the program used it.
///
/// net_tap has the kernel signal the process for each packet that comes: a system call that is
/// interrupted, and a signal queue that overflows into a deadly SIGIO. It looks for a signal that
/// nobody handles, and polls its descriptor plainly when it finds none. Taking O_ASYNC off the
/// descriptor afterwards would be too late: a packet that has come by then, signalled to a thread
/// that blocks nothing, leaves the port waiting for the next signal for ever.
///
/// The handler does nothing, and is not SIG_IGN, which would drop signals that wait and go on in
/// programs that are started meanwhile. What another thread sets meanwhile stays.
class RealTimeSignalsInUse {
 public:
  RealTimeSignalsInUse() noexcept;
  ~RealTimeSignalsInUse();
  RealTimeSignalsInUse(const RealTimeSignalsInUse&) = delete;
  RealTimeSignalsInUse& operator=(const RealTimeSignalsInUse&) = delete;

 private:
  std::array<bool, NSIG> taken_{};  ///< By this one, not by one that lives around it.
};

/// All of it, by one thread at a time, with what DPDK has to say of it.
class DpdkSetUp {
 public:
  DpdkSetUp() : alone_(mutex()) {}

  [[nodiscard]] const DpdkWords& words() const noexcept { return words_; }

 private:
  /// Taken again where a failed set-up takes down what it made.
  static std::recursive_mutex& mutex() noexcept;

  std::scoped_lock<std::recursive_mutex> alone_;
  ThreadAsItWas thread_;
  RealTimeSignalsInUse signals_;
  DpdkWords words_;
};

}  // namespace pinion::detail

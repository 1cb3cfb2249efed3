#include "dpdk_setup.h"

#include <pthread.h>

namespace pinion::detail {
namespace {

void do_nothing(int) {}

}  // namespace

ThreadAsItWas::ThreadAsItWas() noexcept
    : has_cpus_(pthread_getaffinity_np(pthread_self(), sizeof(cpus_), &cpus_) == 0) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &mask_);
}

ThreadAsItWas::~ThreadAsItWas() {
  if (has_cpus_) pthread_setaffinity_np(pthread_self(), sizeof(cpus_), &cpus_);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

RealTimeSignalsInUse::RealTimeSignalsInUse() noexcept {
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = &do_nothing;
    action.sa_flags = SA_RESTART;
    taken_[static_cast<std::size_t>(signal)] = sigaction(signal, &action, nullptr) == 0;
  }
}

RealTimeSignalsInUse::~RealTimeSignalsInUse() {
  for (std::size_t signal = 0; signal < taken_.size(); ++signal) {
    if (!taken_[signal]) continue;
    struct sigaction action{};
    const int number = static_cast<int>(signal);
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != &do_nothing) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
}

std::recursive_mutex& DpdkSetUp::mutex() noexcept {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace pinion::detail

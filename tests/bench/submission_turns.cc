#include "submission_turns.h"

#include <liburing.h>
#include <pinion/eventloop/loop.h>
#include <time.h>

#include <thread>

#include "support/machine.h"

namespace pinion::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWarmUp = 20'000;
constexpr int kOperations = 200'000;

struct Nop : Completion {
  Nop() : Completion(&on_done) {}
  static void on_done(Completion& self, std::int32_t, std::uint32_t) noexcept {
    ++static_cast<Nop&>(self).done;
  }
  int done = 0;
};

Task<> queue(Ring& ring, Nop& nop, int count) {
  for (int i = 0; i < count; ++i) {
    io_uring_prep_nop(&ring.get_sqe(nop));
    co_await yield();
  }
}

double thread_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

TurnFigures run(const std::string& mode) {
  MonotonicTime time;
  const auto loop = Loop::create(
      {.idle = IdlePolicy::park, .submission = {.mode = parse_submission_mode(mode)}}, time);
  if (!loop) return {.error = to_string(loop.error())};
  Nop nop;
  const auto run_all = [&](int count) {
    nop.done = 0;
    (*loop)->spawn(queue((*loop)->ring(), nop, count));
    return (*loop)->run_until([&]() noexcept { return nop.done == count; }, 60s);
  };
  if (!run_all(kWarmUp)) return {.error = "the operations didn't end"};
  const double before = thread_cpu_ns();
  if (!run_all(kOperations)) return {.error = "the operations didn't end"};
  return {.error = {}, .cpu_ns = (thread_cpu_ns() - before) / kOperations};
}

}  // namespace

TurnFigures run_short_turns_in(const std::string& mode, int cpu) {
  TurnFigures figures;
  std::thread([&] {
    pin_to_cpu(cpu);
    figures = run(mode);
  }).join();
  return figures;
}

}  // namespace pinion::bench

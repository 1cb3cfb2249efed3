#include "peers/rte_timers.h"

#include <dlfcn.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_timer.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "peers/manual_tsc.h"

namespace pinion::bench {
namespace {

volatile std::uint64_t* rte_clock = nullptr;
unsigned rte_lcore = 0;

std::string start_eal(int cpu) {
  std::array<std::string, 11> words = {"bench",
                                       "-l",
                                       std::to_string(cpu),
                                       "--no-huge",
                                       "--no-shconf",
                                       "--no-pci",
                                       "--no-telemetry",
                                       "-m",
                                       "64",
                                       "--log-level=*:error",
                                       "--no-hpet"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) {
    return std::string("EAL does not start: ") + rte_strerror(rte_errno);
  }
  rte_lcore = rte_lcore_id();
  return {};
}

constexpr unsigned kCycleBits = 20;

constexpr std::uint64_t cycles(Tick tick) {
  return tick << kCycleBits;
}

/// How long before the end of its tick the n-th deadline lies: all over the tick, whatever n.
constexpr std::uint64_t spread(std::uint64_t n) {
  return (n * 0x9e3779b97f4a7c15u) >> (64 - kCycleBits);
}

void on_fire(rte_timer*, void* index) {
  fired_sink.fired(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(index)));
}

}  // namespace

struct alignas(kObjectAlignment) RteTimers::Entry {
  rte_timer timer;
};

std::string RteTimers::prepare(int cpu) {
  static std::string outcome = [cpu] {
    std::string error = start_eal(cpu);
    if (!error.empty()) return error;
    const std::array<void*, 3> functions = {dlsym(RTLD_DEFAULT, "rte_timer_alt_reset"),
                                            dlsym(RTLD_DEFAULT, "rte_timer_manage"),
                                            dlsym(RTLD_DEFAULT, "rte_timer_next_ticks")};
    for (void* function : functions) {
      if (function == nullptr) return std::string("librte_timer lacks a function");
    }
    const ManualTsc manual = replace_tsc(functions);
    rte_clock = manual.clock;
    return manual.error;
  }();
  return outcome;
}

RteTimers::RteTimers(std::size_t capacity, Tick start)
    : entries_(std::make_unique<Entry[]>(capacity)) {
  if (rte_clock == nullptr || rte_timer_subsystem_init() != 0) {
    std::fputs("error: rte_timer does not start\nfix: --subject without rte_timer\n", stderr);
    std::exit(1);
  }
  *rte_clock = cycles(start);
  for (std::size_t i = 0; i < capacity; ++i) rte_timer_init(&entries_[i].timer);
}

/// The list's heads are forgotten whole; the timers' memory goes away with this object.
RteTimers::~RteTimers() {
  rte_timer_subsystem_finalize();
}

void RteTimers::arm(std::uint32_t index, Tick deadline) {
  const std::uint64_t due = cycles(deadline) - spread(armed_++);
  rte_timer_reset(&entries_[index].timer, due - *rte_clock, SINGLE, rte_lcore, &on_fire,
                  reinterpret_cast<void*>(static_cast<std::uintptr_t>(index)));
}

void RteTimers::extend(std::uint32_t index, Tick deadline) {
  arm(index, deadline);
}

void RteTimers::cancel(std::uint32_t index) {
  rte_timer_stop(&entries_[index].timer);
}

void RteTimers::touch(std::uint32_t index) {
  touch_object(entries_[index]);
}

void RteTimers::advance(Tick target) {
  *rte_clock = cycles(target);
  rte_timer_manage();
}

Tick RteTimers::next_expiry() const {
  const std::int64_t left = rte_timer_next_ticks();
  if (left < 0) return kNeverTick;
  return (*rte_clock + static_cast<std::uint64_t>(left) + cycles(1) - 1) >> kCycleBits;
}

}  // namespace pinion::bench

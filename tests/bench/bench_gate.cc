#include <fmt/core.h>
#include <pinion/eventloop/wait.h>
#include <pinion/lib/random.h>
#include <pinion/timers/timing_wheel.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "stack_gate.h"

/// What the gate counts instructions in: each hot operation of the wheel, and maybe_yield(), in a
/// loop of its own; and turns of the TCP/IP stack.
///
/// gate.py runs this under callgrind and reads the inclusive cost of the functions that are named
/// gate_*. For each operation there are two, one with the operation and one with the same loop
/// around nothing: their difference over the number of operations is the figure. Everything is
/// seeded and no clock is read, so that the counts are the same in every run.

namespace {

using pinion::Instant;
using pinion::TimingWheel;

constexpr std::size_t kLive = 100'000;
constexpr std::size_t kBatch = 25'000;
constexpr auto kTick = std::chrono::milliseconds(1);
constexpr Instant kStart{std::chrono::hours(1'000)};

/// T of the extend case, and how often one of the timers is extended: each timer ten times per T,
/// as one extend per microsecond does with 1,000,000 timers and 10 s.
constexpr std::size_t kPeriodTicks = 10'000;
constexpr std::size_t kExtendsPerTick = kLive * 10 / kPeriodTicks;

std::vector<std::uint32_t> expired;

struct alignas(64) Entry : pinion::TimerEntry {
  Entry() : TimerEntry(&on_fire) {}
  static void on_fire(pinion::TimerEntry& entry) {
    expired.push_back(static_cast<Entry&>(entry).index);
  }
  std::uint32_t index = 0;
};

/// Makes the compiler work out a value where it stands, in the loops around nothing.
template <class T>
void use(const T& value) {
  asm volatile("" : : "r"(value) : "memory");
}

struct Batch {
  Entry* entries;
  const std::uint32_t* order;
  const Instant* deadlines;
  std::size_t count;
};

}  // namespace

extern "C" {

[[gnu::noinline]] void gate_insert(TimingWheel& wheel, const Batch& batch) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    wheel.arm(batch.entries[batch.order[i]], batch.deadlines[i]);
  }
}

[[gnu::noinline]] void gate_insert_loop(TimingWheel& wheel, const Batch& batch) {
  use(&wheel);
  for (std::size_t i = 0; i < batch.count; ++i) {
    use(&batch.entries[batch.order[i]]);
    use(batch.deadlines[i].time_since_epoch().count());
  }
}

[[gnu::noinline]] void gate_cancel(TimingWheel& wheel, const Batch& batch) {
  for (std::size_t i = 0; i < batch.count; ++i) wheel.cancel(batch.entries[batch.order[i]]);
}

[[gnu::noinline]] void gate_cancel_loop(TimingWheel& wheel, const Batch& batch) {
  use(&wheel);
  for (std::size_t i = 0; i < batch.count; ++i) use(&batch.entries[batch.order[i]]);
}

/// Everything included: the advances, the placing again of what comes up early, the few that fire
/// and are armed again.
[[gnu::noinline]] void gate_extend(TimingWheel& wheel, const Batch& batch, Instant begin) {
  Instant now = begin;
  for (std::size_t i = 0; i < batch.count;) {
    const Instant deadline = now + kPeriodTicks * kTick;
    for (const std::size_t end = i + kExtendsPerTick; i < end; ++i) {
      wheel.extend(batch.entries[batch.order[i]], deadline);
    }
    now += kTick;
    wheel.advance(now);
    for (const std::uint32_t index : expired) {
      wheel.arm(batch.entries[index], now + kPeriodTicks * kTick);
    }
    expired.clear();
  }
}

[[gnu::noinline]] void gate_extend_loop(TimingWheel& wheel, const Batch& batch, Instant begin) {
  use(&wheel);
  Instant now = begin;
  for (std::size_t i = 0; i < batch.count;) {
    const Instant deadline = now + kPeriodTicks * kTick;
    for (const std::size_t end = i + kExtendsPerTick; i < end; ++i) {
      use(&batch.entries[batch.order[i]]);
      use(deadline.time_since_epoch().count());
    }
    now += kTick;
    use(now.time_since_epoch().count());
  }
}

/// Polls of a busy loop: the clock moves on by less than a tick, and nothing is due.
[[gnu::noinline]] void gate_empty_advance(TimingWheel& wheel, Instant now, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) wheel.advance(now + std::chrono::nanoseconds(i));
}

[[gnu::noinline]] void gate_empty_advance_loop(TimingWheel& wheel, Instant now, std::size_t count) {
  use(&wheel);
  for (std::size_t i = 0; i < count; ++i) {
    use((now + std::chrono::nanoseconds(i)).time_since_epoch().count());
  }
}

/// When is the next due? Nothing has changed since the question before.
[[gnu::noinline]] void gate_next_expiry(TimingWheel& wheel, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) use(wheel.next_expiry());
}

[[gnu::noinline]] void gate_next_expiry_loop(TimingWheel& wheel, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) use(&wheel);
}

/// From the first to the last of a population, tick by tick: cascades and callbacks included.
[[gnu::noinline]] void gate_expire(TimingWheel& wheel, Instant begin, std::size_t ticks) {
  for (std::size_t i = 1; i <= ticks; ++i) wheel.advance(begin + i * kTick);
}

[[gnu::noinline]] void gate_expire_loop(TimingWheel& wheel, Instant begin, std::size_t ticks) {
  use(&wheel);
  for (std::size_t i = 1; i <= ticks; ++i) use((begin + i * kTick).time_since_epoch().count());
}

/// Nothing is due: a task that computes goes on.
[[gnu::noinline]] void gate_maybe_yield(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) use(pinion::maybe_yield().await_ready());
}

[[gnu::noinline]] void gate_maybe_yield_loop(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) use(true);
}

}  // extern "C"

namespace {

class Gate {
 public:
  Gate() : entries_(std::make_unique<Entry[]>(kLive + kBatch)), order_(kLive + kBatch) {
    std::iota(order_.begin(), order_.end(), 0u);
    for (std::uint32_t i = 0; i < order_.size(); ++i) entries_[i].index = i;
    random_.shuffle(order_);
  }

  void run_insert_and_cancel() {
    TimingWheel wheel(kStart);
    for (std::size_t i = 0; i < kLive; ++i) wheel.arm(entries_[order_[i]], draw_deadline());
    std::vector<Instant> deadlines(kBatch);
    for (Instant& deadline : deadlines) deadline = draw_deadline();
    const Batch spare = {entries_.get(), order_.data() + kLive, deadlines.data(), kBatch};
    gate_insert_loop(wheel, spare);
    gate_insert(wheel, spare);
    random_.shuffle(order_);
    gate_cancel_loop(wheel, spare);
    gate_cancel(wheel, spare);
    fmt::print("insert {}\ncancel {}\n", kBatch, kBatch);
    run_polls(wheel);
    run_expire(wheel);
  }

  /// One period to come to the steady state, which is not counted, and one that is.
  void run_extend() {
    TimingWheel wheel(kStart);
    for (std::uint32_t i = 0; i < kLive; ++i) {
      wheel.arm(entries_[i], kStart + random_.between<std::size_t>(1, kPeriodTicks) * kTick);
    }
    std::vector<std::uint32_t> draws(kPeriodTicks * kExtendsPerTick);
    for (std::uint32_t& draw : draws) draw = static_cast<std::uint32_t>(random_.below(kLive));
    const Batch batch = {entries_.get(), draws.data(), nullptr, draws.size()};
    expired.reserve(kLive);
    warm_up(wheel, draws);
    gate_extend_loop(wheel, batch, kStart + kPeriodTicks * kTick);
    gate_extend(wheel, batch, kStart + kPeriodTicks * kTick);
    fmt::print("extend {}\n", draws.size());
  }

 private:
  Instant draw_deadline() { return kStart + random_.between(1, 60'000) * kTick; }

  void warm_up(TimingWheel& wheel, const std::vector<std::uint32_t>& draws) {
    Instant now = kStart;
    for (std::size_t i = 0; i < draws.size(); ++i) {
      wheel.extend(entries_[draws[draws.size() - 1 - i]], now + kPeriodTicks * kTick);
      if ((i + 1) % kExtendsPerTick != 0) continue;
      now += kTick;
      wheel.advance(now);
      for (const std::uint32_t index : std::exchange(expired, {})) {
        wheel.arm(entries_[index], now + kPeriodTicks * kTick);
      }
    }
  }

  void run_polls(TimingWheel& wheel) {
    constexpr std::size_t kPolls = 100'000;
    const Instant now = kStart + kTick;
    expired.reserve(kLive);
    wheel.advance(now);
    gate_next_expiry_loop(wheel, kPolls);
    gate_next_expiry(wheel, kPolls);
    fmt::print("next_expiry {}\n", kPolls);
    gate_empty_advance_loop(wheel, now, kPolls);
    gate_empty_advance(wheel, now, kPolls);
    fmt::print("empty_advance {}\n", kPolls);
  }

  /// Each fired timer pays its share of the 60,000 advances that the population takes.
  void run_expire(TimingWheel& wheel) {
    constexpr std::size_t kTicks = 60'000;
    const Instant begin = kStart + kTick;
    expired.clear();
    gate_expire_loop(wheel, begin, kTicks);
    gate_expire(wheel, begin, kTicks);
    fmt::print("expire {}\n", expired.size());
    expired.clear();
  }

  pinion::Random random_{1};
  std::unique_ptr<Entry[]> entries_;
  std::vector<std::uint32_t> order_;
};

void run_maybe_yield() {
  constexpr std::size_t kCalls = 100'000;
  pinion::detail::go_on_until = std::numeric_limits<std::uint64_t>::max();
  gate_maybe_yield_loop(kCalls);
  gate_maybe_yield(kCalls);
  fmt::print("maybe_yield {}\n", kCalls);
}

}  // namespace

int main() {
  Gate gate;
  gate.run_insert_and_cancel();
  Gate().run_extend();
  run_maybe_yield();
  return pinion::bench::run_stack_gate() ? 0 : 1;
}

#pragma once

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <pinion/lib/random.h>

#include "peers/subject.h"
#include "support/cycle_clock.h"
#include "support/summary.h"
#include "timer_workload.h"

/// How each figure of the timer bench is taken. Every function builds its population, lets the
/// subject do the work between two clock reads, and throws the population away.

namespace pinion::bench {

/// A peer that is slow is measured on as many operations as fit into this.
inline constexpr double kCapNs = 300e6;

/// About how long a chunk of operations takes: much less than a scheduler's time slice.
inline constexpr double kChunkNs = 200e3;

/// From this many timers on insert and cancel meet entries that no cache holds, as those of a large
/// program are; below, those that the batch before left in it.
inline constexpr std::size_t kColdFrom = 1'000'000;

/// Twice what the last-level cache holds, 96 MiB at least: virtual machines may not tell.
inline std::size_t more_than_caches_hold() {
  const long last_level = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::max(2 * static_cast<std::size_t>(last_level), std::size_t{96} << 20);
}

inline void evict_caches() {
  static const std::vector<std::uint64_t> memory(more_than_caches_hold() / sizeof(std::uint64_t),
                                                 1);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < memory.size(); i += 8) sum += memory[i];
  asm volatile("" : : "r"(sum));
}

template <Subject S>
std::unique_ptr<S> build(const Workload& work) {
  auto subject = std::make_unique<S>(work.live + work.spare, work.start);
  for (std::size_t i = 0; i < work.live; ++i) {
    subject->arm(work.order[i], work.start + work.delays[i]);
  }
  return subject;
}

struct DrainFigures {
  double expire_ns = 0;               ///< per timer that fired
  std::vector<std::uint32_t> cycles;  ///< of each advance; empty unless asked for
};

/// 60 s of virtual time in advances of one tick: everything that a timer costs from its arming to
/// its firing, cascades included. With `stamps`, the clock is read once per advance, at the end of
/// one and the begin of the next, and that read's cost is subtracted.
template <Subject S>
DrainFigures drain(const Workload& work, const CycleClock& clock, bool stamps) {
  const std::unique_ptr<S> subject = build<S>(work);
  DrainFigures figures;
  figures.cycles.resize(stamps ? kDrainTicks : 0);
  fired_sink = {};
  const Stretch stretch(clock);
  if (stamps) {
    std::uint64_t last = read_cycles();
    for (Tick tick = 1; tick <= kDrainTicks; ++tick) {
      subject->advance(work.start + tick);
      const std::uint64_t now = read_cycles();
      figures.cycles[tick - 1] =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(now - last, ~std::uint32_t{0}));
      last = now;
    }
  } else {
    for (Tick tick = 1; tick <= kDrainTicks; ++tick) subject->advance(work.start + tick);
  }
  double total = stretch.ns();
  if (stamps) total -= static_cast<double>(kDrainTicks) * clock.read_cost_ns();
  figures.expire_ns = total / static_cast<double>(std::max<std::uint64_t>(fired_sink.count, 1));
  return figures;
}

struct SteadyFigures {
  double insert_ns = 0;
  double cancel_ns = 0;
  double next_expiry_ns = 0;
  double empty_advance_ns = 0;
};

/// At a steady number of live timers: what it costs to add some, to take random ones out, to ask
/// when the next is due, and to advance to the tick where the wheel already is.
template <Subject S>
class SteadyRun {
 public:
  SteadyRun(const Workload& work, const CycleClock& clock, std::uint64_t seed)
      : work_(work), clock_(clock), random_(seed), slots_(work.order), subject_(build<S>(work)) {}

  SteadyFigures run() {
    SteadyFigures figures;
    measure_insert_and_cancel(figures);
    measure_next_expiry(figures);
    measure_empty_advance(figures);
    return figures;
  }

 private:
  /// Nanoseconds per operation of each chunk: a chunk that was interrupted doesn't spoil the
  /// others, and their median is the figure.
  struct Chunks {
    std::vector<double> insert_ns;
    std::vector<double> cancel_ns;
  };
  void measure_insert_and_cancel(SteadyFigures& figures) {
    Chunks first;
    run_batch(std::min<std::size_t>(work_.spare, 1'024), first);
    const double slower = std::max({first.insert_ns[0], first.cancel_ns[0], 0.1});
    chunk_ = static_cast<std::size_t>(std::clamp(kChunkNs / slower, 16.0, 4'096.0));
    const auto fits = static_cast<std::size_t>(kCapNs / slower);
    const std::size_t batch = std::clamp<std::size_t>(fits, 1, work_.spare);
    const std::size_t repeats = std::clamp<std::size_t>(200'000 / batch, 1, fits / batch + 1);
    run_batch(std::min<std::size_t>(batch, 100'000), first);  // the peers' allocators warm up
    Chunks chunks;
    for (std::size_t i = 0; i < repeats; ++i) run_batch(batch, chunks);
    figures.insert_ns = summarise(std::move(chunks.insert_ns)).median;
    figures.cancel_ns = summarise(std::move(chunks.cancel_ns)).median;
  }

  /// Arms `count` entries that lie anywhere in memory, then cancels as many others.
  void run_batch(std::size_t count, Chunks& chunks) {
    const std::uint32_t* spare = slots_.data() + work_.live;
    const std::uint32_t* delays = work_.delays.data() + random_.below(work_.live);
    if (work_.live >= kColdFrom) evict_caches();
    run_chunks(count, chunks.insert_ns,
               [&](std::size_t i) { subject_->arm(spare[i], now_ + delays[i]); });
    choose_live(count);
    if (work_.live >= kColdFrom) evict_caches();
    run_chunks(count, chunks.cancel_ns, [&](std::size_t i) { subject_->cancel(spare[i]); });
  }

  template <class Operation>
  void run_chunks(std::size_t count, std::vector<double>& figures, Operation operation) {
    for (std::size_t done = 0; done < count;) {
      const std::size_t chunk = std::min(chunk_, count - done);
      const std::uint64_t begin = read_cycles_fenced();
      for (const std::size_t end = done + chunk; done < end; ++done) operation(done);
      const double ns = clock_.elapsed_ns(begin, read_cycles_fenced());
      figures.push_back(ns / static_cast<double>(chunk));
    }
  }

  /// Swaps `count` random armed entries into the spare places.
  void choose_live(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(slots_[work_.live + i], slots_[random_.below(work_.live + i + 1)]);
    }
  }

  /// The mean over calls, each between two fenced reads and after an advance by one tick, so that
  /// nothing is left from the call before; the slowest tenth, which was interrupted or missed the
  /// cache, is left out. What fired is armed again.
  void measure_next_expiry(SteadyFigures& figures) {
    constexpr std::size_t kCalls = 2'000;
    std::vector<std::uint32_t> fired;
    std::vector<std::uint64_t> calls;
    calls.reserve(kCalls);
    fired_sink = {.count = 0, .log = &fired};
    Tick sum = 0;
    for (std::size_t i = 0; i < kCalls; ++i) {
      subject_->advance(++now_);
      for (const std::uint32_t index : fired) {
        subject_->arm(index, now_ + work_.delays[random_.below(work_.live)]);
      }
      fired.clear();
      const std::uint64_t begin = read_cycles_fenced();
      sum += subject_->next_expiry();
      keep_memory();
      calls.push_back(read_cycles_fenced() - begin);
    }
    asm volatile("" : : "r"(sum));
    figures.next_expiry_ns = clock_.trimmed_mean_ns(calls);
    fired_sink = {};
  }

  /// What a busy loop does most of the time: poll in a tick whose timers have fired.
  void measure_empty_advance(SteadyFigures& figures) {
    constexpr std::size_t kCalls = 100'000;
    const std::uint64_t begin = read_cycles_fenced();
    for (std::size_t i = 0; i < kCalls; ++i) {
      subject_->advance(now_);
      keep_memory();
    }
    figures.empty_advance_ns = clock_.elapsed_ns(begin, read_cycles_fenced()) / kCalls;
  }

  const Workload& work_;
  const CycleClock& clock_;
  Random random_;
  std::vector<std::uint32_t> slots_;  ///< entries: the armed ones, then the spare ones
  std::unique_ptr<S> subject_;
  std::size_t chunk_ = 1'024;
  Tick now_ = work_.start;
};

/// Nanoseconds per extend, everything included: the advances, the re-placing of what fires early,
/// and the firing and arming again of the few that no draw reached in time. A subject whose extend
/// leaves work for later runs one whole period first and is measured over one whole period; one
/// that re-links at once is in its steady state from the start, and may stop at the cap.
template <Subject S>
class ExtendRun {
 public:
  ExtendRun(const ExtendWorkload& work, const CycleClock& clock)
      : work_(work), clock_(clock), subject_(std::make_unique<S>(work.live, kStart)) {
    for (std::size_t i = 0; i < work.live; ++i) {
      subject_->arm(work.order[i], kStart + work.delays[i]);
    }
  }

  double run() {
    fired_sink = {.count = 0, .log = &fired_};
    run_ticks(S::kLazyExtend ? work_.period : work_.period / 1'000);
    double total = 0;
    Tick ticks = 0;
    const Tick slice = work_.period / 1'000;
    while (ticks < work_.period && (S::kLazyExtend || total < 2 * kCapNs)) {
      const Stretch stretch(clock_);
      run_ticks(slice);
      total += stretch.ns();
      ticks += slice;
    }
    fired_sink = {};
    return total / static_cast<double>(ticks * ExtendWorkload::kPerTick);
  }

 private:
  void run_ticks(Tick ticks) {
    const std::size_t mask = work_.draws.size() - 1;
    for (Tick end = now_ + ticks; now_ < end;) {
      const Tick deadline = now_ + work_.period;
      for (std::size_t i = 0; i < ExtendWorkload::kPerTick; ++i) {
        subject_->extend(work_.draws[next_draw_++ & mask], deadline);
      }
      subject_->advance(++now_);
      for (const std::uint32_t index : fired_) subject_->arm(index, now_ + work_.period);
      fired_.clear();
    }
  }

  const ExtendWorkload& work_;
  const CycleClock& clock_;
  std::unique_ptr<S> subject_;
  std::vector<std::uint32_t> fired_;
  std::size_t next_draw_ = 0;
  Tick now_ = kStart;
};

}  // namespace pinion::bench

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/timer_table.h>

#include "probe.h"
#include "start_ticks.h"

/// A TimerTable beside the slow, obvious one: a map from id to deadline and value. Each step does
/// one random thing to both and compares them, the invariants of the wheel and the slots included.

namespace pinion::test {
namespace {

/// What all models of a run share: ids that other tables gave, dead and living ones. Those of the
/// tables that died last: after 16,383 tables a number comes again.
struct Foreign {
  std::vector<TimerId> ids;

  void add(TimerId id) {
    if (ids.size() == 1'000) ids.erase(ids.begin(), ids.begin() + 500);
    ids.push_back(id);
  }
};

template <std::int64_t kTickNs, TimerIdSpace kIdSpace>
class TableModel {
  using Table = BasicTimerTable<kTickNs, kIdSpace>;
  using Wheel = BasicTimingWheel<kTickNs>;

 public:
  TableModel(Tick start, std::size_t limit, Random& choices, Foreign& foreign)
      : choices_(choices),
        foreign_(foreign),
        now_(std::min(start, kLast)),
        limit_(limit),
        table_(std::make_unique<Table>(Wheel::instant_of(now_), limit)) {}

  ~TableModel() {
    if (!live_.empty()) foreign_.add(any_live());
  }
  TableModel(const TableModel&) = delete;
  TableModel& operator=(const TableModel&) = delete;

  /// Does one random thing and compares. False once something differed.
  bool step() {
    switch (below(32)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
        poll();
        break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
        cancel_live();
        break;
      case 12:
      case 13:
      case 14:
        reschedule();
        break;
      case 15:
      case 16:
      case 17:
        misuse();
        break;
      case 18:
        rarely();
        break;
      default:
        schedule();
    }
    compare();
    return failure_.empty();
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::uint64_t fired() const { return fired_; }
  [[nodiscard]] std::size_t retired() const { return table_->memory_stats().slab.retired; }
  [[nodiscard]] TimerId any_live() {
    return live_.empty() ? TimerId() : TimerId(any_of(live_)->first);
  }

 private:
  /// One tick before the last, so that a deadline that has passed can be the next tick's.
  static constexpr Tick kLast =
      static_cast<Tick>(std::numeric_limits<std::int64_t>::max()) / kTickNs - 1;
  static constexpr std::size_t kStale = 2'000;

  struct Timer {
    Tick due = 0;
    std::uint64_t value = 0;
  };
  using Live = std::map<std::uint64_t, Timer>;

  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  std::uint64_t below(std::uint64_t bound) { return choices_.below(bound); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }

  Live::iterator any_of(Live& live) {
    const auto at = live.lower_bound(choices_.next());
    if (at != live.end() && chance(2)) return at;
    return std::next(live.begin(), static_cast<std::ptrdiff_t>(below(live.size())));
  }

  Tick earliest() const {
    Tick first = kNeverTick;
    for (const auto& [bits, timer] : live_) first = std::min(first, timer.due);
    return first;
  }
  Tick plus(Tick tick, Tick more) const { return std::min(saturated(tick, more), kLast); }

  Tick any_deadline() {
    switch (below(10)) {
      case 0:
        return now_ - std::min<Tick>(now_, below(100));
      case 1:
        return plus(now_, below(3));
      case 2:
        return kNeverTick;
      case 3:
        return plus(now_, (Tick{1} << 30) - 2 + below(4));
      case 4:
        return plus(now_, any_magnitude(choices_, 44));
      case 5:
        return plus(now_, 4000 + below(5000));
      case 6:
        return plus(now_ / 4096 * 4096, 4095 + below(3));
      default:
        return plus(now_, below(200));
    }
  }

  Tick any_target() {
    static constexpr std::array<Tick, 7> kSteps{0, 1, 63, 64, 65, 4095, 4096};
    const Tick first = earliest();
    switch (below(8)) {
      case 0:
        return now_;
      case 1:
        return first == kNeverTick ? plus(now_, 64) : std::min(first, kLast);
      case 2:
        return chance(10) ? plus(now_, any_magnitude(choices_, 44)) : plus(now_, 1);
      case 3:
        return plus(now_, kSteps[below(kSteps.size())]);
      default:
        return plus(now_, below(8));
    }
  }

  /// Any nanosecond of the tick that ends at `deadline`.
  Instant within_tick_before(Tick deadline) {
    if (deadline == kNeverTick) return kNever;
    const Instant end = Wheel::instant_of(deadline);
    return std::max(end - std::chrono::nanoseconds{below(kTickNs)}, Instant{});
  }
  Tick effective(Tick deadline) const { return std::max(deadline, now_ + 1); }

  void schedule() {
    const Tick deadline = any_deadline();
    const std::uint64_t value = choices_.next();
    const Instant instant = within_tick_before(deadline);
    TimerResult<TimerId> id = tl::unexpected(TimerError::capacity);
    if (chance(2)) {
      id = table_->schedule(instant, value);
    } else {
      const auto scheduled = table_->schedule_best_fit(instant, value);
      if (scheduled) {
        id = scheduled->id;
        const Tick due = effective(deadline);
        const Instant told = due == kNeverTick ? kNever : Wheel::instant_of(due);
        require(scheduled->deadline == told, "schedule_best_fit: not the tick that is due");
      } else {
        id = tl::unexpected(scheduled.error());
      }
    }
    if (live_.size() == limit_) {
      return require(!id && id.error() == TimerError::capacity, "schedule: beyond the limit");
    }
    if (!id) return require(false, "schedule: no timer within the limit");
    require(ever_.insert(id->bits()).second, "schedule: an id that was given before");
    live_.emplace(id->bits(), Timer{effective(deadline), value});
  }

  void take_out(Live::iterator at) {
    if (stale_.size() < kStale) {
      stale_.emplace_back(at->first);
    } else {
      stale_[below(kStale)] = TimerId(at->first);
    }
    live_.erase(at);
  }

  void cancel_live() {
    if (live_.empty()) return;
    const auto at = any_of(live_);
    const auto value = table_->cancel(TimerId(at->first));
    require(value.has_value(), "cancel: a live timer was not found");
    require(value && *value == at->second.value, "cancel: another timer's value");
    take_out(at);
  }

  void reschedule() {
    if (live_.empty()) return;
    const auto at = any_of(live_);
    const Tick deadline = any_deadline();
    const auto done = table_->reschedule(TimerId(at->first), within_tick_before(deadline));
    require(done.has_value(), "reschedule: a live timer was not found");
    at->second.due = effective(deadline);
  }

  /// Ids that mean nothing here (any more).
  void misuse() {
    TimerError expected = TimerError::invalid_id;
    TimerId id;
    switch (below(4)) {
      case 0:
        if (foreign_.ids.empty()) return;
        id = foreign_.ids[below(foreign_.ids.size())];
        break;
      case 1:
        if (live_.empty()) return;
        // Another table, generation or slot: all but one bit are right.
        id = TimerId(any_of(live_)->first ^ (std::uint64_t{1} << below(64)));
        if (live_.contains(id.bits())) return;
        if (ever_.contains(id.bits())) expected = TimerError::not_found;
        break;
      default:
        if (stale_.empty()) return;
        id = stale_[below(stale_.size())];
        expected = TimerError::not_found;
    }
    if (chance(2)) {
      const auto value = table_->cancel(id);
      require(!value && value.error() == expected, "cancel: not the error that it should be");
    } else {
      const auto done = table_->reschedule(id, within_tick_before(any_deadline()));
      require(!done && done.error() == expected, "reschedule: not the error that it should be");
    }
  }

  void rarely() {
    switch (below(8)) {
      case 0:
        require(table_->clear() == live_.size(), "clear: another number");
        while (!live_.empty()) take_out(live_.begin());
        return;
      case 1:
        return require(table_->reserve(below(limit_ + 1)), "reserve: no memory");
      case 2:
        while (!live_.empty() && !chance(200) && failure_.empty()) cancel_live();
        table_->compact();
        return;
      default:
        table_->compact();
    }
  }

  void poll() {
    const Tick target = std::max(any_target(), now_);
    const bool back = target == now_ && chance(8);
    const Tick asked = back ? now_ - std::min<Tick>(now_, below(100)) : target;
    std::vector<ExpiredTimer> out(chance(3) ? below(5) : live_.size());
    const std::size_t limit = chance(3) ? below(5) : live_.size() + 1;
    const Instant part{std::chrono::nanoseconds{below(kTickNs)}};
    const std::size_t count =
        table_->poll(Wheel::instant_of(asked) + part.time_since_epoch(), limit, out);

    const auto due = static_cast<std::size_t>(std::ranges::count_if(
        live_, [&](const auto& timer) { return timer.second.due <= target; }));
    require(count == std::min({due, limit, out.size()}), "poll: another number of timers");
    for (std::size_t i = 0; i < count && failure_.empty(); ++i) {
      const auto at = live_.find(out[i].id.bits());
      if (at == live_.end()) return require(false, "poll: a timer that is not live");
      require(at->second.value == out[i].value, "poll: another timer's value");
      require(at->second.due == earliest(), "poll: out of order");
      require(at->second.due <= target, "poll: early");
      require(Wheel::instant_of(at->second.due) == out[i].deadline, "poll: another deadline");
      take_out(at);
    }
    fired_ += count;
    now_ = std::min(target, earliest());
    due_left_ = earliest() <= target;
    require(table_->now() == Wheel::instant_of(now_), "poll: now() is not where it should be");
  }

  void compare() {
    if (!failure_.empty()) return;
    failure_ = table_->check();
    require(table_->live() == live_.size(), "live() differs");
    const Tick first = earliest();
    const Instant next = table_->next_deadline();
    const Instant due = first == kNeverTick ? kNever : Wheel::instant_of(first);
    const Instant now = Wheel::instant_of(now_);
    require(next <= due, "next_deadline: a timer would be late");
    require(due_left_ ? next >= now : next > now, "next_deadline: in the past");
    if (first <= now_) require(next <= now, "next_deadline: due timers would wait");
    if (live_.empty() && !due_left_) {
      require(next == kNever, "next_deadline: a wake-up for nothing");
    }
    if (chance(50)) compare_census();
  }

  void compare_census() {
    const TimerTableMemory memory = table_->memory_stats();
    std::size_t counted = memory.timers.due + memory.timers.overflow + memory.timers.never;
    for (const std::size_t level : memory.timers.levels) counted += level;
    require(counted == live_.size(), "memory_stats: the timers are counted wrong");
    require(memory.slab.live == live_.size(), "memory_stats: live is not live()");
    require(memory.slab.live + memory.slab.free == table_->capacity(),
            "memory_stats: free and live are not the capacity");
  }

  Random& choices_;
  Foreign& foreign_;
  Tick now_;
  std::size_t limit_;
  std::unique_ptr<Table> table_;
  bool due_left_ = false;  ///< The last poll left due timers.
  Live live_;
  std::vector<TimerId> stale_;
  std::unordered_set<std::uint64_t> ever_;
  std::uint64_t fired_ = 0;
  std::string failure_;
};

struct Totals {
  std::uint64_t fired = 0;
  std::uint64_t retired = 0;
};

/// Runs until `steps` are done, each part of it on two tables of their own that begin at one of the
/// interesting ticks or at a random one.
template <std::int64_t kTickNs, TimerIdSpace kIdSpace = TimerIdSpace{}>
Totals run_model(std::uint64_t steps, std::size_t limit, std::uint64_t seed) {
  using Model = TableModel<kTickNs, kIdSpace>;
  Random choices(seed);
  Foreign foreign;
  Totals totals;
  const std::vector<Tick> starts = start_ticks();
  const std::uint64_t most = std::min<std::uint64_t>(2000, steps / (starts.size() + 4));
  std::uint64_t done = 0;
  for (std::uint64_t part = 0; done < steps; ++part) {
    const std::size_t at = part % (starts.size() + 4);
    const Tick start = at < starts.size() ? starts[at] : choices.next() >> choices.below(64);
    Model first(start, limit, choices, foreign);
    Model second(start, limit, choices, foreign);
    for (std::uint64_t step = 0; step < most; ++step, ++done) {
      Model& model = choices.chance(0.5) ? first : second;
      Model& other = &model == &first ? second : first;
      foreign.add(other.any_live());
      if (!model.step()) {
        ADD_FAILURE() << model.failure() << ", start " << start << ", step " << done;
        return totals;
      }
      foreign.ids.pop_back();
    }
    totals.fired += first.fired() + second.fired();
    totals.retired += first.retired() + second.retired();
  }
  EXPECT_GT(totals.fired, steps / 100);
  return totals;
}

TEST(TimerTableModel, DoesWhatAMapDoes) {
  run_model<1'000'000>(scaled(60'000), 1'000, seed());
}

TEST(TimerTableModel, DoesWhatAMapDoesWithFewTimers) {
  run_model<1'000'000>(scaled(20'000), 3, seed() + 1);
}

TEST(TimerTableModel, DoesWhatAMapDoesOnEveryTickSize) {
  run_model<1'000>(scaled(10'000), 300, seed() + 2);
  run_model<100'000>(scaled(10'000), 300, seed() + 3);
  run_model<7'000'003>(scaled(10'000), 300, seed() + 4);
  run_model<1'000'000'000>(scaled(10'000), 300, seed() + 5);
}

TEST(TimerTableModel, DoesWhatAMapDoesWhileGenerationsAreUsedUp) {
  constexpr TimerIdSpace kShort{.last_generation = 4};
  EXPECT_GT((run_model<1'000'000, kShort>(scaled(60'000), 30, seed() + 6).retired), 1'000U);
  constexpr TimerIdSpace kOnce{.last_generation = 1};
  EXPECT_GT((run_model<1'000'000, kOnce>(scaled(20'000), 300, seed() + 7).retired), 1'000U);
}

}  // namespace
}  // namespace pinion::test

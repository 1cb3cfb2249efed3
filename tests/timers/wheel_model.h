#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pinion/timers/timer_entry.h>
#include <pinion/timers/timing_wheel.h>
#include <pinion/timers/wheel_core.h>

#include "probe.h"

/// The slow, obvious wheel: an ordered multimap of deadlines beside the real wheel. Each step does
/// one random thing to both and compares them; the unit test and the fuzzer share it.
///
/// `Port` is the wheel under test as the model sees it, in ticks. `Choices` has below(n): a number
/// below n, from a generator or from the fuzzer's bytes.

namespace pinion::test {

/// WheelCore itself.
class CorePort {
 public:
  explicit CorePort(Tick start) : wheel_(start) {}

  /// What the wheel makes of a deadline.
  static Tick reachable(Tick deadline) { return deadline; }
  static constexpr Tick kLast = kNeverTick - 1;

  template <class Choices>
  void arm(TimerEntry& entry, Tick deadline, Choices&) {
    wheel_.arm(entry, deadline);
  }
  template <class Choices>
  void extend(TimerEntry& entry, Tick deadline, Choices&) {
    wheel_.extend(entry, deadline);
  }
  template <class Choices>
  std::size_t advance(Tick target, std::size_t budget, Choices&) {
    return wheel_.advance(target, budget);
  }
  bool cancel(TimerEntry& entry) { return wheel_.cancel(entry); }
  Tick next_expiry() const { return wheel_.next_expiry(); }
  Tick now() const { return wheel_.now(); }
  std::size_t armed_count() const { return wheel_.armed_count(); }
  std::string check() const { return wheel_.check(); }

 private:
  WheelCore wheel_;
};

/// BasicTimingWheel, entered at a random nanosecond of each tick: a deadline somewhere in the tick
/// that ends at it, a target somewhere in the tick that begins there.
template <std::int64_t kTickNs>
class InstantPort {
  using Wheel = BasicTimingWheel<kTickNs>;

 public:
  explicit InstantPort(Tick start) : wheel_(Wheel::instant_of(std::min(start, kLast))) {}

  static constexpr Tick kLast =
      static_cast<Tick>(std::numeric_limits<std::int64_t>::max()) / kTickNs - 1;

  static Tick reachable(Tick deadline) { return deadline > kLast ? kNeverTick : deadline; }

  template <class Choices>
  void arm(TimerEntry& entry, Tick deadline, Choices& choices) {
    wheel_.arm(entry, within_tick_before(deadline, choices));
  }
  template <class Choices>
  void extend(TimerEntry& entry, Tick deadline, Choices& choices) {
    wheel_.extend(entry, within_tick_before(deadline, choices));
  }
  template <class Choices>
  std::size_t advance(Tick target, std::size_t budget, Choices& choices) {
    return wheel_.advance(Wheel::instant_of(target) + any_part(choices), budget);
  }
  bool cancel(TimerEntry& entry) { return wheel_.cancel(entry); }
  Tick next_expiry() const { return exact_tick(wheel_.next_expiry()); }
  Tick now() const { return exact_tick(wheel_.now()); }
  std::size_t armed_count() const { return wheel_.armed_count(); }
  std::string check() const { return wheel_.check(); }

 private:
  template <class Choices>
  static std::chrono::nanoseconds any_part(Choices& choices) {
    return std::chrono::nanoseconds{choices.below(kTickNs)};
  }
  template <class Choices>
  static Instant within_tick_before(Tick deadline, Choices& choices) {
    const Tick reached = reachable(deadline);
    if (reached == kNeverTick) return kNever;
    return Wheel::instant_of(reached) - any_part(choices);
  }
  static Tick exact_tick(Instant instant) {
    return instant == kNever ? kNeverTick : Wheel::tick_after(instant);
  }

  Wheel wheel_;
};

template <class Port, class Choices>
class WheelModel {
 public:
  WheelModel(Tick start, std::size_t population, Choices& choices)
      : choices_(choices),
        port_(std::in_place, start),
        now_(std::min(start, Port::kLast)),
        timers_(population) {
    for (auto& timer : timers_) timer = std::make_unique<Timer>(*this);
  }

  /// Does one random thing and compares. False once something differed.
  bool step() {
    if (!port_) revive();
    if (chance(4)) {
      advance();
    } else {
      operate();
    }
    compare();
    return failure_.empty();
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] std::uint64_t fired() const { return fired_; }

 private:
  using Due = std::multimap<Tick, void*>;

  struct Timer : TimerEntry {
    explicit Timer(WheelModel& owner) : TimerEntry(&Timer::on_fire), model(owner) {}
    static void on_fire(TimerEntry& entry) {
      auto& timer = static_cast<Timer&>(entry);
      timer.model.fired(timer);
    }
    WheelModel& model;
    std::optional<Due::iterator> due;  ///< Where the model has it while armed.
  };

  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  std::uint64_t below(std::uint64_t bound) { return choices_.below(bound); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  Timer& any_timer() { return *timers_[below(timers_.size())]; }

  static Tick plus(Tick tick, Tick more) {
    return more > kNeverTick - tick ? kNeverTick : tick + more;
  }

  Tick earliest() const { return due_.empty() ? kNeverTick : due_.begin()->first; }
  Tick floor() const { return advancing_ ? target_ : now_; }

  /// The next multiple of a power of 64, and its neighbours.
  Tick near_boundary() {
    const Tick span = Tick{1} << (6 * (1 + below(6)));
    const Tick boundary = plus(now_ / span * span, span * (1 + below(2)));
    return boundary - 1 + below(3);
  }

  Tick any_deadline() {
    switch (below(12)) {
      case 0:
        return now_ - std::min<Tick>(now_, below(100));
      case 1:
        return plus(floor(), below(3));
      case 2:
        return kNeverTick;
      case 3:
        return near_boundary();
      case 4:
        return earliest();
      case 5:
        return plus(now_, (Tick{1} << 30) - 2 + below(4));
      case 6:
        return plus(now_, any_magnitude(choices_, 44));
      case 7:
        return plus(now_, 4000 + below(5000));
      case 8:
        return any_timer().deadline();
      default:
        return plus(now_, below(200));
    }
  }

  /// Never isn't where time should go: nothing happens after that.
  Tick or_soon(Tick tick) const { return tick == kNeverTick ? plus(now_, 64) : tick; }

  Tick any_target() {
    static constexpr std::array<Tick, 7> kSteps{0, 1, 63, 64, 65, 4095, 4096};
    switch (below(12)) {
      case 0:
        return now_;
      case 1:
        return or_soon(earliest());
      case 2:
        return or_soon(earliest()) - 1;
      case 3:
        return or_soon(port_->next_expiry());
      case 4:
        return near_boundary();
      case 5:
        return chance(20) ? plus(now_, any_magnitude(choices_, 44)) : plus(now_, 1);
      case 6:
        return chance(4) ? plus(now_, any_magnitude(choices_, 20)) : plus(now_, 2);
      case 7:
        return plus(now_, kSteps[below(kSteps.size())]);
      default:
        return plus(now_, below(8));
    }
  }

  void note_armed(Timer& timer, Tick deadline) {
    note_unarmed(timer);
    const Tick effective = std::max(Port::reachable(deadline), plus(floor(), 1));
    timer.due = due_.emplace(effective, &timer);
  }

  void note_unarmed(Timer& timer) {
    if (timer.due) due_.erase(*timer.due);
    timer.due.reset();
  }

  void destroy(Timer& timer) {
    note_unarmed(timer);
    const auto at = std::find_if(timers_.begin(), timers_.end(),
                                 [&](const auto& owned) { return owned.get() == &timer; });
    at->reset();  // before the new one is made, so that its memory may be used again
    *at = std::make_unique<Timer>(*this);
  }

  void operate() { operate_on(any_timer()); }

  void operate_on(Timer& timer) {
    ++operations_;
    switch (below(16)) {
      case 0:
        return destroy(timer);
      case 1:
      case 2:
      case 3: {
        const bool was_armed = timer.due.has_value();
        note_unarmed(timer);
        return require(port_->cancel(timer) == was_armed, "cancel: wrong answer");
      }
      case 4:
      case 5:
      case 6:
      case 7:
      case 8: {
        const Tick deadline = any_deadline();
        note_armed(timer, deadline);
        return port_->extend(timer, deadline, choices_);
      }
      default: {
        const Tick deadline = any_deadline();
        note_armed(timer, deadline);
        return port_->arm(timer, deadline, choices_);
      }
    }
  }

  void advance() {
    ++operations_;
    target_ = std::min(any_target(), Port::kLast);
    const Tick before = now_;
    const std::size_t budget = chance(4) ? below(4) : kNoBudget;
    target_ = std::max(target_, now_);
    advancing_ = true;
    fired_in_advance_ = 0;
    const bool back = target_ == before && chance(8);
    const Tick asked = back ? before - std::min<Tick>(before, below(100)) : target_;
    const std::size_t fired = port_->advance(asked, budget, choices_);
    advancing_ = false;
    require(fired == fired_in_advance_, "advance: returned another number than it fired");
    require(fired <= budget, "advance: fired more than the budget");
    if (!port_) return;
    now_ = std::min(target_, earliest());
    require(now_ == target_ || earliest() > target_ || fired == budget, "advance: due timers left");
    require(port_->now() == now_, "advance: now() is not where it should be");
    due_left_ = earliest() <= target_;
  }

  /// The callback of every timer.
  void fired(Timer& timer) {
    ++fired_;
    ++fired_in_advance_;
    require(!timer.armed(), "fire: still armed in its callback");
    require(timer.due.has_value(), "fire: not armed, or fired twice");
    if (!failure_.empty() || !timer.due) return;
    require((*timer.due)->first == timer.deadline(), "fire: not its deadline");
    require(timer.deadline() <= target_, "fire: early");
    require(timer.deadline() == earliest(), "fire: out of order");
    note_unarmed(timer);
    if (chance(3)) return;
    if (chance(500)) return destroy_wheel();
    if (chance(50)) require(port_->check().empty(), "check() in a callback");
    Timer& one = any_timer();
    operate_on(one);
    if (chance(2)) operate();
    if (chance(4)) operate();  // one and timer may be gone by now
  }

  void destroy_wheel() {
    ++operations_;
    for (auto& timer : timers_) timer->due.reset();
    due_.clear();
    port_.reset();
    for (auto& timer : timers_) require(!timer->armed(), "wheel died: an entry is still armed");
  }

  void revive() {
    now_ = target_;
    due_left_ = false;
    port_.emplace(now_);
  }

  void compare() {
    if (!port_ || !failure_.empty()) return;
    failure_ = port_->check();
    require(port_->armed_count() == due_.size(), "armed_count() differs");
    compare_next_expiry(port_->next_expiry());
    const Timer& timer = any_timer();
    require(timer.armed() == timer.due.has_value(), "armed() differs");
    if (timer.due) require(timer.deadline() == (*timer.due)->first, "deadline() differs");
  }

  /// Once an advance has stopped at its budget, the wheel may ask for another one although what was
  /// left has been cancelled or extended since. An entry extended to never is still in its old
  /// slot.
  void compare_next_expiry(Tick expiry) {
    const Tick first = earliest();
    require(expiry <= first, "next_expiry: a timer would be late");
    require(due_left_ ? expiry >= now_ : expiry > now_, "next_expiry: in the past");
    if (first <= now_) require(expiry <= now_, "next_expiry: due work would wait");
    if (due_.empty() && !due_left_) {
      require(expiry == kNeverTick, "next_expiry: a wake-up for nothing");
    }
  }

  Choices& choices_;
  std::optional<Port> port_;
  Tick now_;
  Tick target_ = 0;
  bool advancing_ = false;
  bool due_left_ = false;  ///< The last advance stopped at its budget.
  Due due_;
  std::vector<std::unique_ptr<Timer>> timers_;
  std::size_t fired_in_advance_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t operations_ = 0;
  std::string failure_;
};

}  // namespace pinion::test

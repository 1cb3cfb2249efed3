#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <pinion/lib/export.h>
#include <pinion/lib/time.h>

/// What a loop does when there is nothing to do.
///
/// Ownership:  plain values. Threading: one loop. Cost: a few instructions per idle turn.
///
/// The rule of `adaptive`: the controller keeps a moving average (weight 1/8) of how long the loop
/// was idle when work arrived that was not a timer, each sample cut off at 4 times the longest
/// spin, so that one pause changes nothing. When the work ended a sleep, a third of the longest
/// spin is taken off, but half of the sample at most: that is what waking took, not the wait for
/// work. While that average is small, spinning would catch the next arrival: spin for four times
/// the average. Once it exceeds the longest spin, park at once, and don't spin again before it has
/// fallen below half of it. The longest spin is 50 us, and 200 us on a virtual machine, where
/// waking a parked core takes up to 70 us. The second half of a spin pauses between turns.
///
/// Spins that end in a sleep 8 times in a row don't pay, whatever the average says: the sender may
/// need this very CPU. Then it parks at once for 64 arrivals, and for twice as many, up to 4096,
/// when the next spin fails as well.
///
/// A CPU that somebody else wants too is not for spinning: a loop that was taken off it 4 times
/// within 100 ms of its own, for 1 ms or more in all, while it spun parks at once for
/// 100 ms, and for twice as long as the last time, up to 3.2 s, when that happens again within 1 s
/// of the end. `spin` spins all the same: who asks for it gives it a CPU. Why and how it was
/// measured: docs/decisions/idle-policy.md.

namespace pinion {

enum class IdlePolicy : std::uint8_t {
  spin,      ///< Never sleep.
  adaptive,  ///< Spin as long as it is likely to pay, then pause, then park.
  park,      ///< Sleep at once.
};

[[nodiscard]] PINION_EXPORT std::string_view to_string(IdlePolicy policy) noexcept;

/// By the name that to_string gives; nothing for another text.
[[nodiscard]] PINION_EXPORT std::optional<IdlePolicy> parse_idle_policy(
    std::string_view text) noexcept;

/// Whether a hypervisor runs this machine: by the processor's word on x86-64, elsewhere by what the
/// firmware says of itself. Found out once.
[[nodiscard]] PINION_EXPORT bool on_virtual_machine() noexcept;

namespace detail {

/// By the files below `root` (normally ""), as the kernel shows the firmware's tables.
[[nodiscard]] PINION_EXPORT bool firmware_names_hypervisor(const char* root) noexcept;

}  // namespace detail

/// The longest spin that this machine deserves.
[[nodiscard]] PINION_EXPORT Delay default_spin_max() noexcept;

class IdleController {
 public:
  enum class Step : std::uint8_t { spin, pause, park };

  /// The longest spin that counts; who wants more wants IdlePolicy::spin.
  static constexpr Delay kSpinLimit = std::chrono::seconds{1};

  /// `spin_max` is cut off at kSpinLimit.
  IdleController(IdlePolicy policy, Delay spin_max) noexcept
      : policy_(policy),
        spin_max_(std::clamp(spin_max, Delay{}, kSpinLimit).count()),
        average_(spin_max_ / 2) {}

  /// Work other than a timer arrived after the loop had been idle for `gap`; `woken`: it had to be
  /// woken for it. Returns whether spinning is given up from now on, which it wasn't.
  PINION_EXPORT bool on_arrival(Delay gap, bool woken) noexcept;

  /// Somebody else had the CPU while the loop spun, for `off`, until `now`. Returns whether
  /// spinning is given up from now on, which it wasn't.
  PINION_EXPORT bool on_preemption(Instant now, Delay off) noexcept;

  /// What to do at `now`, after having been idle for `idle`.
  [[nodiscard]] PINION_EXPORT Step next_step(Delay idle, Instant now) const noexcept;

  /// How long the next idle period would be spun through on a CPU of its own.
  [[nodiscard]] PINION_EXPORT Delay spin_budget() const noexcept;

 private:
  static constexpr std::size_t kPreemptions = 4;

  struct Preemption {
    Instant at = Instant::min();      // By a clock that stands while others have the CPU.
    std::chrono::nanoseconds lost{};  // To those before it, since the start.
  };

  static constexpr std::uint32_t kVainSpins = 8;
  static constexpr std::uint32_t kFewestArrivals = 64;
  static constexpr std::uint32_t kMostArrivals = 4096;

  bool spin_paid(bool had_spun, bool woken) noexcept;

  IdlePolicy policy_;
  bool parks_at_once_ = false;
  std::int64_t spin_max_;
  std::int64_t average_;
  std::uint32_t vain_spins_ = 0;        // In a row.
  std::uint32_t arrivals_to_spin_ = 0;  // Until it tries spinning again.
  std::uint32_t next_arrivals_ = kFewestArrivals;
  std::array<Preemption, kPreemptions - 1> last_preempted_;
  std::size_t oldest_ = 0;
  std::chrono::nanoseconds off_cpu_{};  // Since the start, in turns that counted.
  Instant given_up_until_ = Instant::min();
  Delay last_break_;
};

}  // namespace pinion

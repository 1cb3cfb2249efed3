#include <pinion/eventloop/idle.h>

#include <algorithm>
#include <array>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pinion {
namespace {

constexpr std::array<std::pair<IdlePolicy, std::string_view>, 3> kNames = {{
    {IdlePolicy::spin, "spin"},
    {IdlePolicy::adaptive, "adaptive"},
    {IdlePolicy::park, "park"},
}};

constexpr Delay kSpinMaxOnMetal = std::chrono::microseconds{50};
constexpr Delay kSpinMaxOnVm = std::chrono::microseconds{200};

}  // namespace

std::string_view to_string(IdlePolicy policy) noexcept {
  for (const auto& [value, name] : kNames) {
    if (value == policy) return name;
  }
  return "unknown";
}

std::optional<IdlePolicy> parse_idle_policy(std::string_view text) noexcept {
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

bool on_virtual_machine() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kHypervisor = 1U << 31;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisor) != 0;
#else
  return false;
#endif
}

Delay default_spin_max() noexcept {
  return on_virtual_machine() ? kSpinMaxOnVm : kSpinMaxOnMetal;
}

void IdleController::on_arrival(Delay gap) noexcept {
  const std::int64_t sample = std::clamp<std::int64_t>(gap.count(), 0, 8 * spin_max_);
  average_ += (sample - average_) / 8;
  if (average_ > spin_max_) parks_at_once_ = true;
  if (average_ < spin_max_ / 2) parks_at_once_ = false;
}

Delay IdleController::spin_budget() const noexcept {
  if (policy_ == IdlePolicy::spin) return kNoTimeout;
  if (policy_ == IdlePolicy::park || parks_at_once_) return {};
  return std::chrono::nanoseconds{std::min(2 * average_, spin_max_)};
}

IdleController::Step IdleController::next_step(Delay idle) const noexcept {
  if (policy_ == IdlePolicy::spin) return Step::spin;
  const std::int64_t budget = spin_budget().count();
  if (idle.count() >= budget) return Step::park;
  return idle.count() >= budget / 2 ? Step::pause : Step::spin;
}

}  // namespace pinion

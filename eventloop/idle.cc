#include <pinion/eventloop/idle.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
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

/// Of waits without memory, whatever their mean, 98 in 100 are shorter than four times that.
constexpr std::int64_t kSpinPerAverage = 4;

constexpr Delay kSpinMaxOnMetal = std::chrono::microseconds{50};
constexpr Delay kSpinMaxOnVm = std::chrono::microseconds{200};

/// kPreemptions in so short a time mean that the CPU is shared. What the kernel does on it now and
/// then stays below.
constexpr Delay kPreemptionWindow = std::chrono::milliseconds{100};

/// What they must have taken together: the kernel's own threads, as the one that handles packets,
/// take a few 10 us each time, and what they do is the loop's work as a rule.
constexpr Delay kLeastLoss = std::chrono::milliseconds{1};

constexpr Delay kShortestBreak = std::chrono::milliseconds{100};
constexpr Delay kLongestBreak = std::chrono::milliseconds{3200};
/// A CPU that turns out to be shared so soon after a break was shared all the time.
constexpr Delay kProbation = std::chrono::seconds{1};

/// The first bytes of a file, or nothing.
std::string_view read_start(const char* root, const char* name, std::array<char, 64>& buffer) {
  std::array<char, PATH_MAX> path{};
  std::snprintf(path.data(), path.size(), "%s%s", root, name);
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = read(fd, buffer.data(), buffer.size());
  close(fd);
  return length < 0 ? std::string_view()
                    : std::string_view(buffer.data(), static_cast<std::size_t>(length));
}

bool find_virtual_machine() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kHypervisor = 1U << 31;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisor) != 0;
#else
  return detail::firmware_names_hypervisor("");
#endif
}

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
  static const bool found = find_virtual_machine();
  return found;
}

/// A hypervisor's node in the device tree, or its maker's name in the DMI tables. Clouds put their
/// own names there, on machines without a hypervisor too: those say "metal" in the product's name.
bool detail::firmware_names_hypervisor(const char* root) noexcept {
  constexpr std::array<std::string_view, 8> kMakers = {"QEMU",   "KVM", "Amazon EC2", "Google",
                                                       "VMware", "Xen", "Parallels",  "innotek"};
  std::array<char, 64> buffer;
  if (!read_start(root, "/proc/device-tree/hypervisor/compatible", buffer).empty()) return true;
  const std::string_view product = read_start(root, "/sys/class/dmi/id/product_name", buffer);
  if (product.find("metal") != std::string_view::npos) return false;
  if (product.starts_with("KVM") || product.find("Virtual Machine") != std::string_view::npos) {
    return true;
  }
  const std::string_view maker = read_start(root, "/sys/class/dmi/id/sys_vendor", buffer);
  return std::any_of(kMakers.begin(), kMakers.end(),
                     [maker](std::string_view name) { return maker.starts_with(name); });
}

Delay default_spin_max() noexcept {
  return on_virtual_machine() ? kSpinMaxOnVm : kSpinMaxOnMetal;
}

bool IdleController::on_arrival(Delay gap, bool woken) noexcept {
  const bool had_spun = policy_ == IdlePolicy::adaptive && spin_budget() > Delay{};
  // With the time of waking in it, a loop that has begun to park would never spin again. With more
  // than that taken off, where waking is fast, the average would come to nothing, and so would the
  // spin: what remains is half of it.
  const std::int64_t waking = woken ? std::min(spin_max_ / 3, gap.count() / 2) : 0;
  const std::int64_t sample = std::clamp<std::int64_t>(gap.count() - waking, 0, 4 * spin_max_);
  average_ += (sample - average_) / 8;
  if (average_ > spin_max_) parks_at_once_ = true;
  if (average_ < spin_max_ / 2) parks_at_once_ = false;
  return !spin_paid(had_spun, woken);
}

/// Who spins on the CPU that his sender needs is woken each time, however short the wait seems.
bool IdleController::spin_paid(bool had_spun, bool woken) noexcept {
  if (arrivals_to_spin_ > 0) --arrivals_to_spin_;
  if (!had_spun) return true;
  if (!woken) {
    vain_spins_ = 0;
    next_arrivals_ = kFewestArrivals;
    return true;
  }
  if (++vain_spins_ < kVainSpins) return true;
  --vain_spins_;  // The next that fails is one too many again.
  arrivals_to_spin_ = next_arrivals_;
  next_arrivals_ = std::min(2 * next_arrivals_, kMostArrivals);
  return false;
}

Delay IdleController::spin_budget() const noexcept {
  if (policy_ == IdlePolicy::spin) return kNoTimeout;
  if (policy_ == IdlePolicy::park || parks_at_once_ || arrivals_to_spin_ > 0) {
    return {};
  }
  return std::chrono::nanoseconds{std::min(kSpinPerAverage * average_, spin_max_)};
}

bool IdleController::on_preemption(Instant now, Delay off) noexcept {
  if (policy_ != IdlePolicy::adaptive || now < given_up_until_) return false;
  // The more others want the CPU, the rarer this loop is on it, to be taken off: that time doesn't
  // count.
  const std::chrono::nanoseconds lost = off_cpu_;
  off_cpu_ += off.to_nanoseconds();
  const Instant at = now - off_cpu_;
  const Preemption first = std::exchange(last_preempted_[oldest_], {.at = at, .lost = lost});
  oldest_ = (oldest_ + 1) % last_preempted_.size();
  if (saturating_sub(at, first.at) > kPreemptionWindow) return false;
  if (off_cpu_ - first.lost < kLeastLoss.to_nanoseconds()) return false;
  last_preempted_.fill({});
  const bool again = now < saturating_add(given_up_until_, kProbation);
  last_break_ =
      again ? std::min(Delay{std::chrono::nanoseconds{2 * last_break_.count()}}, kLongestBreak)
            : kShortestBreak;
  given_up_until_ = saturating_add(now, last_break_);
  return true;
}

IdleController::Step IdleController::next_step(Delay idle, Instant now) const noexcept {
  if (policy_ == IdlePolicy::spin) return Step::spin;
  const std::int64_t budget = spin_budget().count();
  if (idle.count() >= budget || now < given_up_until_) return Step::park;
  return idle.count() >= budget / 2 ? Step::pause : Step::spin;
}

}  // namespace pinion

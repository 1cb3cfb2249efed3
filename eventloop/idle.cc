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

constexpr Delay kSpinMaxOnMetal = std::chrono::microseconds{50};
constexpr Delay kSpinMaxOnVm = std::chrono::microseconds{200};

/// kPreemptions in so short a time mean that the CPU is shared. What the kernel does on it now and
/// then stays below.
constexpr Delay kPreemptionWindow = std::chrono::milliseconds{100};

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

void IdleController::on_arrival(Delay gap, bool woken) noexcept {
  // With the time of waking in it, a loop that has begun to park would never spin again.
  const std::int64_t waking = woken ? spin_max_ / 3 : 0;
  const std::int64_t sample = std::clamp<std::int64_t>(gap.count() - waking, 0, 4 * spin_max_);
  average_ += (sample - average_) / 8;
  if (average_ > spin_max_) parks_at_once_ = true;
  if (average_ < spin_max_ / 2) parks_at_once_ = false;
}

Delay IdleController::spin_budget() const noexcept {
  if (policy_ == IdlePolicy::spin) return kNoTimeout;
  if (policy_ == IdlePolicy::park || parks_at_once_) return {};
  return std::chrono::nanoseconds{std::min(2 * average_, spin_max_)};
}

bool IdleController::on_preemption(Instant now, Delay off) noexcept {
  if (policy_ != IdlePolicy::adaptive || now < given_up_until_) return false;
  // The more others want the CPU, the rarer this loop is on it, to be taken off: that time doesn't
  // count.
  off_cpu_ += off.to_nanoseconds();
  const Instant at = now - off_cpu_;
  const Instant first = std::exchange(last_preempted_[oldest_], at);
  oldest_ = (oldest_ + 1) % last_preempted_.size();
  if (saturating_sub(at, first) > kPreemptionWindow) return false;
  last_preempted_.fill(Instant::min());
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

#include "address_checks.h"

#include <algorithm>
#include <chrono>
#include <span>

namespace pinion {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// RFC 4862, 5.1, and RFC 4861, 10.
constexpr unsigned kProbesV6 = 1;
constexpr Delay kRetransmit = seconds{1};
constexpr milliseconds kMostDelay{1000};
// RFC 5227, 1.1.
constexpr unsigned kProbesV4 = 3;
constexpr milliseconds kProbeMin{1000};
constexpr milliseconds kProbeMax{2000};
constexpr Delay kAnnounceWait = seconds{2};
constexpr unsigned kAnnouncements = 2;
constexpr Delay kAnnounceInterval = seconds{2};
constexpr Delay kDefendInterval = seconds{10};

Delay between(Random& random, milliseconds low, milliseconds high) noexcept {
  return milliseconds{random.between(low.count(), high.count())};
}

}  // namespace

AddressChecks::Timer::Timer(AddressChecks& its) noexcept
    : TimerEntry([](TimerEntry& entry) {
        AddressChecks& its_owner = static_cast<Timer&>(entry).checks;
        its_owner.on_due(its_owner.context_.wheel.now());
      }),
      checks(its) {}

AddressChecks::AddressChecks(IpContext& context, AddressCheckHost& host) noexcept
    : context_(context), host_(host) {}

void AddressChecks::start(Interface& interface, const IpAddress& address, Instant now) noexcept {
  add(interface, address).due = now + between(context_.random, milliseconds{0}, kMostDelay);
  rearm();
}

void AddressChecks::watch(const Interface& interface, const IpAddress& address) noexcept {
  add(interface, address);
}

AddressChecks::Check& AddressChecks::add(const Interface& interface,
                                         const IpAddress& address) noexcept {
  PINION_ASSERT(count_ < checks_.size());
  Check& check = checks_[count_++];
  check.interface = interface.index;
  check.address = address;
  return check;
}

bool AddressChecks::claimed(Interface& interface, const IpAddress& address, Instant now) noexcept {
  const InterfaceAddress* const own = interface.find(address);
  if (own == nullptr || own->state == AddressState::duplicate) return false;
  if (own->state == AddressState::checking) {
    Check* const check = find(interface, address);
    if (check != nullptr) found(*check);
    return true;
  }
  ++context_.counters.address_conflict;
  Check* const check = find(interface, address);
  if (check == nullptr || address.is_v6()) return true;
  if (saturating_sub(now, check->defended) < kDefendInterval) return true;
  check->defended = now;
  host_.announce(interface, address, now);
  return true;
}

void AddressChecks::probed(Interface& interface, const IpAddress& address) noexcept {
  const InterfaceAddress* const own = interface.find(address);
  if (own == nullptr || own->state != AddressState::checking) return;
  Check* const check = find(interface, address);
  if (check != nullptr) found(*check);
}

AddressChecks::Check* AddressChecks::find(const Interface& interface,
                                          const IpAddress& address) noexcept {
  const std::span all(checks_.data(), count_);
  const auto found = std::ranges::find_if(all, [&](const Check& check) {
    return check.interface == interface.index && check.address == address;
  });
  return found == all.end() ? nullptr : &*found;
}

void AddressChecks::step(Check& check, Instant now) noexcept {
  Interface& interface = context_.interfaces[check.interface];
  if (check.address.is_v6()) {
    step_v6(check, interface, now);
  } else {
    step_v4(check, interface, now);
  }
}

void AddressChecks::step_v6(Check& check, Interface& interface, Instant now) noexcept {
  if (check.probes < kProbesV6) {
    ++check.probes;
    check.due = now + kRetransmit;
    host_.probe(interface, check.address, now);
    return;
  }
  check.due = kNever;
  interface.set_state(check.address, AddressState::usable);
  host_.usable(interface, check.address, now);
}

void AddressChecks::step_v4(Check& check, Interface& interface, Instant now) noexcept {
  if (check.probes < kProbesV4) {
    ++check.probes;
    check.due = now + (check.probes < kProbesV4 ? between(context_.random, kProbeMin, kProbeMax)
                                                : kAnnounceWait);
    host_.probe(interface, check.address, now);
    return;
  }
  if (check.announced == 0) {
    interface.set_state(check.address, AddressState::usable);
    host_.usable(interface, check.address, now);
  }
  ++check.announced;
  check.due = check.announced < kAnnouncements ? now + kAnnounceInterval : kNever;
  host_.announce(interface, check.address, now);
}

/// Somebody else has the address.
void AddressChecks::found(Check& check) noexcept {
  const Interface& interface = context_.interfaces[check.interface];
  if (check.address != link_local_of(interface.mac)) return give_up(check);
  for (Check& other : std::span(checks_.data(), count_)) {
    if (other.interface == check.interface && other.address.is_v6()) give_up(other);
  }
}

void AddressChecks::give_up(Check& check) noexcept {
  const InterfaceAddress* const own = context_.interfaces[check.interface].find(check.address);
  if (own == nullptr || own->state == AddressState::duplicate) return;
  ++context_.counters.address_duplicate;
  check.due = kNever;
  context_.interfaces[check.interface].set_state(check.address, AddressState::duplicate);
}

void AddressChecks::on_due(Instant now) noexcept {
  for (Check& check : std::span(checks_.data(), count_)) {
    if (check.due <= now) step(check, now);
  }
  rearm();
}

void AddressChecks::rearm() noexcept {
  Instant first = kNever;
  for (const Check& check : std::span(checks_.data(), count_)) first = std::min(first, check.due);
  if (first != kNever) context_.wheel.extend(timer_, first);
}

}  // namespace pinion

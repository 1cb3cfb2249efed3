#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/time.h>
#include <pinion/timers/timing_wheel.h>

#include "ip_context.h"

/// Whether somebody else has our addresses: duplicate address detection of RFC 4862, 5.4, for IPv6
/// and of RFC 5227 for IPv4.
///
/// Ownership:  nothing; the interfaces' address states change.
/// Threading:  one lcore.
/// Cost:       nothing once all addresses are checked, but a compare per ARP message and neighbor
///             advertisement. One wheel entry for all.
/// Full:       an entry for each address that interfaces can have.
/// Timing:     IPv6: after up to 1 s one solicitation, 1 s later the address is usable. IPv4: after
///             up to 1 s three probes 1 to 2 s apart, and 2 s after the last the address is usable
///             and announced, a second time 2 s later.
/// Conflicts:  an address that somebody has when it is checked is given up for good; with the
///             link-local one made of the MAC, which must then be somebody's, too, all of IPv6 on
///             the interface (RFC 4862, 5.4.5). One in use is kept, since what an
///             operator configured is not a stranger's to take away. One of IPv4 is defended by an
///             announcement, at most once in 10 s (RFC 5227, 2.4 (c)).

namespace pinion {

class AddressCheckHost {
 public:
  /// Asks whether somebody has `address`, without claiming it.
  virtual void probe(Interface& interface, const IpAddress& address, Instant now) noexcept = 0;

  /// Tells everybody that it is ours.
  virtual void announce(Interface& interface, const IpAddress& address, Instant now) noexcept = 0;

  /// Nobody else has it: from now on it is used.
  virtual void usable(Interface& interface, const IpAddress& address, Instant now) noexcept = 0;

 protected:
  ~AddressCheckHost() = default;
};

class AddressChecks {
 public:
  AddressChecks(IpContext& context, AddressCheckHost& host) noexcept;
  AddressChecks(const AddressChecks&) = delete;
  AddressChecks& operator=(const AddressChecks&) = delete;
  ~AddressChecks() = default;

  /// Begins to check an address that the interface has in the state `checking`.
  void start(Interface& interface, const IpAddress& address, Instant now) noexcept;

  /// Takes an address that is used without a check, to defend it.
  void watch(const Interface& interface, const IpAddress& address) noexcept;

  /// Somebody else says that `address` is his. Whether it is one of ours.
  bool claimed(Interface& interface, const IpAddress& address, Instant now) noexcept;

  /// Somebody else checks whether he may have `address`.
  void probed(Interface& interface, const IpAddress& address) noexcept;

 private:
  struct Check {
    std::uint8_t interface = 0;
    IpAddress address;
    std::uint8_t probes = 0;     ///< Sent.
    std::uint8_t announced = 0;  ///< Times.
    Instant due = kNever;        ///< Of the next step.
    Instant defended = Instant::min();
  };
  struct Timer : TimerEntry {
    explicit Timer(AddressChecks& its) noexcept;
    AddressChecks& checks;
  };

  Check& add(const Interface& interface, const IpAddress& address) noexcept;
  [[nodiscard]] Check* find(const Interface& interface, const IpAddress& address) noexcept;
  void step(Check& check, Instant now) noexcept;
  void step_v6(Check& check, Interface& interface, Instant now) noexcept;
  void step_v4(Check& check, Interface& interface, Instant now) noexcept;
  void found(Check& check) noexcept;
  void give_up(Check& check) noexcept;
  void on_due(Instant now) noexcept;
  void rearm() noexcept;

  IpContext& context_;
  AddressCheckHost& host_;
  Timer timer_{*this};
  std::array<Check, IpContext::kMostInterfaces * Interface::kMostAddresses> checks_;
  std::size_t count_ = 0;
};

}  // namespace pinion

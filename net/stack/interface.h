#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>

#include "ip_kinds.h"

/// An interface of the stack: its addresses, and what waits to leave through it.
///
/// Ownership:  the packets of the tx queue are the interface's until they are taken.
/// Threading:  one lcore.
/// Cost:       the questions about addresses compare with at most kMostAddresses.
/// Full:       a tx queue at its limit refuses packets. Beyond half of it, what can wait is asked
///             to.

namespace pinion {

/// What is in front of the IP header.
enum class LinkKind : std::uint8_t {
  ethernet,
  ip,  ///< Nothing: no neighbours, no multicast, one peer at the other end.
};

enum class AddressState : std::uint8_t {
  checking,   ///< Whether somebody else has it: not used meanwhile.
  usable,     ///< Ours.
  duplicate,  ///< Somebody else's: given up.
};

struct InterfaceAddress {
  IpPrefix prefix;
  AddressState state = AddressState::checking;
};

/// A usable IPv4 address of ours and the broadcast address of its link, as numbers: what packets
/// are compared with. Where a prefix has no broadcast address it is that of all hosts.
struct OwnV4 {
  std::uint32_t address = 0;
  std::uint32_t broadcast = 0;
};

class Interface {
 public:
  static constexpr std::size_t kMostAddresses = 16;

  std::uint8_t index = 0;
  LinkKind link = LinkKind::ethernet;
  MacAddress mac{};
  std::size_t mtu = 1500;
  std::size_t tx_limit = 1024;
  std::size_t max_segments = 1;  ///< Of a frame that leaves.

  [[nodiscard]] std::span<const InterfaceAddress> addresses() const noexcept {
    return {addresses_.data(), count_};
  }
  /// The prefixes of the usable ones, in the same order.
  [[nodiscard]] std::span<const IpPrefix> usable() const noexcept {
    return {usable_.data(), usable_count_};
  }
  /// Those of IPv4.
  [[nodiscard]] std::span<const OwnV4> usable_v4() const noexcept {
    return {usable_v4_.data(), usable_v4_count_};
  }
  /// Has changes of usable() counted in `changes`, which outlives the interface.
  void count_changes_in(std::uint32_t& changes) noexcept { changes_ = &changes; }

  /// False when there are kMostAddresses.
  bool add(const InterfaceAddress& address) noexcept {
    if (count_ == kMostAddresses) return false;
    addresses_[count_++] = address;
    list_usable();
    return true;
  }
  void set_state(const IpAddress& address, AddressState state) noexcept {
    for (InterfaceAddress& own : addresses_) {
      if (own.prefix.address == address) own.state = state;
    }
    list_usable();
  }

  [[nodiscard]] const InterfaceAddress* find(const IpAddress& address) const noexcept {
    const auto is_it = [&address](const auto& own) { return own.prefix.address == address; };
    const auto found = std::ranges::find_if(addresses(), is_it);
    return found == addresses().end() ? nullptr : &*found;
  }

  /// Whether the address is ours and usable.
  [[nodiscard]] bool has(const IpAddress& address) const noexcept {
    const auto is_it = [&address](const IpPrefix& own) { return own.address == address; };
    return std::ranges::any_of(usable(), is_it);
  }

  /// The same of an IPv4 address as a number.
  [[nodiscard]] bool has_v4(std::uint32_t address) const noexcept {
    for (const OwnV4& own : usable_v4()) {
      if (own.address == address) return true;
    }
    return false;
  }

  /// Whether the address is on the link, by the prefixes of ours.
  [[nodiscard]] bool on_link(const IpAddress& address) const noexcept {
    const auto holds = [&address](const IpPrefix& own) { return own.contains(address); };
    return std::ranges::any_of(usable(), holds);
  }

  /// Whether the address means every IPv4 host of the link.
  [[nodiscard]] bool is_broadcast(const IpAddress& address) const noexcept {
    const auto is_it = [&address](const IpPrefix& own) { return own.is_broadcast(address); };
    return is_limited_broadcast(address) || std::ranges::any_of(usable(), is_it);
  }

  /// Whether we are in a multicast group: that of all hosts, and those in which solicitations for
  /// our addresses come, also while these are checked.
  [[nodiscard]] bool listens_to(const IpAddress& group) const noexcept {
    if (group.is_v4()) return group == IpAddress::v4({224, 0, 0, 1});
    if (group == all_nodes()) return true;
    return std::ranges::any_of(addresses(), [&group](const InterfaceAddress& own) {
      return own.prefix.address.is_v6() && solicited_node(own.prefix.address) == group;
    });
  }

  /// Puts a frame on the tx queue; false, and the frame is gone, when that is full.
  bool queue(PacketPtr frame) noexcept {
    if (tx_.size() >= tx_limit) return false;
    tx_.push_back(std::move(frame));
    return true;
  }

  /// Moves what waits to the front of `into`; returns how many that was.
  std::size_t take(std::span<Packet*> into) noexcept {
    std::size_t count = 0;
    while (count < into.size() && !tx_.empty()) into[count++] = tx_.pop_front().take();
    if (!more_than_half_full()) waiting_since_ = kNever;
    return count;
  }
  [[nodiscard]] std::size_t queued() const noexcept { return tx_.size(); }

  [[nodiscard]] bool more_than_half_full() const noexcept { return tx_.size() > tx_limit / 2; }

  /// Whether what can wait shall do so until packets were taken. If the queue stays as full for
  /// long, since the link is down or slow, it goes the way of all others: what is lost or sent in
  /// vain has its own timeouts.
  [[nodiscard]] bool is_crowded(Instant now) noexcept {
    constexpr Delay kPatience = std::chrono::milliseconds{100};
    if (!more_than_half_full()) return false;
    if (waiting_since_ == kNever) waiting_since_ = now;
    return now - waiting_since_ < kPatience;
  }

 private:
  void list_usable() noexcept {
    usable_count_ = 0;
    usable_v4_count_ = 0;
    ++*changes_;
    for (const InterfaceAddress& own : addresses()) {
      if (own.state != AddressState::usable) continue;
      usable_[usable_count_++] = own.prefix;
      if (own.prefix.address.is_v4()) {
        usable_v4_[usable_v4_count_++] = {.address = v4_value(own.prefix.address),
                                          .broadcast = own.prefix.broadcast()};
      }
    }
  }

  std::array<InterfaceAddress, kMostAddresses> addresses_;
  std::array<IpPrefix, kMostAddresses> usable_;
  std::array<OwnV4, kMostAddresses> usable_v4_;
  std::size_t count_ = 0;
  std::size_t usable_count_ = 0;
  std::size_t usable_v4_count_ = 0;
  std::uint32_t own_changes_ = 0;
  std::uint32_t* changes_ = &own_changes_;
  PacketQueue tx_;
  Instant waiting_since_ = kNever;  ///< When somebody was first asked to wait, this time.
};

}  // namespace pinion

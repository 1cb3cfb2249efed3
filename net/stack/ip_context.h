#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/assert.h>
#include <pinion/lib/random.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "interface.h"
#include "ip_counters.h"
#include "ip_layer.h"
#include "secret_numbers.h"

/// What the parts of an IP stack have in common.
///
/// Ownership:  the stack's; its wheel and its pool outlive it.
/// Threading:  one lcore.
/// Cost:       none.
/// Errors:     none.

namespace pinion {

/// Whether a pool runs dry: the last packets are for those on their way and for answers, and what
/// only waits gives way.
[[nodiscard]] inline bool is_low(const PacketPool& pool) noexcept {
  return pool.available() < pool.capacity() / 16;
}

struct IpContext {
  static constexpr std::size_t kMostInterfaces = 16;
  /// Where packets to ourselves arrive.
  static constexpr std::uint8_t kLoopback = 0xff;

  IpContext(TimingWheel& its_wheel, PacketPool& its_pool, std::uint64_t seed) noexcept
      : wheel(its_wheel), pool(its_pool), secrets(seed), random(secrets.next()) {
    for (Interface& interface : interfaces) interface.count_changes_in(changes);
  }
  IpContext(const IpContext&) = delete;
  IpContext& operator=(const IpContext&) = delete;
  ~IpContext() = default;

  /// The interface that has a usable address; nullptr when it isn't ours.
  [[nodiscard]] Interface* owner_of(const IpAddress& address) noexcept {
    for (std::size_t i = 0; i < interface_count; ++i) {
      if (interfaces[i].has(address)) return &interfaces[i];
    }
    return nullptr;
  }
  [[nodiscard]] const Interface* owner_of(const IpAddress& address) const noexcept {
    return const_cast<IpContext*>(this)->owner_of(address);
  }

  /// Whether packets to `address` come back to us.
  [[nodiscard]] bool is_local(const IpAddress& address) const noexcept {
    return is_loopback(address) || owner_of(address) != nullptr;
  }

  /// Whether `address` means all hosts of a link of ours.
  [[nodiscard]] bool is_broadcast(const IpAddress& address) const noexcept {
    for (std::size_t i = 0; i < interface_count; ++i) {
      if (interfaces[i].is_broadcast(address)) return true;
    }
    return is_limited_broadcast(address);
  }

  /// Whether an IPv4 packet from `source`, which came in by `interface`, is from some host's
  /// address, as nearly all are. Otherwise it wants a closer look.
  [[nodiscard]] bool is_host(std::uint8_t interface, std::uint32_t source) const noexcept {
    const std::uint32_t first = source >> 24;
    if (first - 1 >= 223 || first == 127) return false;
    for (std::size_t i = 0; i < interface_count; ++i) {
      for (const OwnV4& own : interfaces[i].usable_v4()) {
        if (own.address == source || (own.broadcast == source && i == interface)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] IpTransport* transport(std::uint8_t protocol) const noexcept {
    return transports[protocol];
  }

  TimingWheel& wheel;
  PacketPool& pool;
  IpCounters counters;
  SecretNumbers secrets;  ///< For keys and seeds.
  Random random;          ///< For waits.
  std::array<Interface, kMostInterfaces> interfaces;
  std::size_t interface_count = 0;
  std::uint32_t changes = 0;  ///< Of interfaces' addresses and of routes.
  std::array<IpTransport*, 256> transports{};
};

}  // namespace pinion

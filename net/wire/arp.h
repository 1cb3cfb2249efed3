#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/net/device.h>

#include "ip_address.h"
#include "wire_fault.h"

/// ARP for IPv4 over Ethernet (RFC 826).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few loads and compares.
/// Errors:     a WireFault. What the addresses may be is the neighbour cache's to judge.

namespace pinion::wire {

enum class ArpOperation : std::uint16_t { request = 1, reply = 2 };

struct ArpMessage {
  static constexpr std::size_t kSize = 28;

  ArpOperation operation = ArpOperation::request;
  MacAddress sender_mac{};
  Ipv4Address sender{};
  MacAddress target_mac{};
  Ipv4Address target{};

  friend bool operator==(const ArpMessage&, const ArpMessage&) noexcept = default;
};

/// The message at the front of `payload`; what follows it is the frame's padding.
[[nodiscard]] Parsed<ArpMessage> parse_arp(std::span<const std::byte> payload) noexcept;

/// Writes the message to the front of `into`, which has room for it; returns its size.
std::size_t emit_arp(const ArpMessage& message, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

#include "arp.h"

#include <pinion/lib/assert.h>

#include "byte_order.h"
#include "ethernet.h"

namespace pinion::wire {
namespace {

constexpr std::uint16_t kHardwareEthernet = 1;
constexpr std::uint16_t kProtocolIpv4 = static_cast<std::uint16_t>(EtherType::ipv4);

}  // namespace

Parsed<ArpMessage> parse_arp(std::span<const std::byte> payload) noexcept {
  if (payload.size() < ArpMessage::kSize) return tl::unexpected(WireFault::arp_truncated);
  const std::byte* const at = payload.data();
  if (load_be16(at) != kHardwareEthernet || load_u8(at + 4) != sizeof(MacAddress)) {
    return tl::unexpected(WireFault::arp_hardware);
  }
  if (load_be16(at + 2) != kProtocolIpv4 || load_u8(at + 5) != sizeof(Ipv4Address)) {
    return tl::unexpected(WireFault::arp_protocol);
  }
  const auto operation = static_cast<ArpOperation>(load_be16(at + 6));
  if (operation != ArpOperation::request && operation != ArpOperation::reply) {
    return tl::unexpected(WireFault::arp_operation);
  }
  return ArpMessage{
      .operation = operation,
      .sender_mac = load_bytes<6>(at + 8),
      .sender = load_bytes<4>(at + 14),
      .target_mac = load_bytes<6>(at + 18),
      .target = load_bytes<4>(at + 24),
  };
}

std::size_t emit_arp(const ArpMessage& message, std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= ArpMessage::kSize);
  std::byte* const at = into.data();
  store_be16(at, kHardwareEthernet);
  store_be16(at + 2, kProtocolIpv4);
  store_u8(at + 4, sizeof(MacAddress));
  store_u8(at + 5, sizeof(Ipv4Address));
  store_be16(at + 6, static_cast<std::uint16_t>(message.operation));
  store_bytes(at + 8, message.sender_mac);
  store_bytes(at + 14, message.sender);
  store_bytes(at + 18, message.target_mac);
  store_bytes(at + 24, message.target);
  return ArpMessage::kSize;
}

}  // namespace pinion::wire

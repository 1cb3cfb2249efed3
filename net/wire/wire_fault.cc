#include "wire_fault.h"

#include <array>

namespace pinion::wire {
namespace {

struct Name {
  WireFault fault;
  std::string_view text;
};

#define PINION_WIRE_FAULT(name) \
  Name {                        \
    WireFault::name, #name      \
  }

constexpr auto kNames = std::to_array<Name>({
    PINION_WIRE_FAULT(ethernet_truncated),
    PINION_WIRE_FAULT(ethernet_type),
    PINION_WIRE_FAULT(ethernet_vlan_depth),
    PINION_WIRE_FAULT(arp_truncated),
    PINION_WIRE_FAULT(arp_hardware),
    PINION_WIRE_FAULT(arp_protocol),
    PINION_WIRE_FAULT(arp_operation),
    PINION_WIRE_FAULT(ipv4_truncated),
    PINION_WIRE_FAULT(ipv4_version),
    PINION_WIRE_FAULT(ipv4_header_length),
    PINION_WIRE_FAULT(ipv4_total_length),
    PINION_WIRE_FAULT(ipv4_checksum),
    PINION_WIRE_FAULT(ipv4_option_length),
    PINION_WIRE_FAULT(ipv4_option_overrun),
    PINION_WIRE_FAULT(ipv4_option_pointer),
    PINION_WIRE_FAULT(ipv4_fragment_size),
    PINION_WIRE_FAULT(ipv4_fragment_overrun),
    PINION_WIRE_FAULT(ipv6_truncated),
    PINION_WIRE_FAULT(ipv6_version),
    PINION_WIRE_FAULT(ipv6_payload_length),
    PINION_WIRE_FAULT(ipv6_extension_truncated),
    PINION_WIRE_FAULT(ipv6_extension_order),
    PINION_WIRE_FAULT(ipv6_extension_count),
    PINION_WIRE_FAULT(ipv6_option_overrun),
    PINION_WIRE_FAULT(ipv6_option_count),
    PINION_WIRE_FAULT(ipv6_option_unknown),
    PINION_WIRE_FAULT(ipv6_routing),
    PINION_WIRE_FAULT(ipv6_fragment_size),
    PINION_WIRE_FAULT(ipv6_fragment_overrun),
    PINION_WIRE_FAULT(icmp_truncated),
    PINION_WIRE_FAULT(icmp_checksum),
    PINION_WIRE_FAULT(icmp_quote),
    PINION_WIRE_FAULT(ndp_truncated),
    PINION_WIRE_FAULT(ndp_hop_limit),
    PINION_WIRE_FAULT(ndp_code),
    PINION_WIRE_FAULT(ndp_source),
    PINION_WIRE_FAULT(ndp_destination),
    PINION_WIRE_FAULT(ndp_target),
    PINION_WIRE_FAULT(ndp_solicited),
    PINION_WIRE_FAULT(ndp_source_option),
    PINION_WIRE_FAULT(ndp_option_length),
    PINION_WIRE_FAULT(ndp_option_overrun),
    PINION_WIRE_FAULT(udp_truncated),
    PINION_WIRE_FAULT(udp_length),
    PINION_WIRE_FAULT(udp_checksum),
    PINION_WIRE_FAULT(udp_checksum_partial),
    PINION_WIRE_FAULT(tcp_truncated),
    PINION_WIRE_FAULT(tcp_header_length),
    PINION_WIRE_FAULT(tcp_checksum),
    PINION_WIRE_FAULT(tcp_checksum_partial),
    PINION_WIRE_FAULT(tcp_option_length),
    PINION_WIRE_FAULT(tcp_option_overrun),
    PINION_WIRE_FAULT(tcp_flags),
    PINION_WIRE_FAULT(tcp_port),
});

#undef PINION_WIRE_FAULT

constexpr bool in_order() noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (wire_fault_index(kNames[i].fault) != i) return false;
  }
  return true;
}

static_assert(kNames.size() == kWireFaults);
static_assert(in_order());

}  // namespace

std::string_view to_string(WireFault fault) noexcept {
  const std::size_t index = wire_fault_index(fault);
  return index < kNames.size() ? kNames[index].text : "unknown";
}

}  // namespace pinion::wire

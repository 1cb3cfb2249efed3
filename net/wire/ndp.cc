#include "ndp.h"

#include <pinion/lib/assert.h>

#include "byte_order.h"

namespace pinion::wire {
namespace {

constexpr std::uint32_t kRouterFlag = 1U << 31;
constexpr std::uint32_t kSolicitedFlag = 1U << 30;
constexpr std::uint32_t kOverrideFlag = 1U << 29;

constexpr std::size_t kTargetOffset = IcmpMessage::kHeaderSize;
constexpr std::size_t kNeighborSize = kTargetOffset + sizeof(Ipv6Address);
constexpr std::size_t kAdvertisedRouterSize = 16;

constexpr std::size_t kUnit = 8;  ///< Of the options' lengths.
constexpr std::size_t kMacOptionSize = 8;

enum class OptionType : std::uint8_t { source_mac = 1, target_mac = 2 };

bool is_neighbor(IcmpV6Type type) noexcept {
  return type == IcmpV6Type::neighbor_solicitation || type == IcmpV6Type::neighbor_advertisement;
}

/// The link-layer address that a message of this type is read for.
OptionType option_of(IcmpV6Type type) noexcept {
  return type == IcmpV6Type::neighbor_advertisement ? OptionType::target_mac
                                                    : OptionType::source_mac;
}

/// Bytes in front of the options.
std::size_t fixed_size(IcmpV6Type type) noexcept {
  if (is_neighbor(type)) return kNeighborSize;
  return type == IcmpV6Type::router_advertisement ? kAdvertisedRouterSize
                                                  : IcmpMessage::kHeaderSize;
}

/// Walks the options; of several link-layer addresses the first counts.
std::optional<WireFault> read_options(std::span<const std::byte> options,
                                      NdpMessage& message) noexcept {
  while (!options.empty()) {
    if (options.size() < 2) return WireFault::ndp_option_overrun;
    const std::size_t size = load_u8(&options[1]) * kUnit;
    if (size == 0) return WireFault::ndp_option_length;
    if (size > options.size()) return WireFault::ndp_option_overrun;
    if (static_cast<OptionType>(options[0]) == option_of(message.type)) {
      if (size != kMacOptionSize) return WireFault::ndp_option_length;
      if (!message.mac) message.mac = load_bytes<6>(&options[2]);
    }
    options = options.subspan(size);
  }
  return std::nullopt;
}

/// What the message and its envelope must not say together.
std::optional<WireFault> envelope_fault(const NdpMessage& message,
                                        const NdpEnvelope& envelope) noexcept {
  switch (message.type) {
    case IcmpV6Type::router_advertisement:
      if (!is_link_local(envelope.source)) return WireFault::ndp_source;
      return std::nullopt;
    case IcmpV6Type::neighbor_advertisement:
      if (message.solicited && is_multicast(envelope.destination)) return WireFault::ndp_solicited;
      return std::nullopt;
    default:
      break;
  }
  if (!is_unspecified(envelope.source)) return std::nullopt;
  if (message.mac) return WireFault::ndp_source_option;
  const bool neighbor = message.type == IcmpV6Type::neighbor_solicitation;
  if (neighbor && !is_solicited_node(envelope.destination)) return WireFault::ndp_destination;
  return std::nullopt;
}

}  // namespace

Parsed<NdpMessage> parse_ndp(const IcmpMessage& header, std::span<const std::byte> bytes,
                             const NdpEnvelope& envelope) noexcept {
  PINION_ASSERT(is_ndp(header));
  if (envelope.hop_limit != kNdpHopLimit) return tl::unexpected(WireFault::ndp_hop_limit);
  if (header.code != 0) return tl::unexpected(WireFault::ndp_code);
  NdpMessage message;
  message.type = static_cast<IcmpV6Type>(header.type);
  const std::size_t fixed = fixed_size(message.type);
  if (bytes.size() < fixed) return tl::unexpected(WireFault::ndp_truncated);
  if (is_neighbor(message.type)) {
    message.target = load_bytes<16>(&bytes[kTargetOffset]);
    if (is_multicast(message.target) || is_unspecified(message.target)) {
      return tl::unexpected(WireFault::ndp_target);
    }
  }
  if (message.type == IcmpV6Type::neighbor_advertisement) {
    message.router = (header.detail & kRouterFlag) != 0;
    message.solicited = (header.detail & kSolicitedFlag) != 0;
    message.overrides = (header.detail & kOverrideFlag) != 0;
  }
  if (const auto fault = read_options(bytes.subspan(fixed), message)) {
    return tl::unexpected(*fault);
  }
  if (const auto fault = envelope_fault(message, envelope)) return tl::unexpected(*fault);
  return message;
}

std::size_t emit_ndp(const NdpMessage& message, std::span<std::byte> into) noexcept {
  const std::size_t size = kNeighborSize + (message.mac ? kMacOptionSize : 0);
  PINION_ASSERT(is_neighbor(message.type));
  PINION_ASSERT(into.size() >= size);
  std::uint32_t flags = 0;
  if (message.type == IcmpV6Type::neighbor_advertisement) {
    if (message.router) flags |= kRouterFlag;
    if (message.solicited) flags |= kSolicitedFlag;
    if (message.overrides) flags |= kOverrideFlag;
  }
  emit_icmp({.type = static_cast<std::uint8_t>(message.type), .detail = flags}, into);
  store_bytes(&into[kTargetOffset], message.target);
  if (message.mac) {
    store_u8(&into[kNeighborSize], static_cast<std::uint8_t>(option_of(message.type)));
    store_u8(&into[kNeighborSize + 1], kMacOptionSize / kUnit);
    store_bytes(&into[kNeighborSize + 2], *message.mac);
  }
  return size;
}

}  // namespace pinion::wire

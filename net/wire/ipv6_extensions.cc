#include "ipv6_extensions.h"

#include <algorithm>

#include <pinion/lib/assert.h>

namespace pinion::wire {
namespace {

constexpr std::size_t kLargestPayload = 65535;
constexpr std::size_t kUnit = 8;  ///< Extension headers are multiples of it.
constexpr std::uint16_t kPayloadLengthOffset = 4;

constexpr std::uint8_t kPad1 = 0;
constexpr std::uint8_t kPadN = 1;
constexpr std::uint8_t kRouterAlert = 5;
constexpr std::size_t kRouterAlertOptionSize = 4;

using Refusal = std::optional<Ipv6Refusal>;

/// What an unknown option wants, in its type's two highest bits (RFC 8200, 4.2).
Ipv6Answer answer_to_unknown(std::uint8_t type) noexcept {
  switch (type >> 6) {
    case 2:
      return Ipv6Answer::unknown_option;
    case 3:
      return Ipv6Answer::unknown_option_unless_multicast;
    default:
      return Ipv6Answer::none;
  }
}

class Walk {
 public:
  Walk(const Ipv6Header& header, std::span<const std::byte> payload, Ipv6WalkFrom from) noexcept
      : payload_size_(header.payload_size),
        payload_(payload.first(std::min(payload.size(), payload_size_))),
        whole_(from == Ipv6WalkFrom::reassembled),
        hop_by_hop_allowed_(from == Ipv6WalkFrom::packet) {
    found_.protocol = header.next_header;
  }

  Ipv6Walk run() noexcept {
    for (std::size_t count = 0; is_ipv6_extension(found_.protocol); ++count) {
      if (count == kMaxIpv6Extensions) return refused(WireFault::ipv6_extension_count);
      if (const Refusal refusal = step()) return tl::unexpected(*refusal);
      if (found_.fragment) break;
    }
    return found_;
  }

 private:
  static tl::unexpected<Ipv6Refusal> refused(WireFault fault) noexcept {
    return tl::unexpected(Ipv6Refusal{.fault = fault});
  }

  /// Where byte `at` of the header at hand stands, counted from the IPv6 header's first.
  [[nodiscard]] std::uint16_t place(std::size_t at) const noexcept {
    return static_cast<std::uint16_t>(Ipv6Header::kSize + found_.size + at);
  }

  /// Walks one header.
  Refusal step() noexcept {
    const auto type = static_cast<Ipv6NextHeader>(found_.protocol);
    const bool hop_by_hop = type == Ipv6NextHeader::hop_by_hop;
    if (hop_by_hop && !hop_by_hop_allowed_) {
      return Ipv6Refusal{.fault = WireFault::ipv6_extension_order,
                         .answer = Ipv6Answer::unknown_header,
                         .pointer = found_.protocol_offset};
    }
    hop_by_hop_allowed_ = false;
    const std::span<const std::byte> rest = payload_.subspan(found_.size);
    if (rest.size() < kUnit) return Ipv6Refusal{.fault = WireFault::ipv6_extension_truncated};
    if (type == Ipv6NextHeader::fragment) return fragment(rest.first<kUnit>());
    const std::size_t size = (load_u8(&rest[1]) + std::size_t{1}) * kUnit;
    if (rest.size() < size) return Ipv6Refusal{.fault = WireFault::ipv6_extension_truncated};
    const std::span<const std::byte> header = rest.first(size);
    const Refusal refusal =
        type == Ipv6NextHeader::routing ? routing(header) : options(header, hop_by_hop);
    if (!refusal) pass(header);
    return refusal;
  }

  void pass(std::span<const std::byte> header) noexcept {
    found_.protocol = load_u8(header.data());
    found_.protocol_offset = place(0);
    found_.size = static_cast<std::uint16_t>(found_.size + header.size());
  }

  /// No routing type is known here; type 0 must not be (RFC 5095).
  [[nodiscard]] Refusal routing(std::span<const std::byte> header) const noexcept {
    const std::uint8_t segments_left = load_u8(&header[3]);
    if (segments_left == 0) return std::nullopt;
    return Ipv6Refusal{
        .fault = WireFault::ipv6_routing, .answer = Ipv6Answer::bad_field, .pointer = place(2)};
  }

  Refusal options(std::span<const std::byte> header, bool hop_by_hop) noexcept {
    std::size_t padding = 0;
    std::size_t count = 0;
    for (std::size_t at = 2; at < header.size();) {
      const std::span<const std::byte> rest = header.subspan(at);
      const std::uint8_t type = load_u8(rest.data());
      if (type != kPad1 && rest.size() < 2) return overrun();
      const std::size_t size = type == kPad1 ? 1 : std::size_t{2} + load_u8(&rest[1]);
      if (size > rest.size()) return overrun();
      if (type == kPad1 || type == kPadN) {
        padding += size;
      } else {
        padding = 0;
        ++count;
        if (type >> 6 != 0) {
          return Ipv6Refusal{.fault = WireFault::ipv6_option_unknown,
                             .answer = answer_to_unknown(type),
                             .pointer = place(at)};
        }
        const bool alert = type == kRouterAlert && size == kRouterAlertOptionSize;
        if (alert && hop_by_hop) found_.router_alert = true;
      }
      if (padding > kMaxIpv6Padding || count > kMaxIpv6Options) {
        return Ipv6Refusal{.fault = WireFault::ipv6_option_count};
      }
      at += size;
    }
    return std::nullopt;
  }

  static Refusal overrun() noexcept { return Ipv6Refusal{.fault = WireFault::ipv6_option_overrun}; }

  Refusal fragment(std::span<const std::byte, kUnit> header) noexcept {
    if (whole_) return Ipv6Refusal{.fault = WireFault::ipv6_extension_order};
    whole_ = true;
    found_.fragmented = true;
    const std::uint16_t field = load_be16(&header[2]);
    const Ipv6Fragment fragment{
        .identification = load_be32(&header[4]),
        .offset = static_cast<std::uint16_t>(field & 0xfff8U),
        .more = (field & 1U) != 0,
    };
    if (fragment.offset == 0 && !fragment.more) {
      pass(header);
      return std::nullopt;
    }
    const std::size_t carried = payload_size_ - found_.size - kUnit;
    if (carried == 0) return Ipv6Refusal{.fault = WireFault::ipv6_fragment_size};
    if (fragment.more && carried % kUnit != 0) {
      return Ipv6Refusal{.fault = WireFault::ipv6_fragment_size,
                         .answer = Ipv6Answer::bad_field,
                         .pointer = kPayloadLengthOffset};
    }
    if (found_.size + fragment.offset + carried > kLargestPayload) {
      return Ipv6Refusal{.fault = WireFault::ipv6_fragment_overrun,
                         .answer = Ipv6Answer::bad_field,
                         .pointer = place(2)};
    }
    found_.fragment = fragment;
    found_.protocol = load_u8(header.data());
    found_.size = static_cast<std::uint16_t>(found_.size + kUnit);
    return std::nullopt;
  }

  const std::size_t payload_size_;
  const std::span<const std::byte> payload_;
  bool whole_;  ///< Another fragment header would be one within a fragment.
  bool hop_by_hop_allowed_;
  Ipv6Extensions found_;
};

}  // namespace

Ipv6Walk detail::walk_ipv6_headers(const Ipv6Header& header, std::span<const std::byte> payload,
                                   Ipv6WalkFrom from) noexcept {
  return Walk(header, payload, from).run();
}

std::size_t emit_ipv6_fragment(const Ipv6Fragment& fragment, std::uint8_t protocol,
                               std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= Ipv6Fragment::kSize);
  PINION_DCHECK(fragment.offset % kUnit == 0);
  std::byte* const at = into.data();
  store_u8(at, protocol);
  store_u8(at + 1, 0);
  store_be16(at + 2, static_cast<std::uint16_t>(fragment.offset | (fragment.more ? 1U : 0U)));
  store_be32(at + 4, fragment.identification);
  return Ipv6Fragment::kSize;
}

std::size_t emit_ipv6_router_alert(std::uint8_t protocol, std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= kIpv6RouterAlertSize);
  constexpr std::uint16_t kAlertForMld = 0;
  std::byte* const at = into.data();
  store_u8(at, protocol);
  store_u8(at + 1, 0);
  store_u8(at + 2, kRouterAlert);
  store_u8(at + 3, kRouterAlertOptionSize - 2);
  store_be16(at + 4, kAlertForMld);
  store_u8(at + 6, kPadN);
  store_u8(at + 7, 0);
  return kIpv6RouterAlertSize;
}

}  // namespace pinion::wire

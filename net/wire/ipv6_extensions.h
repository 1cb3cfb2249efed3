#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <tl/expected.hpp>

#include "ipv6.h"
#include "wire_fault.h"

/// IPv6 extension headers (RFC 8200, 4): hop-by-hop options, destination options, routing,
/// fragment.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few compares when there are none. At most kMaxIpv6Extensions headers are walked,
///             with at most kMaxIpv6Options options each and no more padding than alignment may
///             need (RFC 8504, 5.3): what a packet can cost doesn't depend on its sender.
/// Errors:     an Ipv6Refusal, which also says what to answer.

namespace pinion::wire {

enum class Ipv6NextHeader : std::uint8_t {
  hop_by_hop = 0,
  routing = 43,
  fragment = 44,
  none = 59,
  destination_options = 60,
};

inline constexpr std::size_t kMaxIpv6Extensions = 8;
inline constexpr std::size_t kMaxIpv6Options = 8;
/// In one go: as many as align what follows to 8.
inline constexpr std::size_t kMaxIpv6Padding = 7;

struct Ipv6Fragment {
  static constexpr std::size_t kSize = 8;

  std::uint32_t identification = 0;
  std::uint16_t offset = 0;  ///< In bytes, a multiple of 8.
  bool more = false;

  friend bool operator==(const Ipv6Fragment&, const Ipv6Fragment&) noexcept = default;
};

/// What the headers between the IPv6 header and its payload say.
struct Ipv6Extensions {
  std::uint8_t protocol = 0;  ///< Of what follows the headers.
  /// Where the byte stands that names what follows, counted from the IPv6 header's first: a
  /// complaint of an unknown protocol points there. Of a fragment, where its fragment header was
  /// named, and reassembly is to name the protocol.
  std::uint16_t protocol_offset = 6;
  std::uint16_t size = 0;  ///< Bytes of the headers that were walked.
  /// The hop-by-hop options ask each router to look; without it MLD is not believed (RFC 3810, 5).
  bool router_alert = false;
  /// There is a fragment header, of a fragment or of one that is the whole: neighbor discovery
  /// behind it is not believed (RFC 6980, 5).
  bool fragmented = false;
  /// Set when the packet is one fragment of several: the walk ends behind its header, and what
  /// follows is a part of the datagram. A datagram that was put together is walked on from there. A
  /// fragment that is the whole is passed over (RFC 6946).
  std::optional<Ipv6Fragment> fragment = std::nullopt;

  friend bool operator==(const Ipv6Extensions&, const Ipv6Extensions&) noexcept = default;
};

/// The ICMPv6 Parameter Problem that RFC 8200 wants for a packet that is dropped.
enum class Ipv6Answer : std::uint8_t {
  none,
  bad_field,       ///< Code 0.
  unknown_header,  ///< Code 1.
  unknown_option,  ///< Code 2, to a multicast packet too.
  /// Code 2, but none to a multicast packet.
  unknown_option_unless_multicast,
};

struct Ipv6Refusal {
  WireFault fault = WireFault::ipv6_extension_truncated;
  Ipv6Answer answer = Ipv6Answer::none;
  std::uint16_t pointer = 0;  ///< Of the answer: counted from the IPv6 header's first byte.

  friend bool operator==(const Ipv6Refusal&, const Ipv6Refusal&) noexcept = default;
};

/// Where a walk begins: behind the IPv6 header of a packet as it arrived, or at what was put
/// together of fragments, where neither hop-by-hop options nor another fragment may stand.
enum class Ipv6WalkFrom : std::uint8_t { packet, reassembled };

using Ipv6Walk = tl::expected<Ipv6Extensions, Ipv6Refusal>;

[[nodiscard]] constexpr bool is_ipv6_extension(std::uint8_t next_header) noexcept {
  const auto next = static_cast<Ipv6NextHeader>(next_header);
  return next == Ipv6NextHeader::hop_by_hop || next == Ipv6NextHeader::routing ||
         next == Ipv6NextHeader::fragment || next == Ipv6NextHeader::destination_options;
}

namespace detail {

[[nodiscard]] Ipv6Walk walk_ipv6_headers(const Ipv6Header& header,
                                         std::span<const std::byte> payload,
                                         Ipv6WalkFrom from) noexcept;

}  // namespace detail

/// Walks the extension headers at the front of `payload`, the bytes behind `header`, of which the
/// first segment is enough if it holds the extension headers.
[[nodiscard]] inline Ipv6Walk walk_ipv6_extensions(
    const Ipv6Header& header, std::span<const std::byte> payload,
    Ipv6WalkFrom from = Ipv6WalkFrom::packet) noexcept {
  if (!is_ipv6_extension(header.next_header)) [[likely]] {
    return Ipv6Extensions{.protocol = header.next_header};
  }
  return detail::walk_ipv6_headers(header, payload, from);
}

/// Writes a fragment header, in front of a payload of `protocol`; returns its size.
std::size_t emit_ipv6_fragment(const Ipv6Fragment& fragment, std::uint8_t protocol,
                               std::span<std::byte> into) noexcept;

/// Bytes of hop-by-hop options with a router alert and nothing else.
inline constexpr std::size_t kIpv6RouterAlertSize = 8;

/// Writes hop-by-hop options that alert routers to an MLD message (RFC 2711), in front of a payload
/// of `protocol`; returns their size.
std::size_t emit_ipv6_router_alert(std::uint8_t protocol, std::span<std::byte> into) noexcept;

}  // namespace pinion::wire

#include "ipv4.h"

#include <algorithm>
#include <optional>

#include <pinion/lib/assert.h>

namespace pinion::wire {
namespace {

constexpr std::size_t kLargestDatagram = 65535;

enum class OptionType : std::uint8_t {
  end = 0,
  no_operation = 1,
  record_route = 7,
  timestamp = 68,
  loose_source_route = 131,
  strict_source_route = 137,
};

OptionType type_of(std::span<const std::byte> option) noexcept {
  return static_cast<OptionType>(option[0]);
}

/// An option that holds slots of four bytes behind `fixed` others. Its third byte points to the
/// next free slot, counted from 1, or behind the option when none is free.
std::optional<WireFault> slots_fault(std::span<const std::byte> option,
                                     std::size_t fixed) noexcept {
  if (option.size() < fixed) return WireFault::ipv4_option_length;
  const std::size_t pointer = load_u8(&option[2]);
  const bool at_slot = pointer > option.size() || pointer + 3 <= option.size();
  if (pointer <= fixed || !at_slot) return WireFault::ipv4_option_pointer;
  return std::nullopt;
}

std::optional<WireFault> option_fault(std::span<const std::byte> option) noexcept {
  switch (type_of(option)) {
    case OptionType::record_route:
    case OptionType::loose_source_route:
    case OptionType::strict_source_route:
      return slots_fault(option, 3);
    case OptionType::timestamp:
      return slots_fault(option, 4);
    default:
      return std::nullopt;
  }
}

/// Goes over options whose lengths are unknown: what each says of itself must fit (RFC 1122,
/// 3.2.1.8). Unknown ones are passed over. What is behind the end-of-list option is padding.
std::optional<WireFault> options_fault(std::span<const std::byte> options) noexcept {
  while (!options.empty() && type_of(options) != OptionType::end) {
    std::size_t size = 1;
    if (type_of(options) != OptionType::no_operation) {
      if (options.size() < 2) return WireFault::ipv4_option_overrun;
      size = load_u8(&options[1]);
      if (size < 2) return WireFault::ipv4_option_length;
      if (size > options.size()) return WireFault::ipv4_option_overrun;
      if (const auto fault = option_fault(options.first(size))) return fault;
    }
    options = options.subspan(size);
  }
  return std::nullopt;
}

/// RFC 791, 3.2: all fragments but the last carry a multiple of 8 bytes.
std::optional<WireFault> fragment_fault(const Ipv4Header& header) noexcept {
  if (!header.is_fragment()) return std::nullopt;
  if (header.payload_size == 0 || (header.more_fragments && header.payload_size % 8 != 0)) {
    return WireFault::ipv4_fragment_size;
  }
  if (header.size() + header.fragment_offset + header.payload_size > kLargestDatagram) {
    return WireFault::ipv4_fragment_overrun;
  }
  return std::nullopt;
}

}  // namespace

bool operator==(const Ipv4Header& a, const Ipv4Header& b) noexcept {
  return a.source == b.source && a.destination == b.destination &&
         a.payload_size == b.payload_size && a.identification == b.identification &&
         a.fragment_offset == b.fragment_offset && a.more_fragments == b.more_fragments &&
         a.dont_fragment == b.dont_fragment && a.traffic_class == b.traffic_class &&
         a.hop_limit == b.hop_limit && a.protocol == b.protocol &&
         std::ranges::equal(a.options, b.options);
}

bool Ipv4Header::has_source_route() const noexcept {
  PINION_DCHECK(!options_fault(options));
  std::span<const std::byte> rest = options;
  while (!rest.empty() && type_of(rest) != OptionType::end) {
    const OptionType type = type_of(rest);
    if (type == OptionType::loose_source_route) return true;
    if (type == OptionType::strict_source_route) return true;
    rest = rest.subspan(type == OptionType::no_operation ? 1 : load_u8(&rest[1]));
  }
  return false;
}

Parsed<Ipv4Header> detail::parse_any_ipv4(std::span<const std::byte> bytes,
                                          std::size_t arrived) noexcept {
  PINION_DCHECK(bytes.size() <= arrived);
  if (bytes.size() < Ipv4Header::kMinSize) return tl::unexpected(WireFault::ipv4_truncated);
  const std::uint8_t first = load_u8(bytes.data());
  if (first >> 4 != 4) return tl::unexpected(WireFault::ipv4_version);
  const std::size_t header_size = std::size_t{first & 0xfU} * 4;
  if (header_size < Ipv4Header::kMinSize || header_size > arrived) {
    return tl::unexpected(WireFault::ipv4_header_length);
  }
  if (header_size > bytes.size()) return tl::unexpected(WireFault::ipv4_truncated);
  const std::size_t total = load_be16(bytes.data() + 2);
  if (total < header_size || total > arrived) {
    return tl::unexpected(WireFault::ipv4_total_length);
  }
  Ipv4Header header = ipv4_fields(bytes.data(), header_size);
  header.options = bytes.subspan(Ipv4Header::kMinSize, header_size - Ipv4Header::kMinSize);
  if (const auto fault = options_fault(header.options)) return tl::unexpected(*fault);
  if (const auto fault = fragment_fault(header)) return tl::unexpected(*fault);
  return header;
}

std::size_t emit_ipv4(const Ipv4Header& header, std::span<std::byte> into) noexcept {
  const std::size_t size = header.size();
  PINION_ASSERT(header.options.size() <= Ipv4Header::kMaxOptionsSize);
  PINION_ASSERT(size + header.payload_size <= kLargestDatagram);
  PINION_ASSERT(into.size() >= size);
  PINION_DCHECK(header.fragment_offset % 8 == 0);
  PINION_DCHECK(!options_fault(header.options));
  PINION_DCHECK(!fragment_fault(header));
  std::byte* const at = into.data();
  unsigned fragment = header.fragment_offset >> 3;
  if (header.more_fragments) fragment |= detail::kIpv4MoreFragments;
  if (header.dont_fragment) fragment |= detail::kIpv4DontFragment;
  store_u8(at, static_cast<std::uint8_t>(0x40 | size / 4));
  store_u8(at + 1, header.traffic_class);
  store_be16(at + 2, static_cast<std::uint16_t>(size + header.payload_size));
  store_be16(at + 4, header.identification);
  store_be16(at + 6, static_cast<std::uint16_t>(fragment));
  store_u8(at + 8, header.hop_limit);
  store_u8(at + 9, header.protocol);
  store_be16(at + Ipv4Header::kChecksumOffset, 0);
  store_bytes(at + 12, header.source);
  store_bytes(at + 16, header.destination);
  const std::span<std::byte> room = into.subspan(Ipv4Header::kMinSize, size - Ipv4Header::kMinSize);
  const auto padding = std::ranges::copy(header.options, room.begin()).out;
  std::fill(padding, room.end(), std::byte{0});
  store_be16(at + Ipv4Header::kChecksumOffset, checksum_of(into.first(size)));
  return size;
}

}  // namespace pinion::wire

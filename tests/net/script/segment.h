#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pinion/net/address.h>
#include <tl/expected.hpp>

/// TCP segments and the IP packets around them, read and written the slow and obvious way. It uses
/// nothing of net/wire, so that neither can hide the other's mistakes.

namespace pinion::test {

using PacketBytes = std::vector<std::byte>;

inline constexpr std::uint8_t kFin = 0x01;
inline constexpr std::uint8_t kSyn = 0x02;
inline constexpr std::uint8_t kRst = 0x04;
inline constexpr std::uint8_t kPsh = 0x08;
inline constexpr std::uint8_t kAck = 0x10;
inline constexpr std::uint8_t kUrg = 0x20;
inline constexpr std::uint8_t kEce = 0x40;
inline constexpr std::uint8_t kCwr = 0x80;

inline constexpr std::uint8_t kOptionEnd = 0;
inline constexpr std::uint8_t kOptionNop = 1;
inline constexpr std::uint8_t kOptionMss = 2;
inline constexpr std::uint8_t kOptionWindowScale = 3;
inline constexpr std::uint8_t kOptionSackPermitted = 4;
inline constexpr std::uint8_t kOptionSack = 5;
inline constexpr std::uint8_t kOptionTimestamps = 8;

/// One option, whatever its kind; `data` is what is behind the length byte.
struct SegmentOption {
  std::uint8_t kind = 0;
  PacketBytes data;

  /// The 32-bit number at `at` in the data.
  [[nodiscard]] std::uint32_t word(std::size_t at) const;

  friend bool operator==(const SegmentOption&, const SegmentOption&) = default;
};

struct Segment {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgment = 0;
  std::uint8_t flags = 0;
  std::uint16_t window = 0;
  std::uint16_t urgent_pointer = 0;
  std::vector<SegmentOption> options;  ///< In order, without NOPs and EOL.
  PacketBytes payload;

  [[nodiscard]] bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  /// The last option of `kind`; nullptr when there is none.
  [[nodiscard]] const SegmentOption* option(std::uint8_t kind) const;
};

/// What is to be wrong with a segment that is built.
struct SegmentDamage {
  PacketBytes raw_options{};  ///< Behind the others, ahead of the padding.
  std::optional<std::uint8_t> data_offset{};
  std::optional<std::size_t> cut_to{};  ///< So many bytes of the segment are left.
  bool checksum = false;
  bool partial_checksum = false;  ///< The pseudo header's, as for a NIC to complete.

  [[nodiscard]] bool any() const {
    return checksum || partial_checksum || data_offset || cut_to || !raw_options.empty();
  }
};

/// The byte that a stream has at `offset`, in either direction: no short period, so that bytes in
/// the wrong place are wrong.
[[nodiscard]] std::byte pattern_byte(std::uint64_t offset);

/// The segment's own bytes: the header with options, padded with EOL, and the payload. The checksum
/// is 0.
[[nodiscard]] PacketBytes write_tcp(const Segment& segment, const SegmentDamage& damage = {});

/// Reads a segment, checksum and payload's meaning aside. A fault is named as net/wire names it.
[[nodiscard]] tl::expected<Segment, std::string> read_tcp(std::span<const std::byte> bytes);

/// An IP packet of either family with these bytes as its TCP segment.
[[nodiscard]] PacketBytes write_ip(const IpAddress& source, const IpAddress& destination,
                                   std::span<const std::byte> segment);

/// An IP packet of either family with `segment` in it, checksums included.
[[nodiscard]] PacketBytes write_packet(const IpAddress& source, const IpAddress& destination,
                                       const Segment& segment, const SegmentDamage& damage = {});

struct ReadPacket {
  IpAddress source;
  IpAddress destination;
  Segment segment;
};

/// Reads an IP packet with a whole segment in it; every length and checksum must be right. The
/// error says what isn't.
[[nodiscard]] tl::expected<ReadPacket, std::string> read_packet(std::span<const std::byte> bytes);

}  // namespace pinion::test

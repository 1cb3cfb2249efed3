#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <pinion/lib/assert.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>

/// The Internet checksum (RFC 1071): of bytes, of chains of segments, with the pseudo headers of
/// IPv4 and IPv6, and its update when a header changes (RFC 1624).
///
/// Ownership:  plain values; bytes are read, or copied, and not kept.
/// Threading:  any.
/// Cost:       8 bytes in two instructions, whatever their address, 16 with AVX2; a header of 20
///             bytes a dozen.
/// Errors:     none. A chain that is shorter than what is to be summed is refused by an assertion.

namespace pinion::wire {

/// A sum in progress, of bytes that are added one behind the other; pieces of odd length too.
///
/// The sum is kept in 64 bits and the machine's own byte order: one's complement addition carries
/// round, so it is the same in wider words (2^16 - 1 divides 2^64 - 1) and, but for one swap at the
/// end, in either byte order (RFC 1071, 1 and 2).
class InternetChecksum {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    add_piece(sum_of(bytes.data(), bytes.size()), bytes.size());
  }

  /// Adds `bytes` while copying them to `to`, where there is room for them.
  void add_copied(std::byte* to, std::span<const std::byte> bytes) noexcept {
    add_piece(copy_and_sum(to, bytes.data(), bytes.size()), bytes.size());
  }

  /// Adds the first `size` bytes of the chain that `first` heads.
  void add(const Packet& first, std::size_t size) noexcept;

  /// Adds a 16-bit field. Behind an even number of bytes only.
  void add_be16(std::uint16_t value) noexcept {
    PINION_DCHECK(!odd_);
    accumulate(swapped(value));
  }

  /// Adds the pseudo header of a TCP, UDP or ICMPv6 datagram of `size` bytes (RFC 9293, 3.1; RFC
  /// 8200, 8.1). The two families' differ in zeros alone: an IPv4 address is four bytes and twelve
  /// zeros here.
  void add_pseudo_header(const IpAddress& source, const IpAddress& destination,
                         std::uint8_t protocol, std::size_t size) noexcept {
    PINION_DCHECK(!odd_);
    add_words<2>(reinterpret_cast<const std::byte*>(source.bytes().data()));
    add_words<2>(reinterpret_cast<const std::byte*>(destination.bytes().data()));
    add_be16(protocol);
    add_be16(static_cast<std::uint16_t>(size >> 16));
    add_be16(static_cast<std::uint16_t>(size));
  }

  /// What goes into the checksum's field, if that was summed as 0. Of bytes that hold their own
  /// checksum: 0 if it is right.
  [[nodiscard]] std::uint16_t value() const noexcept {
    // Both halves of each sum are the same but for the carry, which ends up in the higher one.
    const auto half = static_cast<std::uint32_t>((sum_ + std::rotl(sum_, 32)) >> 32);
    const auto folded = static_cast<std::uint16_t>((half + std::rotl(half, 16)) >> 16);
    return static_cast<std::uint16_t>(~swapped(folded));
  }

  /// Adds `Words` times eight bytes. Behind an even number of bytes only.
  template <std::size_t Words>
  void add_words(const std::byte* bytes) noexcept {
    PINION_DCHECK(!odd_);
    for (std::size_t i = 0; i < Words; ++i) accumulate(load<std::uint64_t>(bytes + 8 * i));
  }

  /// Adds four bytes. Behind an even number of bytes only.
  void add_half_word(const std::byte* bytes) noexcept {
    PINION_DCHECK(!odd_);
    accumulate(load<std::uint32_t>(bytes));
  }

 private:
  template <class Word>
  static Word load(const std::byte* from) noexcept {
    Word word;
    std::memcpy(&word, from, sizeof(word));
    return word;
  }

  /// Between network order and the machine's.
  static constexpr std::uint16_t swapped(std::uint16_t value) noexcept {
    if constexpr (std::endian::native == std::endian::big) return value;
    return static_cast<std::uint16_t>(value << 8 | value >> 8);
  }

  void accumulate(std::uint64_t word) noexcept {
    sum_ += word;
    sum_ += sum_ < word ? 1U : 0U;
  }

  /// Adds the sum of a piece of `size` bytes. Behind an odd number of bytes each of its bytes
  /// stands in the other half of its 16-bit word: the sum turned by 8 bits.
  void add_piece(std::uint64_t sum, std::size_t size) noexcept {
    accumulate(odd_ ? std::rotl(sum, 8) : sum);
    odd_ ^= size % 2 != 0;
  }

  static std::uint64_t sum_of(const std::byte* bytes, std::size_t size) noexcept;
  static std::uint64_t copy_and_sum(std::byte* to, const std::byte* bytes,
                                    std::size_t size) noexcept;

  std::uint64_t sum_ = 0;
  bool odd_ = false;
};

/// The checksum of `bytes`, as InternetChecksum::value() has it.
[[nodiscard]] inline std::uint16_t checksum_of(std::span<const std::byte> bytes) noexcept {
  InternetChecksum sum;
  sum.add(bytes);
  return sum.value();
}

/// The checksum of the datagram that is the first `size` bytes of the chain `first`, with its
/// pseudo header.
[[nodiscard]] inline std::uint16_t transport_checksum(const Packet& first, std::size_t size,
                                                      const IpAddress& source,
                                                      const IpAddress& destination,
                                                      std::uint8_t protocol) noexcept {
  InternetChecksum sum;
  sum.add_pseudo_header(source, destination, protocol, size);
  sum.add(first, size);
  return sum.value();
}

/// What stands in the checksum's field of a datagram of `size` bytes whose sender has left the rest
/// to its NIC: the sum of the pseudo header. Linux does so, over veth too, where there is no NIC.
[[nodiscard]] inline std::uint16_t partial_checksum(const IpAddress& source,
                                                    const IpAddress& destination,
                                                    std::uint8_t protocol,
                                                    std::size_t size) noexcept {
  InternetChecksum sum;
  sum.add_pseudo_header(source, destination, protocol, size);
  return static_cast<std::uint16_t>(~sum.value());
}

/// The checksum after a 16-bit field it covers has changed (RFC 1624, equation 3). A UDP checksum
/// of 0 means that there is none, and stays as it is.
[[nodiscard]] constexpr std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t before,
                                                       std::uint16_t after) noexcept {
  std::uint32_t sum = static_cast<std::uint16_t>(~checksum);
  sum += static_cast<std::uint16_t>(~before);
  sum += after;
  sum = (sum >> 16) + (sum & 0xffffU);
  sum = (sum >> 16) + (sum & 0xffffU);
  return static_cast<std::uint16_t>(~sum);
}

/// The same for a 32-bit field that stands at an even place, such as an IPv4 address.
[[nodiscard]] constexpr std::uint16_t updated_checksum32(std::uint16_t checksum,
                                                         std::uint32_t before,
                                                         std::uint32_t after) noexcept {
  const std::uint16_t half = updated_checksum(checksum, static_cast<std::uint16_t>(before >> 16),
                                              static_cast<std::uint16_t>(after >> 16));
  return updated_checksum(half, static_cast<std::uint16_t>(before),
                          static_cast<std::uint16_t>(after));
}

}  // namespace pinion::wire

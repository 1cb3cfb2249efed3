#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// Numbers in network order, at any address; and bytes in the order they have.
///
/// Ownership:  none: pure functions. The caller knows that the bytes are there.
/// Threading:  any.
/// Cost:       both compilers make one load or store and a byte swap of each (movbe, bswap, rev).
/// Errors:     none.

namespace pinion::wire {

[[nodiscard]] constexpr std::uint8_t load_u8(const std::byte* from) noexcept {
  return std::to_integer<std::uint8_t>(*from);
}

[[nodiscard]] constexpr std::uint16_t load_be16(const std::byte* from) noexcept {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(from[0]) << 8 |
                                    std::to_integer<unsigned>(from[1]));
}

[[nodiscard]] constexpr std::uint32_t load_be32(const std::byte* from) noexcept {
  return std::to_integer<std::uint32_t>(from[0]) << 24 |
         std::to_integer<std::uint32_t>(from[1]) << 16 |
         std::to_integer<std::uint32_t>(from[2]) << 8 | std::to_integer<std::uint32_t>(from[3]);
}

[[nodiscard]] constexpr std::uint64_t load_be64(const std::byte* from) noexcept {
  return std::to_integer<std::uint64_t>(from[0]) << 56 |
         std::to_integer<std::uint64_t>(from[1]) << 48 |
         std::to_integer<std::uint64_t>(from[2]) << 40 |
         std::to_integer<std::uint64_t>(from[3]) << 32 |
         std::to_integer<std::uint64_t>(from[4]) << 24 |
         std::to_integer<std::uint64_t>(from[5]) << 16 |
         std::to_integer<std::uint64_t>(from[6]) << 8 | std::to_integer<std::uint64_t>(from[7]);
}

constexpr void store_u8(std::byte* to, std::uint8_t value) noexcept {
  *to = std::byte{value};
}

constexpr void store_be16(std::byte* to, std::uint16_t value) noexcept {
  to[0] = static_cast<std::byte>(value >> 8);
  to[1] = static_cast<std::byte>(value);
}

constexpr void store_be32(std::byte* to, std::uint32_t value) noexcept {
  to[0] = static_cast<std::byte>(value >> 24);
  to[1] = static_cast<std::byte>(value >> 16);
  to[2] = static_cast<std::byte>(value >> 8);
  to[3] = static_cast<std::byte>(value);
}

constexpr void store_be64(std::byte* to, std::uint64_t value) noexcept {
  to[0] = static_cast<std::byte>(value >> 56);
  to[1] = static_cast<std::byte>(value >> 48);
  to[2] = static_cast<std::byte>(value >> 40);
  to[3] = static_cast<std::byte>(value >> 32);
  to[4] = static_cast<std::byte>(value >> 24);
  to[5] = static_cast<std::byte>(value >> 16);
  to[6] = static_cast<std::byte>(value >> 8);
  to[7] = static_cast<std::byte>(value);
}

/// An address, such as `load_bytes<4>(from)`.
template <std::size_t Size>
[[nodiscard]] std::array<std::uint8_t, Size> load_bytes(const std::byte* from) noexcept {
  std::array<std::uint8_t, Size> bytes;
  std::memcpy(bytes.data(), from, Size);
  return bytes;
}

template <std::size_t Size>
void store_bytes(std::byte* to, const std::array<std::uint8_t, Size>& bytes) noexcept {
  std::memcpy(to, bytes.data(), Size);
}

}  // namespace pinion::wire

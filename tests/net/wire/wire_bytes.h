#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// Bytes for the tests of wire formats.

namespace pinion::test {

using Bytes = std::vector<std::byte>;

/// The bytes of `45 00 001c`; blanks are for the eye.
inline Bytes from_hex(std::string_view text) {
  Bytes bytes;
  unsigned value = 0;
  bool half = false;
  for (const char digit : text) {
    if (digit == ' ') continue;
    value = value << 4 | static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    if (half) bytes.push_back(static_cast<std::byte>(value));
    half = !half;
  }
  return bytes;
}

inline Bytes joined(std::span<const std::byte> front, std::span<const std::byte> back) {
  Bytes bytes(front.begin(), front.end());
  bytes.insert(bytes.end(), back.begin(), back.end());
  return bytes;
}

inline Bytes with_byte(Bytes bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

/// The first `size` bytes in a block of their own, so that AddressSanitizer sees who reads on.
inline Bytes cut(const Bytes& bytes, std::size_t size) {
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

}  // namespace pinion::test

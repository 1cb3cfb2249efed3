#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

/// Structs that begin with their size and grow at their end.
///
/// Ownership:  values; the caller's struct is read or written once.
/// Threading:  any.
/// Cost:       a copy.
/// Errors:     a negative errno, see pinion_stack.h, Growing.

namespace pinion::c_abi {

/// Reads the caller's struct into `into`; what it doesn't have is 0. `least` is the size of the
/// first version.
template <class Struct>
[[nodiscard]] int read_sized(const Struct* from, std::size_t least, Struct& into) noexcept {
  static_assert(std::is_trivially_copyable_v<Struct>);
  std::size_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  constexpr std::size_t kMost = 4096;
  if (size < least || size > kMost) return -EINVAL;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(Struct) && std::any_of(bytes + sizeof(Struct), bytes + size,
                                           [](unsigned char byte) { return byte != 0; })) {
    return -E2BIG;
  }
  into = Struct{};
  std::memcpy(&into, from, std::min(size, sizeof(Struct)));
  into.size = sizeof(Struct);
  return 0;
}

/// Writes to the caller's struct, whose size stays: what we don't have becomes 0.
template <class Struct>
[[nodiscard]] int write_sized(const Struct& from, Struct* into) noexcept {
  static_assert(std::is_trivially_copyable_v<Struct>);
  std::size_t size = 0;
  std::memcpy(&size, into, sizeof(size));
  constexpr std::size_t kMost = 4096;
  if (size < sizeof(size) || size > kMost) return -EINVAL;
  auto* const bytes = reinterpret_cast<unsigned char*>(into);
  std::memset(bytes + sizeof(size), 0, size - sizeof(size));
  const std::size_t known = std::min(size, sizeof(Struct));
  std::memcpy(bytes + sizeof(size), reinterpret_cast<const unsigned char*>(&from) + sizeof(size),
              known - sizeof(size));
  return 0;
}

}  // namespace pinion::c_abi

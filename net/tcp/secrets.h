#pragma once

#include <cstdint>

#include <pinion/lib/sip_hash.h>

/// Secrets of many kinds from one: SipHash-2-4 over a count, so that who comes to know some of them
/// can tell nothing of the others.
///
/// Ownership:  a value of 24 bytes.
/// Threading:  one.
/// Cost:       a hash per 64 bits.
/// Errors:     none. They are no better than the seed, which is from the system's random numbers.

namespace pinion {

class Secrets {
 public:
  explicit constexpr Secrets(std::uint64_t seed) noexcept : key_{.k0 = seed, .k1 = ~seed} {}

  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    SipHasher24 hasher(key_);
    hasher.add(count_++);
    return hasher.finish(std::uint64_t{8} << 56);
  }
  [[nodiscard]] constexpr SipKey key() noexcept {
    const std::uint64_t k0 = next();
    return {.k0 = k0, .k1 = next()};
  }

 private:
  SipKey key_;
  std::uint64_t count_ = 0;
};

}  // namespace pinion

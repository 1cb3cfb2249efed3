#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/sip_hash.h>

/// Secrets made of one secret: keys, and numbers that go out to strangers.
///
/// Ownership:  a value of 24 bytes; a copy goes on with the same numbers.
/// Threading:  one lcore.
/// Cost:       a number is 8 rounds of SipHash.
/// Errors:     none. The seed comes from the system's random numbers. Whoever sees some of the
///             numbers can tell neither the others nor the seed, unlike those of Random.

namespace pinion {

class SecretNumbers {
 public:
  explicit constexpr SecretNumbers(std::uint64_t seed) noexcept : key_{seed, kDomain} {}

  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    SipHasher24 hasher(key_);
    return hasher.finish(count_++);
  }

  [[nodiscard]] constexpr SipKey next_key() noexcept {
    const std::uint64_t first = next();
    return {first, next()};
  }

  /// One of 0 … bound - 1, which is 65,536 at most: so each is as likely as the others to 1 in
  /// 65,536.
  [[nodiscard]] constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>((next() >> 32) * bound >> 32);
  }

 private:
  static constexpr std::uint64_t kDomain = 0x70696e696f6e2e31;  ///< No other use has it.

  SipKey key_;
  std::uint64_t count_ = 0;
};

/// The keyed hash of a few words, for tables whose keys come from the wire: who doesn't know the
/// key can't make a bucket long.
template <std::size_t kWords>
[[nodiscard]] constexpr std::uint64_t hash_words(
    const SipKey& key, const std::array<std::uint64_t, kWords>& words) noexcept {
  SipHasher13 hasher(key);
  for (const std::uint64_t word : words) hasher.add(word);
  return hasher.finish(std::uint64_t{kWords * 8} << 56);
}

}  // namespace pinion

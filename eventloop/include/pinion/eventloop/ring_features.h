#pragma once

#include <cstdint>
#include <initializer_list>

/// What a ring uses of the kernel where it is there, and does without elsewhere.
///
/// Cost:       a set is one word.

namespace pinion {

enum class RingFeature : std::uint32_t {
  message = 1U << 0,            ///< MSG_RING between rings; without it the doorbell is an eventfd.
  multishot_accept = 1U << 1,   ///< Without it each accept is armed anew.
  multishot_receive = 1U << 2,  ///< Without it each receive is armed anew.
};

class RingFeatures {
 public:
  constexpr RingFeatures() noexcept = default;
  constexpr RingFeatures(std::initializer_list<RingFeature> features) noexcept {
    for (const RingFeature feature : features) add(feature);
  }

  constexpr void add(RingFeature feature) noexcept { bits_ |= static_cast<std::uint32_t>(feature); }
  [[nodiscard]] constexpr bool has(RingFeature feature) const noexcept {
    return (bits_ & static_cast<std::uint32_t>(feature)) != 0;
  }
  [[nodiscard]] constexpr RingFeatures without(RingFeatures other) const noexcept {
    RingFeatures rest;
    rest.bits_ = bits_ & ~other.bits_;
    return rest;
  }
  friend constexpr bool operator==(RingFeatures, RingFeatures) noexcept = default;

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace pinion

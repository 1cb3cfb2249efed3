#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

/// The wheel's shape, and which distance goes where.
///
/// Ownership:  none: constants.
/// Threading:  any.
/// Cost:       a table of 248 bytes.

namespace pinion::detail {

inline constexpr unsigned kSlotBits = 6;
inline constexpr unsigned kSlots = 1U << kSlotBits;
inline constexpr unsigned kLevels = 5;
inline constexpr unsigned kSpanBits = kSlotBits * kLevels;

/// How many lists each slot above level 0 has. They are walked in turn, so that the cache misses of
/// a cascade overlap: 357 -> 59 ns per expired timer at 1,000,000 live ones.
inline constexpr unsigned kSubLists = 8;
inline constexpr std::size_t kHeadsPerLevel = std::size_t{kSlots} * kSubLists;

/// What arm() needs to know of a level.
struct alignas(8) Placement {
  std::uint16_t heads = 0;     ///< The index of the level's first list head.
  std::uint8_t sub_lists = 0;  ///< The mask that makes a number that of a sub-list.
  std::uint8_t shift = 0;
  std::uint8_t level = 0;
};

/// The leading zeros of the longest distance that the levels hold.
inline constexpr unsigned kLeastZeros = 64 - kSpanBits;

/// By the leading zeros of a distance below 64^5, less kLeastZeros. A table because instructions
/// count in arm(): the fewer they are, the more calls the CPU has under way at once, and the more
/// of their cache misses overlap.
inline constexpr std::array<Placement, kSpanBits + 1> kPlacements = [] {
  std::array<Placement, kSpanBits + 1> placements{};
  for (unsigned zeros = kLeastZeros; zeros <= 64; ++zeros) {
    const unsigned level = zeros == 64 ? 0 : (63 - zeros) / kSlotBits;
    Placement& placement = placements[zeros - kLeastZeros];
    placement.heads = static_cast<std::uint16_t>(level * kHeadsPerLevel);
    placement.sub_lists = static_cast<std::uint8_t>(level == 0 ? 0 : kSubLists - 1);
    placement.shift = static_cast<std::uint8_t>(level * kSlotBits);
    placement.level = static_cast<std::uint8_t>(level);
  }
  return placements;
}();

/// For a distance below 64^5.
inline const Placement& placement_of(std::uint64_t distance) noexcept {
  return kPlacements[static_cast<std::size_t>(std::countl_zero(distance)) - kLeastZeros];
}

}  // namespace pinion::detail

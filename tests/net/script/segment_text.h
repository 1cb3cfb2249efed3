#pragma once

#include <cstdint>
#include <string>

#include "segment.h"

/// Segments as scripts spell them (script.h).

namespace pinion::test {

/// What the numbers of a segment count from.
struct SegmentOrigin {
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgment = 0;  ///< Of SACK blocks too.
  std::uint32_t timestamp = 0;
  std::uint32_t echo = 0;
};

/// How far `number` is from `origin`: negative when that is the shorter way.
[[nodiscard]] std::int64_t relative(std::uint32_t number, std::uint32_t origin);

/// The flag that a script spells so; 0 for another character.
[[nodiscard]] std::uint8_t flag_of(char letter);
[[nodiscard]] std::string flags_text(std::uint8_t flags);

[[nodiscard]] std::string option_text(const SegmentOption& option, const SegmentOrigin& origin);
[[nodiscard]] std::string segment_text(const Segment& segment, const SegmentOrigin& origin);

}  // namespace pinion::test

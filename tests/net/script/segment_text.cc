#include "segment_text.h"

#include <string_view>

#include <fmt/format.h>

namespace pinion::test {
namespace {

struct Letter {
  char letter;
  std::uint8_t flag;
};
constexpr Letter kLetters[] = {{'S', kSyn}, {'F', kFin}, {'R', kRst}, {'P', kPsh},
                               {'U', kUrg}, {'E', kEce}, {'W', kCwr}, {'.', kAck}};

std::string sack_text(const SegmentOption& option, const SegmentOrigin& origin) {
  std::string text = "sack";
  for (std::size_t at = 0; at + 8 <= option.data.size(); at += 8) {
    text += fmt::format(" {}:{}", relative(option.word(at), origin.acknowledgment),
                        relative(option.word(at + 4), origin.acknowledgment));
  }
  return text;
}

std::string raw_text(const SegmentOption& option) {
  std::string text = fmt::format("raw {:02x} {:02x}", option.kind, option.data.size() + 2);
  for (const std::byte byte : option.data) {
    text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  }
  return text;
}

}  // namespace

std::int64_t relative(std::uint32_t number, std::uint32_t origin) {
  return static_cast<std::int32_t>(number - origin);
}

std::uint8_t flag_of(char letter) {
  for (const Letter& known : kLetters) {
    if (known.letter == letter) return known.flag;
  }
  return 0;
}

std::string flags_text(std::uint8_t flags) {
  std::string text;
  for (const Letter& known : kLetters) {
    if ((flags & known.flag) != 0) text += known.letter;
  }
  return text.empty() ? "-" : text;
}

std::string option_text(const SegmentOption& option, const SegmentOrigin& origin) {
  switch (option.kind) {
    case kOptionMss:
      return fmt::format("mss {}", std::to_integer<unsigned>(option.data[0]) << 8 |
                                       std::to_integer<unsigned>(option.data[1]));
    case kOptionWindowScale:
      return fmt::format("wscale {}", std::to_integer<unsigned>(option.data[0]));
    case kOptionSackPermitted:
      return "sack";
    case kOptionSack:
      return sack_text(option, origin);
    case kOptionTimestamps:
      return fmt::format("ts val {} ecr {}", relative(option.word(0), origin.timestamp),
                         relative(option.word(4), origin.echo));
    default:
      return raw_text(option);
  }
}

std::string segment_text(const Segment& segment, const SegmentOrigin& origin) {
  const std::int64_t begin = relative(segment.sequence, origin.sequence);
  const auto size = static_cast<std::int64_t>(segment.payload.size());
  std::string text =
      fmt::format("{} {}:{}({})", flags_text(segment.flags), begin, begin + size, size);
  if (segment.has(kAck)) {
    text += fmt::format(" ack {}", relative(segment.acknowledgment, origin.acknowledgment));
  }
  text += fmt::format(" win {}", segment.window);
  if (segment.has(kUrg)) text += fmt::format(" urg {}", segment.urgent_pointer);
  std::string options;
  for (const SegmentOption& option : segment.options) {
    options += (options.empty() ? "" : ", ") + option_text(option, origin);
  }
  return text + " <" + options + ">";
}

}  // namespace pinion::test

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../script/segment.h"
#include "wire/sequence_number.h"
#include "wire/tcp_emitter.h"
#include "wire/tcp_header.h"
#include "wire/tcp_option_kind.h"
#include "wire/tcp_parser.h"
#include "wire/wire_fault.h"

/// What the tests and the fuzzer of TCP's wire format share: random segments, and the parser
/// against the slow reader of tests/net/script.

namespace pinion::test {

inline wire::TcpOptions options_of(const Segment& segment) {
  wire::TcpOptions options;
  if (const auto* mss = segment.option(kOptionMss)) {
    options.mss = static_cast<std::uint16_t>(std::to_integer<unsigned>(mss->data[0]) * 256 +
                                             std::to_integer<unsigned>(mss->data[1]));
  }
  if (const auto* scale = segment.option(kOptionWindowScale)) {
    options.window_scale =
        static_cast<std::uint8_t>(std::min(14U, std::to_integer<unsigned>(scale->data[0])));
  }
  options.sack_permitted = segment.option(kOptionSackPermitted) != nullptr;
  if (const auto* timestamps = segment.option(kOptionTimestamps)) {
    options.timestamps = {timestamps->word(0), timestamps->word(4)};
  }
  if (const auto* sack = segment.option(kOptionSack)) {
    for (std::size_t at = 0; at < sack->data.size(); at += 8) {
      options.sack.push_back(
          {wire::SequenceNumber(sack->word(at)), wire::SequenceNumber(sack->word(at + 4))});
    }
  }
  return options;
}

inline bool same_header(const wire::TcpHeader& header, const Segment& segment) {
  return header.source_port == segment.source_port &&
         header.destination_port == segment.destination_port &&
         header.sequence.value() == segment.sequence &&
         header.acknowledgment.value() == segment.acknowledgment &&
         header.flags.bits() == segment.flags && header.window == segment.window &&
         header.urgent_pointer == segment.urgent_pointer;
}

/// Where parser and slow reader differ over `bytes`; empty when they agree.
inline std::string difference(std::span<const std::byte> bytes) {
  const auto fast = wire::parse_tcp(bytes);
  const auto slow = read_tcp(bytes);
  if (!fast && !slow) {
    const std::string name(to_string(fast.error()));
    return name == slow.error() ? "" : name + ", not " + slow.error();
  }
  if (!fast) return std::string(to_string(fast.error())) + ", not a segment";
  if (!slow) return "a segment, not " + slow.error();
  if (!same_header(fast->header, *slow)) return "another header";
  if (fast->header.size() + slow->payload.size() != bytes.size()) return "another data offset";
  return fast->options == options_of(*slow) ? "" : "other options";
}

/// A segment that emit_tcp() can write; the options are such as fit. `Choices` has below(n).
template <class Choices>
wire::TcpSegment random_segment(Choices& choices) {
  const auto word = [&choices] {
    return static_cast<std::uint32_t>(choices.below(std::uint64_t{1} << 32));
  };
  const auto half = [&choices](std::uint16_t low) {
    return static_cast<std::uint16_t>(low + choices.below(std::uint64_t{65536} - low));
  };
  wire::TcpSegment segment;
  wire::TcpHeader& header = segment.header;
  header.source_port = half(1);
  header.destination_port = half(1);
  header.sequence = wire::SequenceNumber(word());
  header.acknowledgment = wire::SequenceNumber(word());
  header.flags = wire::TcpFlags::from_bits(static_cast<std::uint8_t>(choices.below(256)));
  if (header.flags.has(wire::TcpFlag::syn)) {
    header.flags = wire::TcpFlags::from_bits(header.flags.bits() & 0xfaU);
  }
  header.window = half(0);
  header.urgent_pointer = half(0);
  wire::TcpOptions& options = segment.options;
  if (choices.below(2) == 0) options.mss = half(0);
  if (choices.below(2) == 0) options.window_scale = static_cast<std::uint8_t>(choices.below(15));
  options.sack_permitted = choices.below(2) == 0;
  if (choices.below(2) == 0) options.timestamps = wire::TcpTimestamps{word(), word()};
  for (auto blocks = choices.below(5); blocks != 0; --blocks) {
    wire::TcpOptions more = options;
    more.sack.push_back({wire::SequenceNumber(word()), wire::SequenceNumber(word())});
    if (wire::tcp_options_size(more) <= wire::kTcpMaxOptionsSize) options = more;
  }
  header.data_offset = static_cast<std::uint8_t>((20 + wire::tcp_options_size(options)) / 4);
  return segment;
}

}  // namespace pinion::test

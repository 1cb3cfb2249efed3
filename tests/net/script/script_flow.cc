#include "script_flow.h"

#include <algorithm>

#include <fmt/format.h>

namespace pinion::test {
namespace {

std::uint32_t low_word(std::int64_t number) {
  return static_cast<std::uint32_t>(number);
}

void put_word(PacketBytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::byte>(word >> shift));
  }
}

/// The numbers of an option, as the script counts them.
std::vector<std::int64_t> numbers_of(const SegmentOption& option, const SegmentOrigin& origin) {
  const auto byte = [&option](std::size_t at) { return std::to_integer<int>(option.data[at]); };
  std::vector<std::int64_t> numbers;
  switch (option.kind) {
    case kOptionMss:
      numbers.push_back(byte(0) * 256 + byte(1));
      break;
    case kOptionWindowScale:
      numbers.push_back(byte(0));
      break;
    case kOptionSack:
      for (std::size_t at = 0; at + 4 <= option.data.size(); at += 4) {
        numbers.push_back(relative(option.word(at), origin.acknowledgment));
      }
      break;
    case kOptionTimestamps:
      numbers.push_back(relative(option.word(0), origin.timestamp));
      numbers.push_back(relative(option.word(4), origin.echo));
      break;
    default:
      break;
  }
  return numbers;
}

SegmentOption option_from(const OptionPattern& pattern, const SegmentOrigin& origin) {
  SegmentOption option{.kind = pattern.kind, .data = {}};
  const auto number = [&pattern](std::size_t at) { return low_word(pattern.numbers[at]->low); };
  switch (pattern.kind) {
    case kOptionMss:
      option.data = {static_cast<std::byte>(number(0) >> 8), static_cast<std::byte>(number(0))};
      break;
    case kOptionWindowScale:
      option.data = {static_cast<std::byte>(number(0))};
      break;
    case kOptionSack:
      for (std::size_t at = 0; at < pattern.numbers.size(); ++at) {
        put_word(option.data, origin.acknowledgment + number(at));
      }
      break;
    case kOptionTimestamps:
      put_word(option.data, origin.timestamp + number(0));
      put_word(option.data, origin.echo + number(1));
      break;
    default:
      break;
  }
  return option;
}

bool matches(const OptionPattern& pattern, const SegmentOption& option,
             const SegmentOrigin& origin) {
  const std::vector<std::int64_t> numbers = numbers_of(option, origin);
  if (numbers.size() != pattern.numbers.size()) return false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (pattern.numbers[i] && !pattern.numbers[i]->matches(numbers[i])) return false;
  }
  return true;
}

std::string number_text(const MaybeNumber& number) {
  if (!number) return "*";
  if (number->low == number->high) return fmt::format("{}", number->low);
  return fmt::format("{}..{}", number->low, number->high);
}

void compare(std::string_view what, std::int64_t came, const MaybeNumber& expected,
             std::vector<std::string>& differences) {
  if (!expected || expected->matches(came)) return;
  differences.push_back(fmt::format("{} {}, not {}", what, came, number_text(expected)));
}

/// Where in its stream the first byte of a segment's payload stands.
std::uint64_t stream_offset(std::int64_t begin, std::uint8_t flags) {
  return static_cast<std::uint64_t>((flags & kSyn) != 0 ? begin : begin - 1);
}

}  // namespace

void ScriptFlow::begin_anew(const FlowStep& step, Endpoint host) {
  host_ = {host.address, step.host_port.value_or(host.port)};
  host_port_known_ = step.host_port.has_value();
  peer_.address = step.peer_address.value_or(peer_.address);
  peer_.port = step.peer_port.value_or(peer_.port);
  peer_isn_ = step.isn.value_or(kPeerIsn);
  host_isn_.reset();
  host_clock_.reset();
}

bool ScriptFlow::owns(const ReadPacket& packet) const {
  return packet.source == host_.address && packet.destination == peer_.address &&
         packet.segment.destination_port == peer_.port &&
         (!host_port_known_ || packet.segment.source_port == host_.port);
}

SegmentOrigin ScriptFlow::host_origin() const {
  return {.sequence = host_isn_.value_or(0),
          .acknowledgment = peer_isn_,
          .timestamp = host_clock_.value_or(0),
          .echo = 0};
}

SegmentOrigin ScriptFlow::peer_origin() const {
  return {.sequence = peer_isn_,
          .acknowledgment = host_isn_.value_or(0),
          .timestamp = 0,
          .echo = host_clock_.value_or(0)};
}

Segment ScriptFlow::arrival(const SegmentPattern& pattern) {
  host_port_known_ = true;
  SegmentOrigin origin = peer_origin();
  if ((pattern.flags & kAck) == 0) origin.echo = 0;  // Nothing to echo: as it stands.
  Segment segment;
  segment.source_port = peer_.port;
  segment.destination_port = host_.port;
  segment.sequence = origin.sequence + low_word(*pattern.begin);
  if (pattern.ack) segment.acknowledgment = origin.acknowledgment + low_word(pattern.ack->low);
  segment.flags = pattern.flags;
  segment.window = static_cast<std::uint16_t>(pattern.window ? pattern.window->low : 65535);
  if (pattern.urgent) segment.urgent_pointer = static_cast<std::uint16_t>(pattern.urgent->low);
  for (const OptionPattern& option : pattern.options) {
    segment.options.push_back(option_from(option, origin));
  }
  const std::uint64_t first = stream_offset(*pattern.begin, pattern.flags);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(pattern.size); ++i) {
    const std::byte byte = pattern_byte(first + i);
    segment.payload.push_back(pattern.garbled ? ~byte : byte);
  }
  return segment;
}

PacketBytes ScriptFlow::packet_of(const Segment& segment, const SegmentDamage& damage) const {
  return write_packet(peer_.address, host_.address, segment, damage);
}

void ScriptFlow::learn(const Segment& sent, const SegmentPattern& pattern) {
  if (!host_port_known_) host_.port = sent.source_port;
  host_port_known_ = true;
  if (!host_isn_ && sent.has(kSyn)) {
    host_isn_ = sent.sequence - low_word(pattern.begin.value_or(0));
  }
  const SegmentOption* const timestamps = sent.option(kOptionTimestamps);
  if (host_clock_ || timestamps == nullptr) return;
  std::int64_t stands_for = 0;
  for (const OptionPattern& option : pattern.options) {
    if (option.kind == kOptionTimestamps && option.numbers[0]) stands_for = option.numbers[0]->low;
  }
  host_clock_ = timestamps->word(0) - low_word(stands_for);
}

std::vector<std::string> ScriptFlow::differences(const Segment& sent,
                                                 const SegmentPattern& pattern) const {
  const SegmentOrigin origin = host_origin();
  std::vector<std::string> all;
  if (((sent.flags ^ pattern.flags) & ~pattern.open_flags) != 0) {
    all.push_back(
        fmt::format("flags {}, not {}", flags_text(sent.flags), flags_text(pattern.flags)));
  }
  if (pattern.begin) {
    if (sent.sequence != origin.sequence + low_word(*pattern.begin)) {
      all.push_back(fmt::format("begins at {}, not {}", relative(sent.sequence, origin.sequence),
                                *pattern.begin));
    }
    const auto size = static_cast<std::int64_t>(sent.payload.size());
    compare("size", size, NumberPattern{pattern.size, pattern.size}, all);
  }
  if (pattern.ack && !sent.has(kAck)) all.emplace_back("no ack");
  if (sent.has(kAck)) {
    compare("ack", relative(sent.acknowledgment, origin.acknowledgment), pattern.ack, all);
  }
  compare("win", sent.window, pattern.window, all);
  compare("urg", sent.urgent_pointer, pattern.urgent, all);
  for (std::string other : {option_difference(sent, pattern), payload_difference(sent, pattern)}) {
    if (!other.empty()) all.push_back(std::move(other));
  }
  return all;
}

std::string ScriptFlow::option_difference(const Segment& sent,
                                          const SegmentPattern& pattern) const {
  if (!pattern.options_given) return {};
  const SegmentOrigin origin = host_origin();
  std::vector<SegmentOption> left = sent.options;
  for (const OptionPattern& expected : pattern.options) {
    const auto same_kind = [&expected](const SegmentOption& option) {
      return option.kind == expected.kind;
    };
    const auto found = std::find_if(left.begin(), left.end(), same_kind);
    if (found == left.end()) return fmt::format("no option '{}'", expected.text);
    if (!matches(expected, *found, origin)) {
      return fmt::format("option '{}', not '{}'", option_text(*found, origin), expected.text);
    }
    left.erase(found);
  }
  if (left.empty() || pattern.more_options) return {};
  return fmt::format("option '{}' too", option_text(left.front(), origin));
}

std::string ScriptFlow::payload_difference(const Segment& sent,
                                           const SegmentPattern& pattern) const {
  // The pattern knows a place in the stream beyond 32 bits; a segment elsewhere goes by its own.
  const std::uint32_t isn = host_isn_.value_or(0);
  const bool in_place = pattern.begin && sent.sequence == isn + low_word(*pattern.begin);
  const std::int64_t begin = in_place ? *pattern.begin : relative(sent.sequence, isn);
  const std::uint64_t first = stream_offset(begin, sent.flags);
  for (std::size_t i = 0; i < sent.payload.size(); ++i) {
    if (sent.payload[i] == pattern_byte(first + i)) continue;
    return fmt::format("byte {} of the payload, at {} of the stream, is {:#04x}, not {:#04x}", i,
                       first + i, std::to_integer<unsigned>(sent.payload[i]),
                       std::to_integer<unsigned>(pattern_byte(first + i)));
  }
  return {};
}

std::string ScriptFlow::sent_text(const Segment& segment) const {
  return segment_text(segment, host_origin());
}

std::string ScriptFlow::arrival_text(const Segment& segment) const {
  return segment_text(segment, peer_origin());
}

}  // namespace pinion::test

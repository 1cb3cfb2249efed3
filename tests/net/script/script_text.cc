#include "script_text.h"

#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "segment_text.h"

namespace pinion::test {
namespace {

/// Thrown within a line, which adds where it is.
struct LineError {
  std::string text;
};

[[noreturn]] void refuse(std::string text) {
  throw LineError{std::move(text)};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text = trimmed(text.substr(prefix.size()));
  return true;
}

/// The words of a text, taken one by one.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(trimmed(text)) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] std::string_view peek() const { return rest_.substr(0, rest_.find(' ')); }
  std::string_view next() {
    const std::string_view word = peek();
    if (word.empty()) refuse("something is missing at the end");
    rest_ = trimmed(rest_.substr(word.size()));
    return word;
  }

 private:
  std::string_view rest_;
};

std::int64_t number_of(std::string_view text, int base = 10) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse(fmt::format("'{}' is no number", text));
  }
  return value;
}

std::int64_t bounded(std::string_view text, std::int64_t low, std::int64_t high) {
  const std::int64_t value = number_of(text);
  if (value < low || value > high) refuse(fmt::format("{} is not in {}..{}", value, low, high));
  return value;
}

MaybeNumber pattern_of(std::string_view text) {
  if (text == "*") return std::nullopt;
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return NumberPattern{number_of(text), number_of(text)};
  return NumberPattern{number_of(text.substr(0, dots)), number_of(text.substr(dots + 2))};
}

Nanoseconds duration_of(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1.0}, {"us", 1e3},   {"ms", 1e6},   {"min", 60e9},
      {"s", 1e9},  {"h", 3600e9}, {"d", 86400e9}};
  if (text == "0") return {};
  for (const auto& [unit, nanoseconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string_view figures = text.substr(0, text.size() - unit.size());
    double value = 0;
    const char* const first = figures.data();
    const char* const last = first + figures.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc{} || end != last || value < 0) break;
    return Nanoseconds{std::llround(value * nanoseconds)};
  }
  refuse(fmt::format("'{}' is no duration such as 20ms", text));
}

StepTime time_of(std::string_view word) {
  StepTime time;
  time.absolute = word[0] == '@';
  const std::string_view text = word.substr(1);
  if (const auto dots = text.find(".."); dots != std::string_view::npos) {
    time.bare = false;
    time.from = duration_of(text.substr(0, dots));
    time.until = duration_of(text.substr(dots + 2));
    if (time.until < time.from) refuse(fmt::format("'{}' ends before it begins", word));
  } else if (const auto about = text.find('~'); about != std::string_view::npos) {
    time.bare = false;
    const Nanoseconds middle = duration_of(text.substr(0, about));
    const Nanoseconds around = duration_of(text.substr(about + 1));
    time.from = middle - around;
    time.until = middle + around;
  } else {
    time.from = time.until = duration_of(text);
  }
  return time;
}

void read_flags(std::string_view text, SegmentPattern& segment) {
  if (text == "*") segment.open_flags = 0xff;
  if (text == "*" || text == "-") return;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::uint8_t flag = flag_of(text[at]);
    if (flag == 0) refuse(fmt::format("'{}' is no flag, of SFRPUEW.", text[at]));
    const bool open = at + 1 < text.size() && text[at + 1] == '?';
    if (open) ++at;
    std::uint8_t& flags = open ? segment.open_flags : segment.flags;
    flags = static_cast<std::uint8_t>(flags | flag);
  }
}

/// `1:1461(1460)`.
void read_place(std::string_view text, SegmentPattern& segment) {
  if (text == "*") return;
  const auto colon = text.find(':');
  const auto open = text.find('(');
  if (colon == std::string_view::npos || open == std::string_view::npos || open < colon ||
      !text.ends_with(')')) {
    refuse(fmt::format("'{}' is no place such as 1:1461(1460)", text));
  }
  segment.begin = number_of(text.substr(0, colon));
  const std::int64_t end = number_of(text.substr(colon + 1, open - colon - 1));
  segment.size = number_of(text.substr(open + 1, text.size() - open - 2));
  if (segment.size < 0 || segment.size > 65535 || *segment.begin + segment.size != end) {
    refuse(fmt::format("{} and {} bytes don't end at {}", *segment.begin, segment.size, end));
  }
}

/// `1:5 9:11`, as many as follow.
void read_blocks(Words& words, OptionPattern& option) {
  option.kind = kOptionSack;
  while (!words.empty()) {
    const std::string_view block = words.next();
    const auto colon = block.find(':');
    if (colon == std::string_view::npos) refuse(fmt::format("'{}' is no block", block));
    option.numbers.push_back(pattern_of(block.substr(0, colon)));
    option.numbers.push_back(pattern_of(block.substr(colon + 1)));
  }
}

void read_timestamps(Words& words, OptionPattern& option) {
  option.kind = kOptionTimestamps;
  option.numbers.resize(2);
  while (!words.empty()) {
    const std::string_view which = words.next();
    if (which != "val" && which != "ecr") refuse(fmt::format("'{}' is not val or ecr", which));
    option.numbers[which == "ecr" ? 1 : 0] = pattern_of(words.next());
  }
}

void read_option(std::string_view text, SegmentPattern& segment) {
  Words words(text);
  OptionPattern option{.kind = 0, .numbers = {}, .text = std::string(text)};
  const std::string_view name = words.next();
  if (name == "mss" || name == "wscale") {
    option.kind = name == "mss" ? kOptionMss : kOptionWindowScale;
    option.numbers.push_back(pattern_of(words.next()));
  } else if (name == "sack" && words.empty()) {
    option.kind = kOptionSackPermitted;
  } else if (name == "sack") {
    read_blocks(words, option);
  } else if (name == "ts") {
    read_timestamps(words, option);
  } else if (name == "raw") {
    while (!words.empty()) {
      segment.damage.raw_options.push_back(static_cast<std::byte>(number_of(words.next(), 16)));
    }
    return;
  } else {
    refuse(fmt::format("'{}' is no option", name));
  }
  if (!words.empty()) refuse(fmt::format("'{}' behind an option", words.peek()));
  segment.options.push_back(std::move(option));
}

/// What stands between the angles.
void read_options(std::string_view text, SegmentPattern& segment) {
  segment.options_given = true;
  for (std::string_view rest = trimmed(text); !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view option = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : trimmed(rest.substr(comma + 1));
    if (option == "..." || option == "…") {
      segment.more_options = true;
    } else {
      read_option(option, segment);
    }
  }
}

/// One word behind a segment's place, and what belongs to it.
void read_detail(Words& words, SegmentPattern& segment) {
  const std::string_view word = words.next();
  if (word == "ack") {
    segment.ack = pattern_of(words.next());
  } else if (word == "win") {
    segment.window = pattern_of(words.next());
  } else if (word == "urg") {
    segment.urgent = pattern_of(words.next());
  } else if (word == "garbled") {
    segment.garbled = true;
  } else if (word == "bad-checksum") {
    segment.damage.checksum = true;
  } else if (word == "partial-checksum") {
    segment.damage.partial_checksum = true;
  } else if (word == "offset") {
    segment.damage.data_offset = static_cast<std::uint8_t>(bounded(words.next(), 0, 15));
  } else if (word == "cut") {
    segment.damage.cut_to = static_cast<std::size_t>(bounded(words.next(), 0, 65535));
  } else if (word != "..." && word != "…") {
    refuse(fmt::format("'{}' in a segment", word));
  }
}

std::string flow_name(std::string_view& text) {
  if (!text.starts_with('[')) return {};
  const auto close = text.find(']');
  if (close == std::string_view::npos) refuse("a [ without a ]");
  std::string name(text.substr(1, close - 1));
  text = trimmed(text.substr(close + 1));
  return name;
}

SegmentPattern segment_of(std::string_view text) {
  SegmentPattern segment;
  segment.flow = flow_name(text);
  std::string rest(text);
  if (const auto open = text.find('<'); open != std::string_view::npos) {
    const auto close = text.find('>', open);
    if (close == std::string_view::npos) refuse("a < without a >");
    read_options(text.substr(open + 1, close - open - 1), segment);
    rest = fmt::format("{} {}", text.substr(0, open), text.substr(close + 1));
  }
  Words words(rest);
  read_flags(words.next(), segment);
  read_place(words.next(), segment);
  while (!words.empty()) read_detail(words, segment);
  return segment;
}

bool is_one_number(const MaybeNumber& number) {
  return number && number->low == number->high;
}

/// What arrives must be said exactly.
SegmentPattern arrival_of(std::string_view text) {
  SegmentPattern segment = segment_of(text);
  if (segment.open_flags != 0) refuse("flags of what arrives can't be left open");
  if (!segment.begin) refuse("what arrives needs a place such as 1:1(0)");
  if ((segment.flags & kAck) != 0 && !is_one_number(segment.ack)) refuse("ACK without 'ack N'");
  if (segment.window && !is_one_number(segment.window)) refuse("a window that is left open");
  if (segment.urgent && !is_one_number(segment.urgent)) refuse("an urgent pointer left open");
  for (const OptionPattern& option : segment.options) {
    for (const MaybeNumber& number : option.numbers) {
      if (!is_one_number(number)) refuse(fmt::format("'{}' leaves a number open", option.text));
    }
  }
  if (segment.more_options) refuse("'...' in the options of what arrives");
  return segment;
}

SegmentPattern expected_of(std::string_view text) {
  SegmentPattern segment = segment_of(text);
  if (segment.garbled || segment.damage.any()) refuse("damage in what is expected");
  return segment;
}

FlowStep flow_of(std::string_view text) {
  FlowStep flow;
  flow.flow = flow_name(text);
  Words words(text);
  while (!words.empty()) {
    const std::string_view word = words.next();
    const std::string_view value = words.next();
    if (word == "isn") {
      flow.isn = static_cast<std::uint32_t>(bounded(value, 0, 0xffffffff));
    } else if (word == "host") {
      flow.host_port = static_cast<std::uint16_t>(bounded(value, 1, 65535));
    } else if (word == "peer" && value.find_first_of(".:") != std::string_view::npos) {
      const auto endpoint = Endpoint::parse(value);
      if (!endpoint) refuse(endpoint.error().what);
      flow.peer_address = endpoint->address;
      flow.peer_port = endpoint->port;
    } else if (word == "peer") {
      flow.peer_port = static_cast<std::uint16_t>(bounded(value, 1, 65535));
    } else {
      refuse(fmt::format("'{}' is not peer, host or isn", word));
    }
  }
  return flow;
}

CallStep call_of(std::string_view text) {
  CallStep call;
  call.result = "";
  if (const auto arrow = text.find("->"); arrow != std::string_view::npos) {
    call.result = std::string(trimmed(text.substr(arrow + 2)));
    if (*call.result == "*") call.result.reset();
    text = text.substr(0, arrow);
  }
  Words words(text);
  call.name = std::string(words.next());
  while (!words.empty()) call.arguments.emplace_back(words.next());
  return call;
}

void read_step(std::string_view text, Step& step, std::vector<Step>& before) {
  if (text.starts_with('+') || text.starts_with('@')) {
    Words words(text);
    const std::string_view word = words.next();
    step.time = time_of(word);
    text = trimmed(text.substr(word.size()));
  }
  if (take_prefix(text, "&")) {
    auto* const burst = before.empty() ? nullptr : std::get_if<ArrivalStep>(&before.back().what);
    if (burst == nullptr || step.time || !take_prefix(text, "<")) {
      refuse("'& <' belongs behind a '<', without a time");
    }
    burst->burst.push_back(arrival_of(text));
    return;
  }
  if (take_prefix(text, "<")) {
    step.what = ArrivalStep{{arrival_of(text)}};
  } else if (take_prefix(text, ">")) {
    step.what = ExpectStep{expected_of(text)};
  } else if (text == "nothing") {
    step.what = NothingStep{};
  } else if (take_prefix(text, "tolerance ")) {
    step.what = ToleranceStep{duration_of(text)};
  } else if (text == "flow" || take_prefix(text, "flow ")) {
    step.what = flow_of(text == "flow" ? "" : text);
  } else {
    step.what = call_of(text);
  }
  const bool instant = !std::holds_alternative<ExpectStep>(step.what);
  if (instant && step.time && !step.time->bare) refuse("a range of times for something to do");
  before.push_back(std::move(step));
}

}  // namespace

std::vector<Step> read_script(std::string_view script) {
  std::vector<Step> steps;
  int number = 0;
  while (!script.empty()) {
    ++number;
    const auto end = script.find('\n');
    std::string_view text = script.substr(0, end);
    script = end == std::string_view::npos ? "" : script.substr(end + 1);
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    Step step{.line = number, .text = std::string(text), .time = {}, .what = NothingStep{}};
    try {
      read_step(text, step, steps);
    } catch (const LineError& error) {
      throw SyntaxError{number, fmt::format("{}: {}", text, error.text)};
    }
  }
  return steps;
}

}  // namespace pinion::test

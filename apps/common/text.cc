#include "text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace pinion::apps {
namespace {

using tl::unexpected;

constexpr std::uint64_t kMaxNanoseconds = std::numeric_limits<std::int64_t>::max();

struct Unit {
  std::string_view name;
  std::uint64_t scale;
};

constexpr std::array<Unit, 7> kTimeUnits = {{{"d", 86'400'000'000'000},
                                             {"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};

constexpr std::array<Unit, 8> kSizeUnits = {{{"", 1},
                                             {"B", 1},
                                             {"KiB", 1ULL << 10},
                                             {"K", 1ULL << 10},
                                             {"MiB", 1ULL << 20},
                                             {"M", 1ULL << 20},
                                             {"GiB", 1ULL << 30},
                                             {"G", 1ULL << 30}}};

constexpr std::size_t kMaxCpus = 4096;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the leading digits off `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

/// Digits as a number; false when they do not fit.
bool to_number(std::string_view digits, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size();
}

/// `0.fraction * scale`, rounded up. From the last digit to the first, so that each step's rounding
/// up is that of the whole (a ceiling of ceilings is the ceiling).
std::uint64_t scaled_fraction(std::string_view fraction, std::uint64_t scale) {
  std::uint64_t value = 0;
  for (std::size_t i = fraction.size(); i-- > 0;) {
    const auto digit = static_cast<std::uint64_t>(fraction[i] - '0');
    value = (value + digit * scale + 9) / 10;
  }
  return value;
}

/// One "number unit" off the front of `text`, in nanoseconds, or what is wrong.
Parsed<std::uint64_t> take_duration_part(std::string_view& text) {
  const std::string_view digits = take_digits(text);
  std::string_view fraction;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return unexpected(std::string("not a duration"));
  }
  if (digits.empty()) return unexpected(std::string("not a duration"));
  // The letters up to the next digit are the unit: "1m30s" is a minute and 30 seconds.
  const std::string_view name = text.substr(0, text.find_first_of("0123456789."));
  const auto* unit = std::ranges::find(kTimeUnits, name, &Unit::name);
  if (unit == kTimeUnits.end()) {
    return unexpected(std::string(text.empty() ? "a duration needs a unit" : "not a duration"));
  }
  text.remove_prefix(unit->name.size());
  std::uint64_t number = 0;
  if (!to_number(digits, number) || number > kMaxNanoseconds / unit->scale) {
    return unexpected(std::string("longer than 292 years"));
  }
  return number * unit->scale + scaled_fraction(fraction, unit->scale);
}

}  // namespace

Parsed<Delay> parse_duration(std::string_view text) {
  if (text == "none") return kNoTimeout;
  if (text.empty()) return unexpected(std::string("not a duration"));
  std::uint64_t total = 0;
  while (!text.empty()) {
    const Parsed<std::uint64_t> part = take_duration_part(text);
    if (!part) return unexpected(part.error());
    if (*part >= kMaxNanoseconds - total) return unexpected(std::string("longer than 292 years"));
    total += *part;
  }
  return Delay(std::chrono::nanoseconds(static_cast<std::int64_t>(total)));
}

std::string format_duration(Delay delay) {
  if (delay == kNoTimeout) return "none";
  auto rest = static_cast<std::uint64_t>(std::max<std::int64_t>(delay.count(), 0));
  if (rest == 0) return "0s";
  std::string text;
  for (const Unit& unit : kTimeUnits) {
    if (rest < unit.scale || (unit.name == "m" && text.empty() && rest < 2 * unit.scale)) continue;
    text += fmt::format("{}{}", rest / unit.scale, unit.name);
    rest %= unit.scale;
  }
  return text;
}

std::string rounded_duration(std::uint64_t nanoseconds) {
  constexpr std::array<Unit, 4> kUnits = {
      {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
  const Unit* unit = kUnits.data();
  // 999.5 would print as "1000": the next unit starts there.
  while (unit != &kUnits.back() && nanoseconds * 2 >= unit->scale * 1999) ++unit;
  const double value = static_cast<double>(nanoseconds) / static_cast<double>(unit->scale);
  const int decimals = unit->scale == 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, unit->name);
}

Parsed<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view digits = take_digits(text);
  if (digits.empty()) return unexpected(std::string("not a size"));
  const auto* unit = std::ranges::find(kSizeUnits, text, &Unit::name);
  if (unit == kSizeUnits.end()) return unexpected(std::string("not a size"));
  std::uint64_t number = 0;
  if (!to_number(digits, number) ||
      number > std::numeric_limits<std::uint64_t>::max() / unit->scale) {
    return unexpected(std::string("too large"));
  }
  return number * unit->scale;
}

std::string format_size(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  constexpr std::array<Unit, 3> kUnits = {
      {{"GiB", 1ULL << 30}, {"MiB", 1ULL << 20}, {"KiB", 1ULL << 10}}};
  for (const Unit& unit : kUnits) {
    if (bytes % unit.scale == 0) return fmt::format("{}{}", bytes / unit.scale, unit.name);
  }
  return fmt::format("{}", bytes);
}

Parsed<std::uint64_t> parse_number(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool separator = text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!separator && !is_digit(text[i])) return unexpected(std::string("not a whole number"));
    if (!separator) digits += text[i];
  }
  if (digits.empty()) return unexpected(std::string("not a whole number"));
  std::uint64_t number = 0;
  if (!to_number(digits, number)) return unexpected(std::string("too large"));
  return number;
}

bool is_toml_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string grouped(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

Parsed<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  const auto wrong = [] { return unexpected(std::string("not a list of CPUs")); };
  for (;;) {
    std::uint64_t first = 0;
    if (!to_number(take_digits(text), first)) return wrong();
    std::uint64_t last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      if (!to_number(take_digits(text), last) || last < first) return wrong();
    }
    if (last >= kMaxCpus) return unexpected(fmt::format("CPUs go up to {}", kMaxCpus - 1));
    for (std::uint64_t cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<unsigned>(cpu));
    if (text.empty()) break;
    if (text.front() != ',') return wrong();
    text.remove_prefix(1);
  }
  std::ranges::sort(cpus);
  if (const auto twice = std::ranges::adjacent_find(cpus); twice != cpus.end()) {
    return unexpected(fmt::format("CPU {} is named twice", *twice));
  }
  return cpus;
}

std::string format_cpu_list(std::span<const unsigned> cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

Parsed<bool> parse_boolean(std::string_view text) {
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return unexpected(std::string("neither true nor false"));
}

std::string quoted_for_shell(std::string_view text) {
  const bool plain =
      !text.empty() && text.find_first_of(" \t\n'\"\\$`;&|<>()[]{}*?#~!") == text.npos;
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    const auto next = static_cast<unsigned char>(i + 1 < shown.size() ? shown[i + 1] : 0);
    // U+0080 to U+009F control a terminal as well.
    const bool long_control = byte == 0xc2 && next >= 0x80 && next <= 0x9f;
    if (byte < 0x20 || byte == 0x7f || long_control) shown[i] = '?';
    if (long_control) shown[++i] = '?';
  }
  return shown;
}

namespace {

/// Edit distance with swaps of neighbours (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : names) {
    const std::size_t d = distance(word, name);
    const std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
    if (d <= limit && d < best_distance) {
      best = name;
      best_distance = d;
    }
  }
  return best;
}

}  // namespace pinion::apps

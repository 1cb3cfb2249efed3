#include "settings_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "program.h"
#include "text.h"

namespace pinion::apps {

struct NotToml {};
[[noreturn]] inline void throw_not_toml() {
  throw NotToml();
}

}  // namespace pinion::apps

// The parser asserts what a file may well break ("[[." does). So its assertions throw here, also in
// a build without assertions, where it would take them for granted and go on.
#undef NDEBUG
#define TOML_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::pinion::apps::throw_not_toml())
#include <toml++/toml.h>

namespace pinion::apps {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostBare = 100;  ///< Bytes of a name or value without quotes.
constexpr std::string_view kForm = "one setting a line, name = value, with text in quotes";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string read_whole_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || errno == EISDIR) {
    throw_usage_error(fmt::format("can't read the settings file {}: {}", quoted_for_shell(path),
                                  std::strerror(errno == 0 ? EIO : errno)),
                      "--config or PINION_CONFIG, a file that exists and that this user may read");
  }
  if (text.size() > kMostBytes) {
    throw_usage_error(
        fmt::format("the settings file {} is larger than 64 KiB", quoted_for_shell(path)),
        "--config or PINION_CONFIG, a file of settings");
  }
  return text;
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r"), text.size()));
  return text;
}

/// The length of the quoted text that `text` begins with; npos: it doesn't end.
std::size_t quoted_length(std::string_view text) {
  const char quote = text.front();
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == quote) return at + 1;
    if (quote == '"' && text[at] == '\\') ++at;
  }
  return text.npos;
}

/// The length of the number, the date or the like that `text` begins with; npos: it is none. What
/// begins in the line ends there.
std::size_t bare_length(std::string_view text) {
  text = text.substr(0, text.find_first_of("\"'#"));
  const auto is_ascii = [](char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\r'; };
  const bool closed = std::ranges::count(text, '[') == std::ranges::count(text, ']') &&
                      std::ranges::count(text, '{') == std::ranges::count(text, '}');
  return text.size() <= kMostBare && closed && std::ranges::all_of(text, is_ascii) ? text.size()
                                                                                   : text.npos;
}

/// Whether a line is a setting, the head of a table, a comment or nothing.
bool has_form(std::string_view line) {
  constexpr std::string_view kOfNames =
      "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
  std::string_view rest = without_blanks(line);
  if (!rest.starts_with('[') && !rest.starts_with('#') && !rest.empty()) {
    const std::size_t name = std::min(rest.find_first_not_of(kOfNames), rest.size());
    rest = without_blanks(rest.substr(name));
    if (name == 0 || name > kMostBare || !rest.starts_with('=')) return false;
    rest = without_blanks(rest.substr(1));
  }
  const bool quoted = rest.starts_with('"') || rest.starts_with('\'');
  const std::size_t value = quoted ? quoted_length(rest) : bare_length(rest);
  if (value == rest.npos) return false;
  rest = without_blanks(rest.substr(value));
  return rest.empty() || rest.starts_with('#');
}

/// The parser has undefined behaviour for some letters beyond ASCII outside of quotes, ends the
/// process for numbers of 128 digits and runs out of stack for names of many parts (toml++ 3.3). It
/// gets to see lines of our form only.
void check_form(std::string_view text, const std::string& path) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!has_form(text.substr(0, end))) {
      throw_usage_error(fmt::format("{}:{}: not a setting", path, line), std::string(kForm));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

toml::table parse(std::string_view text, const std::string& path) {
  return toml::parse(text, std::string_view(path));
}

bool fails_assertion(std::string_view text) {
  try {
    static_cast<void>(parse(text, ""));
    return false;
  } catch (const toml::parse_error&) {
    return false;
  } catch (const NotToml&) {
    return true;
  }
}

/// The line at which an assertion fails, which doesn't say so itself: the first whose end the text
/// needs for that.
std::size_t failing_line(std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    ends.push_back(at + 1);
  }
  const auto fails = [text](std::size_t end) { return fails_assertion(text.substr(0, end)); };
  const auto first = std::ranges::partition_point(ends, std::not_fn(fails));
  return static_cast<std::size_t>(first - ends.begin()) + 1;
}

toml::table parse_toml(const std::string& path) {
  const std::string text = read_whole_file(path);
  check_form(text, path);
  try {
    return parse(text, path);
  } catch (const toml::parse_error& error) {
    throw_usage_error(fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                                  error.source().begin.column, error.description()),
                      std::string(kForm));
  } catch (const NotToml&) {
    throw_usage_error(fmt::format("{}:{}: not TOML", path, failing_line(text)), std::string(kForm));
  }
}

std::string_view type_name(toml::node_type type) {
  switch (type) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

FileEntry to_entry(const std::string& path, const toml::key& key, const toml::node& node) {
  FileEntry entry{.place = fmt::format("{}:{}", printable(path), key.source().begin.line),
                  .key = std::string(key.str()),
                  .type = std::string(type_name(node.type())),
                  .text = {}};
  if (const auto* text = node.as_string()) {
    entry.kind = FileKind::text;
    entry.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    entry.kind = FileKind::integer;
    entry.text = fmt::format("{}", number->get());
  } else if (const auto* truth = node.as_boolean()) {
    entry.kind = FileKind::boolean;
    entry.text = truth->get() ? "true" : "false";
  } else {
    return entry;
  }
  entry.usable = true;
  return entry;
}

}  // namespace

std::vector<FileEntry> read_settings_file(const std::string& path) {
  const toml::table table = parse_toml(path);
  std::vector<std::pair<toml::key, const toml::node*>> nodes;
  nodes.reserve(table.size());
  for (const auto& [key, node] : table) nodes.emplace_back(key, &node);
  // The table is sorted by name; the first error to show is the first in the file.
  std::ranges::sort(nodes, {}, [](const auto& pair) { return pair.first.source().begin.line; });
  std::vector<FileEntry> entries;
  entries.reserve(nodes.size());
  for (const auto& [key, node] : nodes) entries.push_back(to_entry(path, key, *node));
  return entries;
}

}  // namespace pinion::apps

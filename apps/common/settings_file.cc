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

constexpr std::size_t kMostBytes = 1 << 20;
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
        fmt::format("the settings file {} is larger than 1 MiB", quoted_for_shell(path)),
        "--config or PINION_CONFIG, a file of settings");
  }
  return text;
}

struct Quoted {
  std::size_t end = 0;  ///< Behind its last quote, or where the parser will complain.
  bool many_lines = false;
};

/// The quoted text that begins at `at`.
Quoted quoted_text(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool many_lines = text.substr(at, 3) == triple;
  for (at += many_lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (many_lines && text.substr(at, 3) == triple) {
      at += 3;
      for (int more = 0; more < 2 && text.substr(at, 1) == triple.substr(2); ++more) ++at;
      return {at, true};
    } else if (!many_lines && (text[at] == quote || text[at] == '\n')) {
      return {at + 1, false};
    }
  }
  return {text.size(), many_lines};
}

bool is_beyond_ascii(char c) {
  return static_cast<unsigned char>(c) >= 0x80;
}

/// The first byte beyond ASCII that is neither in a comment nor in a quoted text of one line; npos:
/// there is none. Elsewhere the parser takes some letters for ones that can't occur, which is
/// undefined behaviour (toml++ 3.3).
std::size_t find_stray_letter(std::string_view text) {
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    const char c = text[at];
    std::size_t end = at + 1;
    bool allowed = false;
    if (c == '#') {
      end = std::min(text.find('\n', at), text.size());
      allowed = true;
    } else if (c == '"' || c == '\'') {
      const Quoted quoted = quoted_text(text, at);
      end = std::min(quoted.end, text.size());
      allowed = !quoted.many_lines;
    }
    for (; at < end; ++at) {
      if (!allowed && is_beyond_ascii(text[at])) return at;
    }
  }
  return text.npos;
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
  if (const std::size_t at = find_stray_letter(text); at != text.npos) {
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw_usage_error(
        fmt::format("{}:{}: a letter beyond ASCII outside of a quoted text of one line", path,
                    line + 1),
        std::string(kForm));
  }
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

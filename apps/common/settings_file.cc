#include "settings_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "program.h"

namespace pinion::apps {
namespace {

std::string read_whole_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || errno == EISDIR) {
    throw_usage_error(fmt::format("can't read the settings file {}: {}", path,
                                  std::strerror(errno == 0 ? EIO : errno)),
                      "--config FILE, a file that exists and that this user may read");
  }
  return text.str();
}

toml::table parse_toml(const std::string& path) {
  try {
    return toml::parse(read_whole_file(path), path);
  } catch (const toml::parse_error& error) {
    throw_usage_error(fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                                  error.source().begin.column, error.description()),
                      "one setting a line, name = value, with text in quotes");
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
  FileEntry entry{.place = fmt::format("{}:{}", path, key.source().begin.line),
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

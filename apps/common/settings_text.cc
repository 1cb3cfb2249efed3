#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "settings.h"
#include "version.h"

namespace pinion::apps {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;

/// Breaks `text` at spaces so that no line is longer than `width`.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    std::size_t cut = text.rfind(' ', width);
    if (cut == std::string_view::npos) cut = std::min(text.find(' '), text.size());
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(std::min(cut + 1, text.size()));
  }
  lines.emplace_back(text);
  return lines;
}

/// TOML's basic string.
std::string quoted_for_file(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

std::string Settings::file_value(FileKind kind, const std::string& text) {
  const bool number = kind == FileKind::integer || kind == FileKind::size;
  const bool bare = kind == FileKind::boolean || (number && is_toml_integer(text));
  return bare ? text : quoted_for_file(text);
}

std::string Settings::help_text() const {
  std::vector<HelpRow> rows;
  std::map<std::string, std::string> examples;
  for (const Setting& setting : settings_) {
    const bool flag = setting.kind == FileKind::boolean;
    HelpRow row{.left = fmt::format("--{}{}{}", setting.name, flag ? "" : " ", setting.value_name),
                .right = setting.help};
    if (!flag && !setting.default_text.empty()) {
      row.note = fmt::format("default {}{}{}", setting.default_text,
                             setting.choices.empty() ? "" : "; ", setting.choices);
    }
    rows.push_back(std::move(row));
    if (!setting.examples.empty()) examples[setting.value_name] = setting.examples;
  }
  rows.push_back({"--config FILE", "read settings from this TOML file"});
  rows.push_back({"--print-config", "show every setting and where it comes from, as TOML"});
  rows.push_back({"-h, --help", "show this text"});
  rows.push_back({"-V, --version", "show the version"});

  std::string text = fmt::format("{} {}: {}\n\nusage: {} [options]\n\n{}\n", program_.name,
                                 kVersion, program_.summary, program_.name, help_table(rows));
  for (const auto& [value_name, example] : examples) {
    text += fmt::format("{} is {}.\n", value_name, example);
  }
  text +=
      "\nOptions override the environment (--lcores is PINION_LCORES), which overrides\n"
      "the file (lcores = 1), which overrides the defaults.\n";
  if (!program_.examples.empty()) text += fmt::format("\nexamples:\n{}", program_.examples);
  return text;
}

std::string Settings::help_table(const std::vector<HelpRow>& rows) {
  std::size_t left = 0;
  for (const HelpRow& row : rows) left = std::max(left, row.left.size());
  const std::size_t column = kIndent + left + kGap;
  std::string text;
  for (const HelpRow& row : rows) {
    std::string start = fmt::format("{:{}}{:{}}", "", kIndent, row.left, left + kGap);
    for (const std::string& part : {row.right, row.note}) {
      if (part.empty()) continue;
      for (const std::string& line : wrapped(part, kWidth - column)) {
        text += fmt::format("{}{}\n", start, line);
        start.assign(column, ' ');
      }
    }
  }
  return text;
}

std::string Settings::config_text() const {
  std::size_t width = 0;
  std::vector<std::string> lines;
  for (const Setting& setting : settings_) {
    lines.push_back(fmt::format("{} = {}", setting.name, file_value(setting.kind, setting.show())));
    width = std::max(width, lines.back().size());
  }
  std::string text = fmt::format("# {} {}: the settings in effect\n", program_.name, kVersion);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("{:{}}  # {}\n", lines[i], width, settings_[i].source);
  }
  return text;
}

}  // namespace pinion::apps

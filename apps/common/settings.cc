#include "settings.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <pinion/lib/assert.h>
#include <CLI/CLI.hpp>

#include "program.h"
#include "settings_file.h"
#include "version.h"

namespace pinion::apps {
namespace {

/// PINION_READ_TIMEOUT for read-timeout.
std::string environment_name(std::string_view name) {
  std::string text = "PINION_";
  for (const char c : name) {
    text += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

/// "Such as 10, from 1 to 20" after the name of a flag or variable and what joins it to a value.
std::string shown_use(const std::string& name, char joint, const std::string& value_name,
                      const std::string& allowed) {
  if (value_name.empty()) return fmt::format("{0}=true, or {0}=false", name);
  const std::string use = fmt::format("{}{}{}", name, joint, value_name);
  return allowed.empty() ? use : fmt::format("{}, {}", use, allowed);
}

std::string_view kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::text:
      return "text in quotes";
    case FileKind::integer:
      return "a whole number";
    case FileKind::boolean:
      return "true or false";
    case FileKind::size:
      return "a whole number, or text such as \"4KiB\"";
  }
  return "";
}

/// A size may be text with a unit; a number beyond TOML's 64 bits with a sign is text, too.
bool fits(const FileEntry& entry, FileKind wanted) {
  if (entry.kind == wanted) return true;
  if (wanted == FileKind::size) {
    return entry.kind == FileKind::integer || entry.kind == FileKind::text;
  }
  return wanted == FileKind::integer && entry.kind == FileKind::text &&
         !is_toml_integer(entry.text) && parse_number(entry.text).has_value();
}

}  // namespace

/// What the command line said, before any value is looked at.
struct Settings::CommandLine {
  std::map<std::string, std::string, std::less<>> values;
  std::optional<std::string> config;
  bool help = false;
  bool version = false;
  bool print_config = false;
};

Settings::Settings(ProgramText program) : program_(std::move(program)) {}

void Settings::add_setting(Setting setting) {
  PINION_ASSERT(find(setting.name) == nullptr);
  setting.default_text = setting.show();
  settings_.push_back(std::move(setting));
}

void Settings::follow(std::string_view name, std::string_view other,
                      std::function<std::string()> value) {
  PINION_ASSERT(find(name) != nullptr);
  PINION_ASSERT(find(other) != nullptr);
  followers_.push_back({std::string(name), std::string(other), std::move(value)});
}

std::string Settings::allowed(const Setting& setting) {
  if (setting.examples.empty()) return setting.choices;
  if (setting.choices.empty()) return setting.examples;
  return fmt::format("{}, {}", setting.examples, setting.choices);
}

const Settings::Setting* Settings::find(std::string_view name) const {
  const auto found = std::ranges::find(settings_, name, &Setting::name);
  return found == settings_.end() ? nullptr : &*found;
}

Settings::Setting* Settings::find(std::string_view name) {
  const auto found = std::ranges::find(settings_, name, &Setting::name);
  return found == settings_.end() ? nullptr : &*found;
}

std::vector<std::string> Settings::names() const {
  std::vector<std::string> names;
  for (const Setting& setting : settings_) names.push_back(setting.name);
  return names;
}

const std::string& Settings::source(std::string_view name) const {
  const Setting* setting = find(name);
  PINION_ASSERT(setting != nullptr);
  return setting->source;
}

bool Settings::read(int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(argc, argv);
  if (line.help) {
    print_answer(help_text());
    return false;
  }
  if (line.version) {
    print_answer(version_text());
    return false;
  }
  const char* config = std::getenv("PINION_CONFIG");
  if (line.config) {
    read_file(*line.config);
  } else if (config != nullptr && *config != '\0') {
    read_file(config);
  }
  read_environment();
  read_flags(line);
  read_followers();
  if (line.print_config) print_answer(config_text());
  return !line.print_config;
}

Settings::CommandLine Settings::parse_command_line(int argc, const char* const* argv) const {
  CommandLine line;
  std::map<std::string, std::string, std::less<>> given;
  std::string config;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", line.help);
  app.add_flag("-V,--version", line.version);
  app.add_flag("--print-config", line.print_config);
  const CLI::Option* config_option = app.add_option("--config", config)->take_last();
  std::vector<std::pair<std::string, CLI::Option*>> options;
  for (const Setting& setting : settings_) {
    std::string& text = given[setting.name];
    const std::string flag = "--" + setting.name;
    CLI::Option* option =
        setting.kind == FileKind::boolean ? app.add_flag(flag, text) : app.add_option(flag, text);
    options.emplace_back(setting.name, option->take_last());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    reject_missing_value(text.substr(0, text.find(':')));
  } catch (const CLI::ParseError& error) {
    throw_usage_error(error.what(), program_.name + " --help lists all options");
  }
  if (const std::vector<std::string> rest = app.remaining(); !rest.empty()) {
    reject_argument(rest.front());
  }
  if (config_option->count() > 0) line.config = config;
  for (const auto& [name, option] : options) {
    if (option->count() > 0) line.values[name] = given[name];
  }
  return line;
}

void Settings::reject_missing_value(const std::string& flag) const {
  const Setting* setting = find(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  throw_usage_error(flag + " needs a value",
                    setting == nullptr
                        ? flag + " FILE"
                        : shown_use(flag, ' ', setting->value_name, allowed(*setting)));
}

void Settings::reject_argument(const std::string& argument) const {
  const std::string all = program_.name + " --help lists all options";
  if (!argument.starts_with('-')) {
    throw_usage_error(fmt::format("unexpected argument {}", quoted_for_shell(argument)), all);
  }
  const std::string flag = argument.substr(0, argument.find('='));
  std::vector<std::string> candidates = names();
  candidates.insert(candidates.end(), {"config", "print-config", "help", "version"});
  const std::size_t word = std::min(flag.find_first_not_of('-'), flag.size());
  const std::string nearest = nearest_name(flag.substr(word), candidates);
  throw_usage_error(fmt::format("unknown option {}", flag),
                    nearest.empty() ? all : fmt::format("--{}; {}", nearest, all));
}

void Settings::read_file(const std::string& path) {
  for (const FileEntry& entry : read_settings_file(path)) read_file_entry(entry);
}

void Settings::read_file_entry(const FileEntry& entry) {
  Setting* setting = find(entry.key);
  if (setting == nullptr) {
    const std::string nearest = nearest_name(entry.key, names());
    throw_usage_error(
        fmt::format("{}: unknown setting {}", entry.place, quoted_for_shell(entry.key)),
        nearest.empty() ? fmt::format("{} --print-config lists all settings", program_.name)
                        : fmt::format("{} = …", nearest));
  }
  const std::string example =
      fmt::format("{} = {}", setting->name, file_value(setting->kind, setting->default_text));
  if (!entry.usable || !fits(entry, setting->kind)) {
    throw_usage_error(fmt::format("{}: {} must be {}, this is {}", entry.place, setting->name,
                                  kind_name(setting->kind), entry.type),
                      example);
  }
  if (const Parsed<void> assigned = setting->assign(entry.text); !assigned) {
    throw_usage_error(fmt::format("{}: {} = {}: {}", entry.place, setting->name,
                                  file_value(entry.kind, entry.text), assigned.error()),
                      fmt::format("{}; {}", example, allowed(*setting)));
  }
  setting->source = "file " + entry.place;
}

void Settings::read_environment() {
  for (Setting& setting : settings_) {
    const std::string variable = environment_name(setting.name);
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr || *text == '\0') continue;
    if (const Parsed<void> assigned = setting.assign(text); !assigned) {
      throw_usage_error(
          fmt::format("{}={}: {}", variable, quoted_for_shell(text), assigned.error()),
          shown_use(variable, '=', setting.value_name, allowed(setting)));
    }
    setting.source = "environment " + variable;
  }
}

void Settings::read_flags(const CommandLine& line) {
  for (Setting& setting : settings_) {
    const auto given = line.values.find(setting.name);
    if (given == line.values.end()) continue;
    if (const Parsed<void> assigned = setting.assign(given->second); !assigned) {
      throw_usage_error(fmt::format("--{} {}: {}", setting.name, quoted_for_shell(given->second),
                                    assigned.error()),
                        shown_use("--" + setting.name, ' ', setting.value_name, allowed(setting)));
    }
    setting.source = "flag";
  }
}

void Settings::read_followers() {
  for (const Follower& follower : followers_) {
    Setting& setting = *find(follower.name);
    const Setting& other = *find(follower.other);
    if (setting.source != "default" || other.show() == other.default_text) continue;
    const std::string text = follower.value();
    if (const Parsed<void> assigned = setting.assign(text); !assigned) {
      throw_usage_error(
          fmt::format("--{} makes --{} {}: {}", other.name, setting.name, text, assigned.error()),
          shown_use("--" + setting.name, ' ', setting.value_name, allowed(setting)));
    }
    setting.source = other.name;
  }
}

std::string Settings::version_text() const {
  return fmt::format("{} {}\n", program_.name, kVersion);
}

}  // namespace pinion::apps

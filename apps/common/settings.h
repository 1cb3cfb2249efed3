#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "text.h"

/// The settings of a program: each declared once, with its name, range, unit and help, and filled
/// from the first of these that names it:
///
///   flag          --read-timeout 30s
///   environment   PINION_READ_TIMEOUT=30s
///   file          read-timeout = "30s"      (TOML, the file of --config or PINION_CONFIG)
///   default       what the variable held when it was declared
///
/// Ownership:   the variables belong to the program; they must outlive the Settings.
/// Errors:      thrown as wrong use (program.h), with the place and the remedy, before the program
///              has done anything.

namespace pinion::apps {

/// What stands in a file for a setting of this kind.
enum class FileKind { text, integer, boolean, size };

/// How a type is read and written. `kValueName` names a value in the help; `kExamples` shows some
/// ("such as …") and `kChoices` says which are right, where either helps.
template <class T>
struct Codec;

template <>
struct Codec<std::string> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "TEXT";
  static constexpr std::string_view kExamples = {};
  static constexpr std::string_view kChoices = {};
  static Parsed<std::string> parse(std::string_view text) { return std::string(text); }
  static std::string format(const std::string& value) { return value; }
};

template <>
struct Codec<bool> {
  static constexpr FileKind kKind = FileKind::boolean;
  static constexpr std::string_view kValueName = {};
  static constexpr std::string_view kExamples = {};
  static constexpr std::string_view kChoices = "true or false";
  static Parsed<bool> parse(std::string_view text) { return parse_boolean(text); }
  static std::string format(bool value) { return value ? "true" : "false"; }
};

template <std::unsigned_integral T>
struct Codec<T> {
  static constexpr FileKind kKind = FileKind::integer;
  static constexpr std::string_view kValueName = "N";
  static constexpr std::string_view kExamples = {};
  static constexpr std::string_view kChoices = "a whole number";
  static Parsed<T> parse(std::string_view text) {
    const Parsed<std::uint64_t> number = parse_number(text);
    if (!number) return tl::unexpected(number.error());
    if (*number > std::numeric_limits<T>::max()) return tl::unexpected(std::string("too large"));
    return static_cast<T>(*number);
  }
  static std::string format(T value) { return fmt::format("{}", value); }
};

template <>
struct Codec<Delay> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "TIME";
  static constexpr std::string_view kExamples = "such as 250ms, 30s or 1m30s";
  static constexpr std::string_view kChoices = {};
  static Parsed<Delay> parse(std::string_view text) { return parse_duration(text); }
  static std::string format(Delay value) { return format_duration(value); }
};

/// A number of bytes, so that it is read and written as a size.
struct ByteCount {
  std::uint64_t value = 0;
  friend auto operator<=>(ByteCount, ByteCount) = default;
};

template <>
struct Codec<ByteCount> {
  static constexpr FileKind kKind = FileKind::size;
  static constexpr std::string_view kValueName = "SIZE";
  static constexpr std::string_view kExamples = "such as 64, 4KiB or 1MiB";
  static constexpr std::string_view kChoices = {};
  static Parsed<ByteCount> parse(std::string_view text) {
    return parse_size(text).map([](std::uint64_t bytes) { return ByteCount{bytes}; });
  }
  static std::string format(ByteCount bytes) { return format_size(bytes.value); }
};

/// CPUs by number; empty means that the program chooses.
template <>
struct Codec<std::vector<unsigned>> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "LIST";
  static constexpr std::string_view kExamples = "such as 0-1,3, or auto";
  static constexpr std::string_view kChoices = {};
  static Parsed<std::vector<unsigned>> parse(std::string_view text) {
    if (text == "auto") return std::vector<unsigned>{};
    return parse_cpu_list(text);
  }
  static std::string format(const std::vector<unsigned>& cpus) {
    return cpus.empty() ? "auto" : format_cpu_list(cpus);
  }
};

template <class T>
struct Range {
  T least;
  T most;
};

struct Description {
  std::string name;             ///< "read-timeout": the flag, the file's key, PINION_READ_TIMEOUT
  std::string help;             ///< one sentence, no full stop
  std::string value_name = {};  ///< of the value, where the type's own says too little
};

/// What a program is, for --help and --version.
struct ProgramText {
  std::string name;
  std::string summary;
  std::string examples = {};  ///< lines, shown as they are
};

struct FileEntry;

class Settings {
 public:
  explicit Settings(ProgramText program);

  /// Declares a setting that fills `value`. A Delay range whose end is kNoTimeout allows "none".
  template <class T>
  void add(T& value, Description description,
           std::type_identity_t<std::optional<Range<T>>> range = std::nullopt);

  /// Where nothing names `name`, and `other` isn't its default, `value` says what it is.
  void follow(std::string_view name, std::string_view other, std::function<std::string()> value);

  /// Fills all values. False when the command line asked for --help, --version or --print-config,
  /// which are then answered on stdout: nothing is left to do. Throws ProgramError.
  [[nodiscard]] bool read(int argc, const char* const* argv);

  /// Where a value came from: "default", "flag", "environment PINION_…", "file x.toml:3", "cpus"
  /// (of one that follows that setting).
  [[nodiscard]] const std::string& source(std::string_view name) const;

  [[nodiscard]] std::string help_text() const;
  [[nodiscard]] std::string version_text() const;

  /// The settings in effect as a TOML file that can be given to --config, each with its source.
  [[nodiscard]] std::string config_text() const;

 private:
  struct Setting {
    std::string name;
    std::string help;
    std::string value_name;
    std::string examples;
    std::string choices;
    FileKind kind;
    std::function<Parsed<void>(std::string_view)> assign;
    std::function<std::string()> show;
    std::string default_text = {};
    std::string source = "default";
  };
  struct Follower {
    std::string name;
    std::string other;
    std::function<std::string()> value;
  };
  struct CommandLine;
  struct HelpRow {
    std::string left;
    std::string right;
    std::string note = {};
  };

  /// What may be written: "such as 250ms, 30s or 1m30s, from 1s to 1h".
  static std::string allowed(const Setting& setting);
  static std::string help_table(const std::vector<HelpRow>& rows);
  void add_setting(Setting setting);
  const Setting* find(std::string_view name) const;
  Setting* find(std::string_view name);
  std::vector<std::string> names() const;
  CommandLine parse_command_line(int argc, const char* const* argv) const;
  [[noreturn]] void reject_missing_value(const std::string& flag) const;
  [[noreturn]] void reject_argument(const std::string& argument) const;
  void read_file(const std::string& path);
  void read_environment();
  void read_flags(const CommandLine& line);
  void read_followers();
  void read_file_entry(const FileEntry& entry);
  static std::string file_value(FileKind kind, const std::string& text);

  ProgramText program_;
  std::vector<Setting> settings_;
  std::vector<Follower> followers_;
};

namespace detail {

/// "from 1 to 8"; a Delay that may be kNoTimeout: "from 1ms, or none".
template <class T>
std::string range_text(const Range<T>& range) {
  std::string text = "from " + Codec<T>::format(range.least);
  if constexpr (std::same_as<T, Delay>) {
    if (range.most == kNoTimeout) return text + ", or none";
  }
  return text + " to " + Codec<T>::format(range.most);
}

/// Types without an order have no range.
template <class T>
bool within(const T& value, const std::optional<Range<T>>& range) {
  if constexpr (std::totally_ordered<T>) {
    return !range || (value >= range->least && value <= range->most);
  } else {
    return !range;
  }
}

}  // namespace detail

template <class T>
void Settings::add(T& value, Description description,
                   std::type_identity_t<std::optional<Range<T>>> range) {
  Setting setting{
      .name = std::move(description.name),
      .help = std::move(description.help),
      .value_name = description.value_name.empty() ? std::string(Codec<T>::kValueName)
                                                   : std::move(description.value_name),
      .examples = std::string(Codec<T>::kExamples),
      .choices = range ? detail::range_text(*range) : std::string(Codec<T>::kChoices),
      .kind = Codec<T>::kKind,
      .assign = [&value, range](std::string_view text) -> Parsed<void> {
        Parsed<T> parsed = Codec<T>::parse(text);
        if (!parsed) return tl::unexpected(std::move(parsed.error()));
        if (!detail::within(*parsed, range)) return tl::unexpected(std::string("out of range"));
        value = std::move(*parsed);
        return {};
      },
      .show = [&value] { return Codec<T>::format(value); },
  };
  add_setting(std::move(setting));
}

}  // namespace pinion::apps

#pragma once

#include <string>
#include <vector>

#include "settings.h"

/// The settings file as lines, so that TOML's parser stays in one source file.

namespace pinion::apps {

struct FileEntry {
  std::string place;  ///< "echo.toml:3"
  std::string key;
  std::string type;  ///< what stands there, in words: "a whole number"
  std::string text;  ///< the value; empty when its type is none that a setting may have
  FileKind kind = FileKind::text;
  bool usable = false;  ///< false for tables, arrays, dates and fractions
};

/// The entries in the file's order. Throws ProgramError when it can't be read or is not TOML.
[[nodiscard]] std::vector<FileEntry> read_settings_file(const std::string& path);

}  // namespace pinion::apps

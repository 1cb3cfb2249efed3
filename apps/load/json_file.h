#pragma once

#include <string>
#include <string_view>

/// The file of --json: opened before anything starts, so that a run isn't lost for a bad name, and
/// written when it is over.
///
/// Threading:  one thread, which a pipe whose reader stands still holds for some seconds at most.
/// Errors:     thrown as ProgramError (program.h).

namespace pinion::apps {

class JsonFile {
 public:
  /// Without a path there is no file, and write() does nothing.
  explicit JsonFile(std::string path);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  ~JsonFile();

  /// Writes all of it, and closes the file.
  void write(std::string_view text);

 private:
  [[noreturn]] void fail(int errno_value) const;

  std::string path_;
  int fd_ = -1;
};

}  // namespace pinion::apps

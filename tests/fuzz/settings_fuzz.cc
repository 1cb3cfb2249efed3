#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "common/program.h"
#include "common/settings_file.h"

/// A settings file: whatever stands in it, it is read, or refused with two lines.

namespace {

/// A file of this process, in memory.
class File {
 public:
  File() : fd_(memfd_create("settings", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }

  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }
  void fill(const std::uint8_t* data, std::size_t size) const {
    if (ftruncate(fd_, 0) != 0) std::abort();
    if (pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }

 private:
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const File file;
  file.fill(data, size);
  try {
    for (const pinion::apps::FileEntry& entry : pinion::apps::read_settings_file(file.path())) {
      if (entry.place.empty() || entry.type.empty()) std::abort();
    }
  } catch (const pinion::apps::ProgramError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <pinion/net/capture.h>

namespace pinion {

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(std::string path) {
  constexpr mode_t kOwnerOnly = 0600;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) {
    return tl::unexpected(
        errno_error(errno, "capture file " + path, "a path in a directory that may be written to"));
  }
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(path), descriptor));
}

CaptureFile::CaptureFile(std::string path, int descriptor) noexcept
    : path_(std::move(path)), descriptor_(descriptor) {}

CaptureFile::~CaptureFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::size_t> CaptureFile::write(std::span<const std::byte> bytes) {
  PINION_ASSERT(descriptor_ >= 0);
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written > 0) return static_cast<std::size_t>(written);
  const int cause = written == 0 ? ENOSPC : errno;
  return tl::unexpected(errno_error(cause, "writing to capture file " + path_,
                                    "df " + path_ + " shows the room that is left"));
}

Result<> CaptureFile::close() {
  PINION_ASSERT(descriptor_ >= 0);
  if (::close(std::exchange(descriptor_, -1)) == 0) return {};
  return tl::unexpected(errno_error(errno, "closing capture file " + path_,
                                    "df " + path_ + " shows the room that is left"));
}

}  // namespace pinion

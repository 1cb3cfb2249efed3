#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include <pinion/net/capture.h>

namespace pinion {

namespace {

/// Opens what is there or makes a file, and empties nothing. A link is followed to what is no file
/// alone: whoever may write to a directory such as /tmp may have put it in the way.
Result<int> open_path(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (made >= 0) return made;
  const int linked = errno == ELOOP ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC) : -1;
  struct stat status{};
  if (linked >= 0 && ::fstat(linked, &status) == 0 && !S_ISREG(status.st_mode)) return linked;
  if (linked < 0) {
    return tl::unexpected(
        errno_error(errno, "capture file " + path, "a path in a directory that may be written to"));
  }
  ::close(linked);
  return fail(ErrorCode::permission_denied, "capture file " + path + ": it is a link to a file",
              "the file's own path: readlink -f " + path);
}

/// Makes a file its user's alone, and empty. Devices, pipes and the like are what they are.
Result<> make_private(int descriptor, const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  struct stat status{};
  int result = ::fstat(descriptor, &status);
  if (result == 0 && !S_ISREG(status.st_mode)) return {};
  if (result == 0 && status.st_uid != ::geteuid()) {
    return fail(ErrorCode::permission_denied,
                "capture file " + path + ": it belongs to user " + std::to_string(status.st_uid),
                "another path, or: rm " + path);
  }
  if (result == 0) result = ::fchmod(descriptor, kOwnerOnly);
  if (result == 0) result = ::ftruncate(descriptor, 0);
  if (result == 0) return {};
  return tl::unexpected(errno_error(errno, "capture file " + path, "another path"));
}

}  // namespace

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(std::string path) {
  const Result<int> descriptor = open_path(path);
  if (!descriptor) return tl::unexpected(descriptor.error());
  if (Result<> done = make_private(*descriptor, path); !done) {
    ::close(*descriptor);
    return tl::unexpected(done.error());
  }
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(path), *descriptor));
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

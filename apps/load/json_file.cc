#include "load/json_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include <fmt/format.h>

#include "common/program.h"
#include "common/text.h"

namespace pinion::apps {
namespace {

/// How long the reader of a pipe may take nothing.
constexpr std::chrono::milliseconds kPatience{5000};

}  // namespace

JsonFile::JsonFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(errno);
}

JsonFile::~JsonFile() {
  if (fd_ >= 0) close(fd_);
}

void JsonFile::write(std::string_view text) {
  if (fd_ < 0) return;
  while (!text.empty()) {
    pollfd wait{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (poll(&wait, 1, static_cast<int>(kPatience.count())) == 0) fail(ETIMEDOUT);
    const ssize_t written = ::write(fd_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (close(std::exchange(fd_, -1)) != 0) fail(errno);
}

void JsonFile::fail(int errno_value) const {
  throw ProgramError(
      errno_error(errno_value, fmt::format("can't write {}", quoted_for_shell(path_)),
                  "--json FILE, in a folder that exists and may be written, with room"),
      kExitFailed);
}

}  // namespace pinion::apps

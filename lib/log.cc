#include <pinion/lib/log.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <string_view>

#include <poll.h>
#include <unistd.h>

namespace pinion {
namespace detail {

std::atomic<LogLevel> current_log_level{LogLevel::info};

namespace {

std::string_view name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
    case LogLevel::off:
      break;
  }
  return "error";
}

/// The time in UTC and the level. A log has the one clock read that belongs to no loop.
void append_prefix(fmt::memory_buffer& line, LogLevel level) {
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm date{};
  ::gmtime_r(&now.tv_sec, &date);
  fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z {:<5} ",
                 date.tm_year + 1900, date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min,
                 date.tm_sec, now.tv_nsec / 1000, name_of(level));
}

void append_text(fmt::memory_buffer& line, std::string_view text) {
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '\n') {
      constexpr std::string_view kIndented = "\n  ";
      line.append(kIndented.begin(), kIndented.end());
    } else if ((code < 0x20 && character != '\t') || code == 0x7f) {
      line.push_back('?');
    } else {
      line.push_back(character);
    }
  }
}

/// A pipe takes so much in one piece; of what is longer, the lines of two threads would be mixed.
void end_line(fmt::memory_buffer& line) {
  constexpr std::string_view kCut = " [cut]";
  if (line.size() >= PIPE_BUF) {
    line.resize(PIPE_BUF - 1 - kCut.size());
    line.append(kCut.begin(), kCut.end());
  }
  line.push_back('\n');
}

/// Whether stderr takes PIPE_BUF bytes without waiting.
bool has_room() noexcept {
  ::pollfd wait{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&wait, 1, 0) > 0;
}

void write_at_once(std::string_view line) noexcept {
  while (!line.empty() && has_room()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void write_log_line(LogLevel level, fmt::string_view format, fmt::format_args arguments) noexcept {
  const int error = errno;  // the caller may be about to look at it
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, arguments);
  fmt::memory_buffer line;
  append_prefix(line, level);
  append_text(line, std::string_view(text.data(), text.size()));
  end_line(line);
  write_at_once(std::string_view(line.data(), line.size()));
  errno = error;
}

}  // namespace detail

void set_log_level(LogLevel level) noexcept {
  detail::current_log_level.store(level, std::memory_order_relaxed);
}

LogLevel log_level() noexcept {
  return detail::current_log_level.load(std::memory_order_relaxed);
}

}  // namespace pinion

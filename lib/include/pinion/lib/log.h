#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include <pinion/lib/export.h>

/// Log lines to stderr, for set-up, drain and what an operator must know; never per packet.
///
///   log_warn("{} of {} descriptors are in use", used, limit);
///   2026-03-01T12:00:00.123456Z warn  950 of 1000 descriptors are in use
///
/// Ownership:  none; the level is one for the whole process.
/// Threading:  any thread; a line is written whole, in one write(), and so has at most PIPE_BUF
///             (4096) bytes: a longer one is cut and ends in " [cut]".
/// Cost:       below the level, one load and a compare (the arguments are evaluated). Otherwise a
///             formatting, a clock read and two system calls: keep it off hot paths.
/// Errors:     a line that can't be written, or would have to wait for a terminal or for the reader
///             of a pipe, is lost: nobody waits for a log. In the text, further lines are indented
///             and other control characters become '?', so that no peer can forge a line. errno
///             stays what it was.

namespace pinion {

enum class LogLevel : std::uint8_t { debug, info, warn, error, off };

/// Lines below `level` are dropped. At the start it is info.
PINION_EXPORT void set_log_level(LogLevel level) noexcept;

[[nodiscard]] PINION_EXPORT LogLevel log_level() noexcept;

namespace detail {

PINION_EXPORT extern std::atomic<LogLevel> current_log_level;

PINION_EXPORT void write_log_line(LogLevel level, fmt::string_view format,
                                  fmt::format_args arguments) noexcept;

template <class... Arguments>
void log(LogLevel level, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (level < current_log_level.load(std::memory_order_relaxed)) return;
  write_log_line(level, format, fmt::make_format_args(arguments...));
}

}  // namespace detail

template <class... Arguments>
void log_debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  detail::log(LogLevel::debug, format, std::forward<Arguments>(arguments)...);
}

template <class... Arguments>
void log_info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  detail::log(LogLevel::info, format, std::forward<Arguments>(arguments)...);
}

template <class... Arguments>
void log_warn(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  detail::log(LogLevel::warn, format, std::forward<Arguments>(arguments)...);
}

template <class... Arguments>
void log_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  detail::log(LogLevel::error, format, std::forward<Arguments>(arguments)...);
}

}  // namespace pinion

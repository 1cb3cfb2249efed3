#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

namespace pinion::apps {

ProgramError::ProgramError(Error error, int exit_code)
    : error_(std::move(error)), exit_code_(exit_code) {}

void throw_usage_error(std::string what, std::string fix) {
  throw ProgramError(
      Error{.code = ErrorCode::invalid_argument, .what = std::move(what), .hint = std::move(fix)},
      kExitUsage);
}

void say(std::FILE* to, std::string_view text) noexcept {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), to));
  static_cast<void>(std::fflush(to));
}

namespace {

/// A closed standard stream would give its number to the next file or socket, and what is printed
/// would land there.
void occupy_standard_streams() noexcept {
  for (const int fd : std::array{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
  }
}

}  // namespace

int run_program(const std::function<int()>& body) {
  occupy_standard_streams();
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // A reader that left is no reason to die.
  try {
    return body();
  } catch (const ProgramError& error) {
    say(stderr, fmt::format("{}\n", to_string(error.error())));
    return error.exit_code();
  } catch (const std::exception& error) {
    say(stderr, fmt::format("error: {}\n", error.what()));
    return kExitFailed;
  }
}

}  // namespace pinion::apps

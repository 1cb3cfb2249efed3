#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <pinion/lib/assert.h>

#include "printer.h"
#include "text.h"

namespace pinion::apps {
namespace {

/// Of the program that runs, for stdout and stderr.
struct Printers {
  Printer out{STDOUT_FILENO};
  Printer errors{STDERR_FILENO};
};
Printers* printers = nullptr;

Printer& printer_of(std::FILE* stream) {
  PINION_ASSERT(printers != nullptr);
  return stream == stdout ? printers->out : printers->errors;
}

/// A closed standard stream would give its number to the next file or socket, and what is printed
/// would land there.
void occupy_standard_streams() noexcept {
  for (const int fd : std::array{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
  }
}

/// For a runtime, which reports on it: until there is one, and afterwards, it must not end the
/// process.
void hold_report_signal() noexcept {
  sigset_t report;
  sigemptyset(&report);
  sigaddset(&report, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &report, nullptr);
}

/// After all that is on stdout. An error has two lines, whatever the arguments hold that it shows.
void say_error(Error error) {
  settle(stdout);
  error.what = printable(error.what);
  error.hint = printable(error.hint);
  say(stderr, to_string(error) + "\n");
}

int exit_code_of(const std::function<int()>& body) {
  try {
    return body();
  } catch (const ProgramError& error) {
    say_error(error.error());
    return error.exit_code();
  } catch (const std::exception& error) {
    say_error(Error{.code = ErrorCode::io_error,
                    .what = error.what(),
                    .hint = "more memory, or a report of what was run"});
    return kExitFailed;
  }
}

}  // namespace

ProgramError::ProgramError(Error error, int exit_code)
    : error_(std::move(error)), exit_code_(exit_code) {}

void throw_usage_error(std::string what, std::string fix) {
  throw ProgramError(
      Error{.code = ErrorCode::invalid_argument, .what = std::move(what), .hint = std::move(fix)},
      kExitUsage);
}

void say(std::FILE* to, std::string text) {
  printer_of(to).print(std::move(text));
}

void settle(std::FILE* to) {
  static_cast<void>(printer_of(to).flush());
}

void print_answer(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write_waiting(STDOUT_FILENO, text);
    if (written < 0 && errno == EPIPE) return;
    if (written < 0) {
      throw ProgramError(errno_error(errno, "can't write to standard output",
                                     "a terminal, or a file on a device with room"),
                         kExitFailed);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void hold_signals() noexcept {
  sigset_t drain;
  sigemptyset(&drain);
  sigaddset(&drain, SIGTERM);
  sigaddset(&drain, SIGINT);
  pthread_sigmask(SIG_BLOCK, &drain, nullptr);
}

int run_program(const std::function<int()>& body) {
  hold_report_signal();
  occupy_standard_streams();
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // A reader that left is no reason to die.
  Printers own;
  printers = &own;
  const int code = exit_code_of(body);
  const bool out_ended = own.out.finish();
  const bool errors_ended = own.errors.finish();
  if (!out_ended || !errors_ended) _exit(code);
  printers = nullptr;
  return code;
}

}  // namespace pinion::apps

#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <pinion/lib/result.h>

/// How a program ends: an exit code that says what went wrong, and two lines that say what to do.
///
///   0  done                        1  it failed while or before running
///   2  it was used wrongly (an option, a setting, a file)
///
/// Programs use exceptions for what can't proceed at start; nothing is thrown on an lcore.

namespace pinion::apps {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

/// Carries an Error to run_program, and the exit code that goes with it.
class ProgramError : public std::exception {
 public:
  ProgramError(Error error, int exit_code);
  const char* what() const noexcept override { return error_.what.c_str(); }
  const Error& error() const noexcept { return error_; }
  int exit_code() const noexcept { return exit_code_; }

 private:
  Error error_;
  int exit_code_;
};

/// Wrong use: exit code 2.
[[noreturn]] void throw_usage_error(std::string what, std::string fix);

/// The value, or the end of the program with the error and its hint. What was asked for wrongly
/// (ErrorCode::invalid_argument) is wrong use, everything else a failure.
template <class T>
T must(Result<T> result) {
  if (!result) {
    const bool usage = result.error().code == ErrorCode::invalid_argument;
    throw ProgramError(std::move(result.error()), usage ? kExitUsage : kExitFailed);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Prints on stdout or stderr from a thread of its own (printer.h), in order for each of them: no
/// lcore and no thread that acts on signals waits for a terminal. What can't be printed is lost,
/// and ends nothing.
void say(std::FILE* to, std::string text);

/// Waits until what was said there is printed, or its reader stands still.
void settle(std::FILE* to);

/// Prints what the program was asked for, and waits for the reader. What can't be written is an
/// error; a reader that left had enough.
void print_answer(std::string_view text);

/// From here on SIGTERM and SIGINT wait for the runtime, which acts also on one that came before it
/// ran. They stay held: what follows a run is over in a moment.
void hold_signals() noexcept;

/// Runs `body`, with SIGUSR1 held, and returns the process's exit code; an error is printed on
/// stderr as "error: …" and "fix: …". Ends the process itself when a reader stands still in the
/// end.
[[nodiscard]] int run_program(const std::function<int()>& body);

}  // namespace pinion::apps

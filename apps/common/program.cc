#include "program.h"

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

int run_program(const std::function<int()>& body) {
  try {
    return body();
  } catch (const ProgramError& error) {
    fmt::print(stderr, "{}\n", to_string(error.error()));
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace pinion::apps

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <pinion/lib/export.h>
#include <tl/expected.hpp>

/// Results of what may fail during set-up, with an error that a person can act on.
///
/// Ownership:  an Error owns its text.
/// Threading:  plain values.
/// Cost:       an Error allocates; it belongs to set-up, never to a packet.
/// Errors:     look before you take: `if (!result) …`, then `*result`. Don't call value(): it
///             throws, and the library is built without exceptions.

namespace pinion {

enum class ErrorCode : std::uint8_t {
  invalid_argument,
  not_found,
  already_exists,
  permission_denied,
  resource_exhausted,
  unavailable,
  unsupported,
  io_error,
  cancelled,
  timed_out,
};

/// The code's name, as it is spelled in the enumeration.
[[nodiscard]] PINION_EXPORT std::string_view to_string(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::io_error;
  std::string what;  ///< What could not be done and why, in lower case, without a full stop.
  std::string hint;  ///< A command to run or a setting to change; empty when there is none.
};

/// What a person reads: `error: …`, and `fix: …` on a second line when there is a hint. No newline
/// at the end.
[[nodiscard]] PINION_EXPORT std::string to_string(const Error& error);

/// Functions that return one are [[nodiscard]].
template <class T = void>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::not_found, "no file echo.toml", "--config PATH");`
[[nodiscard]] PINION_EXPORT tl::unexpected<Error> fail(ErrorCode code, std::string what,
                                                       std::string hint = {});

/// The error of a system call: `what`, a colon, and the system's words for `errno_value` (a
/// positive errno, or the negative one that io_uring returns).
[[nodiscard]] PINION_EXPORT Error errno_error(int errno_value, std::string what,
                                              std::string hint = {});

}  // namespace pinion
